#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "kiln/driver/buffer.h"
#include "kiln/dtype/element.h"
#include "kiln/support/error.h"
#include "kiln/support/file.h"
#include "kiln/support/format.h"
#include "kiln/support/process.h"

// Buffers over files: Buffer::mmap and load_max_buffer.

namespace kiln::driver {
namespace {

enum class MmapMode { copy_on_write, read_only, read_write, create };

MmapMode mode_from_string(const std::string& mode) {
  if (mode == "copyonwrite" || mode == "c") return MmapMode::copy_on_write;
  if (mode == "readonly" || mode == "r") return MmapMode::read_only;
  if (mode == "readwrite" || mode == "r+") return MmapMode::read_write;
  if (mode == "write" || mode == "w+") return MmapMode::create;
  throw ValueError(
      format("Buffer.mmap: the mode '{}' is unknown; choose 'copyonwrite' ('c'), "
             "'readonly' ('r'), 'readwrite' ('r+') or 'write' ('w+').",
             mode));
}

/// Makes the file at least `bytes` long, for 'w+' with nothing of what it held. A length that the
/// system refuses leaves the file as it was.
void lengthen(const std::string& path, MmapMode mode, std::uint64_t bytes) {
  const bool fresh = mode == MmapMode::create;
  const int flags = fresh ? O_RDWR | O_CREAT : O_RDWR;
  const OpenedFile file = open_regular_file(path, flags, 0666);
  const int fd = file.fd;
  if (fd < 0) throw_file_error(path, "could not be opened for writing", file.error, file.reason);
  struct stat status{};
  int error = 0;
  if (fstat(fd, &status) != 0) error = errno;
  if (error == 0 && static_cast<std::uint64_t>(status.st_size) < bytes &&
      ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    error = errno;
  if (error == 0 && fresh &&
      (ftruncate(fd, 0) != 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0))
    error = errno;
  close(fd);
  if (error != 0)
    throw_file_error(path, format("could not be lengthened to {} bytes", bytes), error);
}

/// Reads little-endian fields of a checkpoint, which may end anywhere.
class CheckpointReader {
 public:
  CheckpointReader(const std::string& path, std::string_view content)
      : path_(path), content_(content) {}

  std::string_view take(std::uint64_t bytes) {
    if (bytes > content_.size() - position_) throw_truncated();
    const std::string_view part = content_.substr(position_, bytes);
    position_ += bytes;
    return part;
  }
  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  [[noreturn]] void throw_truncated() const { throw ValueError(format("{} is truncated", path_)); }

 private:
  const std::string& path_;
  std::string_view content_;
  std::uint64_t position_ = 0;
};

constexpr std::string_view kCheckpointMagic = "\x93\xF0\x9F\x94\xA5\x2B\x2B\x93";

}  // namespace

Buffer Buffer::mmap(const std::string& path, DType dtype, const Shape& shape,
                    const MmapOptions& options) {
  check_call("Buffer.mmap");
  const MmapMode mode = mode_from_string(options.mode);
  if (options.offset < 0)
    throw ValueError(
        format("Buffer.mmap: the offset is {}, but must be 0 or more.", options.offset));
  const std::size_t bytes = bytes_for(dtype, kiln::num_elements(shape));
  const auto offset = static_cast<std::uint64_t>(options.offset);
  const bool writes = mode == MmapMode::read_write || mode == MmapMode::create;
  if (writes) lengthen(path, mode, bytes > 0 || mode == MmapMode::create ? offset + bytes : 0);
  if (bytes == 0) {
    file_size(path);  // throws when the file is not there
    return Buffer(dtype, shape);
  }
  auto file = std::make_shared<MappedFile>(path,
                                           mode == MmapMode::read_only ? MappedFile::Mode::read_only
                                           : writes ? MappedFile::Mode::shared
                                                    : MappedFile::Mode::copy_on_write,
                                           offset, bytes);
  if (mode == MmapMode::read_only) {
    Buffer copy(dtype, shape);
    std::memcpy(copy.data(), file->data(), bytes);
    return copy;
  }
  void* data = file->data();
  return adopt(data, dtype, shape, nullptr, CPU(), [file = std::move(file)] {});
}

Buffer load_max_buffer(const std::string& path) {
  check_call("load_max_buffer");
  const MappedFile file(path);
  CheckpointReader reader(path, file.bytes());
  if (!file.bytes().starts_with(kCheckpointMagic))
    throw ValueError(
        format("{} is not a max checkpoint. Plain binary dumps are read with "
               "`Buffer.mmap`.",
               path));
  reader.take(kCheckpointMagic.size());
  const auto major = reader.number<std::uint32_t>();
  reader.number<std::uint32_t>();
  if (major > 0) throw ValueError("Unable to read from version > 0.");
  const auto metadata_size = reader.number<std::uint64_t>();
  const auto key_length = reader.number<std::uint32_t>();
  reader.take(key_length);
  const DType dtype = DType::from_code(reader.number<std::uint8_t>());
  const auto rank = reader.number<std::uint8_t>();
  if (metadata_size != 4 + std::uint64_t{key_length} + 2 + 4 * std::uint64_t{rank} + 8)
    throw ValueError("Multiple buffers found in .max file. This is currently not supported.");
  Shape shape;
  for (int axis = 0; axis < rank; ++axis) shape.push_back(reader.number<std::uint32_t>());
  const auto offset = reader.number<std::uint64_t>();
  const std::size_t bytes = bytes_for(dtype, kiln::num_elements(shape));
  if (offset > file.size() || bytes > file.size() - offset) reader.throw_truncated();
  Buffer buffer(dtype, shape);
  if (bytes > 0) std::memcpy(buffer.data(), static_cast<const char*>(file.data()) + offset, bytes);
  return buffer;
}

}  // namespace kiln::driver
