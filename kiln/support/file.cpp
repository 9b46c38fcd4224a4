#include "kiln/support/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln {
namespace {

/// Closes on every way out.
struct Descriptor {
  int fd;
  explicit Descriptor(int fd) : fd(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

int open_retrying(const std::string& path, int flags, mode_t mode = 0) {
  check_path(path);
  int fd = -1;
  do fd = open(path.c_str(), flags | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  return fd;
}

struct stat status_of(int fd, const std::string& path) {
  struct stat status{};
  if (fstat(fd, &status) != 0) throw_file_error(path, "could not be examined", errno);
  if (S_ISDIR(status.st_mode)) throw_file_error(path, "could not be read", EISDIR);
  return status;
}

/// What kind of file is no regular one.
std::string_view kind_of(mode_t mode) {
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return S_ISCHR(mode) || S_ISBLK(mode) ? "a device" : "something else";
}

/// A regular file and its status; throws for others.
std::pair<int, struct stat> open_to_map(const std::string& path, int flags) {
  const OpenedFile file = open_regular_file(path, flags);
  if (file.fd < 0) throw_file_error(path, "could not be opened", file.error, file.reason);
  struct stat status{};
  if (fstat(file.fd, &status) == 0) return {file.fd, status};
  const int error = errno;
  close(file.fd);
  throw_file_error(path, "could not be examined", error);
}

/// What is read of a pipe or a device, which tells no size and may never end.
constexpr std::size_t kMostOfStream = 256 << 20;

}  // namespace

void check_path(const std::string& path) {
  if (path.find('\0') == std::string::npos) return;
  std::string shown;
  for (char c : path) shown += c == '\0' ? std::string("\\0") : std::string(1, c);
  throw ValueError(
      format("The path '{}' holds a NUL character, which no file name may; check it.", shown));
}

void throw_file_error(const std::string& path, std::string_view what, int error_number,
                      std::string_view reason) {
  const std::string text = format("The file '{}' {}: {}.", path, what, reason);
  if (error_number == ENOENT) throw FileNotFoundError(text);
  throw RuntimeError(text);
}

void throw_file_error(const std::string& path, std::string_view what, int error_number) {
  throw_file_error(path, what, error_number, std::strerror(error_number));
}

OpenedFile open_regular_file(const std::string& path, int flags, unsigned mode) {
  // Without waiting for whoever has the other end of a pipe.
  const int fd = open_retrying(path, flags | O_NONBLOCK | O_NOCTTY, mode);
  const int error = fd < 0 ? errno : 0;
  struct stat status{};
  if ((fd < 0 ? stat(path.c_str(), &status) : fstat(fd, &status)) == 0 &&
      !S_ISREG(status.st_mode)) {
    if (fd >= 0) close(fd);
    if (S_ISDIR(status.st_mode)) return {-1, EISDIR, std::strerror(EISDIR)};
    return {-1, EINVAL, format("It is {}, not a regular file", kind_of(status.st_mode))};
  }
  return {fd, error, fd < 0 ? std::strerror(error) : ""};
}

std::string read_file(const std::string& path) {
  const Descriptor file(open_retrying(path, O_RDONLY));
  if (file.fd < 0) throw_file_error(path, "could not be opened", errno);
  std::string content;
  const struct stat status = status_of(file.fd, path);
  content.resize(static_cast<std::size_t>(status.st_size));
  std::size_t filled = 0;
  for (;;) {
    // Pipes and files of /proc report no size and are read until they end.
    if (filled >= kMostOfStream && !S_ISREG(status.st_mode))
      throw RuntimeError(
          format("The file '{}' could not be read: it is no regular file and has not ended after "
                 "{} MiB. Save what it gives to a regular file.",
                 path, kMostOfStream >> 20));
    if (filled == content.size()) content.resize(filled + 65536);
    const ssize_t got = read(file.fd, content.data() + filled, content.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_file_error(path, "could not be read", errno);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  content.resize(filled);
  return content;
}

std::uint64_t file_size(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) throw_file_error(path, "could not be examined", errno);
  return static_cast<std::uint64_t>(status.st_size);
}

bool file_exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

namespace {

/// 0, or what the system says.
int write_all(int fd, std::span<const std::string_view> parts) {
  for (std::string_view part : parts) {
    while (!part.empty()) {
      const ssize_t written = write(fd, part.data(), part.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return errno;
      part.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  return 0;
}

/// Whether `path` is a device or a pipe, which a rename would put a file in the place of.
bool is_special(const std::string& path) {
  struct stat status{};
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

}  // namespace

void write_file(const std::string& path, std::span<const std::string_view> parts) {
  if (is_special(path)) {
    const Descriptor file(open_retrying(path, O_WRONLY));
    if (file.fd < 0) throw_file_error(path, "could not be written", errno);
    if (const int error = write_all(file.fd, parts); error != 0)
      throw_file_error(path, "could not be written", error);
    return;
  }
  std::string temporary = path + ".XXXXXX";
  const Descriptor file(mkostemp(temporary.data(), O_CLOEXEC));
  if (file.fd < 0) throw_file_error(path, "could not be written", errno);
  const auto fail = [&](int error) {
    unlink(temporary.c_str());
    throw_file_error(path, "could not be written", error);
  };
  if (const int error = write_all(file.fd, parts); error != 0) fail(error);
  // mkostemp makes private files; a new file gets what open() would have given it.
  const mode_t mask = umask(0);
  umask(mask);
  if (fchmod(file.fd, 0666 & ~mask) != 0) fail(errno);
  if (rename(temporary.c_str(), path.c_str()) != 0) fail(errno);
}

MappedFile::MappedFile(const std::string& path, Mode mode, std::uint64_t offset, std::size_t size) {
  const auto [fd, status] = open_to_map(path, mode == Mode::shared ? O_RDWR : O_RDONLY);
  const Descriptor file(fd);
  const auto length = static_cast<std::uint64_t>(status.st_size);
  if (offset > length || size > length - offset)
    throw ValueError(format("The file '{}' has {} bytes, too few for {} bytes at offset {}.", path,
                            length, size, offset));
  map(file.fd, path, mode, offset, size);
}

MappedFile::MappedFile(const std::string& path) {
  const auto [fd, status] = open_to_map(path, O_RDONLY);
  const Descriptor file(fd);
  map(file.fd, path, Mode::read_only, 0, static_cast<std::size_t>(status.st_size));
}

void MappedFile::map(int fd, const std::string& path, Mode mode, std::uint64_t offset,
                     std::size_t size) {
  if (size == 0) return;
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t start = offset / page * page;
  const std::size_t extra = static_cast<std::size_t>(offset - start);
  const int protection = mode == Mode::read_only ? PROT_READ : PROT_READ | PROT_WRITE;
  void* base = mmap(nullptr, size + extra, protection,
                    mode == Mode::shared ? MAP_SHARED : MAP_PRIVATE, fd, static_cast<off_t>(start));
  if (base == MAP_FAILED) throw_file_error(path, "could not be mapped into memory", errno);
  base_ = base;
  mapped_ = size + extra;
  data_ = static_cast<char*>(base) + extra;
  size_ = size;
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(mapped_, other.mapped_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (base_) munmap(base_, mapped_);
}

}  // namespace kiln
