#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kiln {

/// A path with a NUL character, which system calls would cut there: ValueError.
void check_path(const std::string& path);

/// Throws for a failed call on `path`: FileNotFoundError when the file is not there, otherwise
/// RuntimeError with the path and the system's text. `what` is such as "could not be read".
[[noreturn]] void throw_file_error(const std::string& path, std::string_view what,
                                   int error_number);
/// As above, with a reason in place of the system's text.
[[noreturn]] void throw_file_error(const std::string& path, std::string_view what, int error_number,
                                   std::string_view reason);

/// A descriptor, or what kept the file from being opened: the system's number and a text.
struct OpenedFile {
  int fd = -1;
  int error = 0;
  std::string reason;
};
/// Opens a regular file; `flags` and `mode` as open(2) has them. Refuses pipes, sockets and
/// devices, which have no size and may let the caller wait for ever.
OpenedFile open_regular_file(const std::string& path, int flags, unsigned mode = 0);

/// The whole file; also what a pipe or a device gives until it ends.
std::string read_file(const std::string& path);
/// Size in bytes.
std::uint64_t file_size(const std::string& path);
bool file_exists(const std::string& path);

/// Replaces the file as a whole: writes beside it, then renames, so that readers see the old or the
/// new content and a crash leaves the old one. Devices and pipes are written to as they are.
void write_file(const std::string& path, std::span<const std::string_view> parts);
inline void write_file(const std::string& path, std::string_view content) {
  write_file(path, std::span<const std::string_view>(&content, 1));
}

/// Bytes of a file mapped into memory; unmapped with the object. Moves, does not copy.
class MappedFile {
 public:
  enum class Mode {
    read_only,
    /// Writes stay private.
    copy_on_write,
    /// Writes reach the file; it must be long enough.
    shared,
  };

  MappedFile() = default;
  /// Maps `size` bytes from `offset`, which needs no alignment; nothing for size 0. The file's end
  /// before offset + size: ValueError.
  MappedFile(const std::string& path, Mode mode, std::uint64_t offset, std::size_t size);
  /// The whole file, read-only.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  void* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void map(int fd, const std::string& path, Mode mode, std::uint64_t offset, std::size_t size);

  void* base_ = nullptr;
  std::size_t mapped_ = 0;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace kiln
