#include "emulator/memory/window.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/sanitizer.h"

namespace kiln::emulator {
namespace {

constexpr std::uint64_t kGiB = 1ull << 30;
// ThreadSanitizer leaves programs few addresses.
constexpr std::uint64_t kLargestWindow = kThreadSanitizer ? 32 * kGiB : 1024 * kGiB;
constexpr std::uint64_t kSmallestWindow = 8 * kGiB;

// Past the interceptors of sanitizers, which would prepare shadow memory for all of it.
void* map_pages(std::uint64_t at, std::uint64_t bytes, int protection, int flags, int file,
                std::uint64_t offset) {
  const long result = syscall(SYS_mmap, at, bytes, protection, flags, file, offset);
  return result == -1 ? nullptr : reinterpret_cast<void*>(result);
}

}  // namespace

MemoryFile::MemoryFile(const char* name, std::uint64_t bytes)
    : descriptor_(memfd_create(name, MFD_CLOEXEC)) {
  if (descriptor_ >= 0 && ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) {
    close(descriptor_);
    descriptor_ = -1;
  }
}

MemoryFile::~MemoryFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void MemoryFile::discard(std::uint64_t offset, std::uint64_t bytes) {
  fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
}

std::uint64_t reserve_addresses(std::uint64_t bytes, std::uint64_t alignment) {
  void* found = map_pages(0, bytes + alignment, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == nullptr) return 0;
  const auto begin = reinterpret_cast<std::uint64_t>(found);
  const std::uint64_t first = (begin + alignment - 1) & ~(alignment - 1);
  if (first > begin) syscall(SYS_munmap, begin, first - begin);
  syscall(SYS_munmap, first + bytes, begin + alignment - first);
  return first;
}

Window::Window(std::uint32_t devices) {
  // Views lie behind the window in one piece, so that their distances are multiples of its size.
  for (bytes_ = kLargestWindow; bytes_ >= kSmallestWindow; bytes_ /= 2) {
    first_ = reserve_addresses(bytes_ * (1 + devices), bytes_);
    if (first_ != 0) break;
  }
  if (first_ == 0)
    throw ValueError(
        format("The emulator could not reserve {} bytes of addresses for its {} devices: the "
               "process has a limit. Raise the limit (ulimit -v) or ask for fewer devices with "
               "KILN_EMULATOR_DEVICES.",
               kSmallestWindow * (1 + devices), devices));
  const std::uint64_t scratch = bytes_ / 8;
  for (std::uint32_t device = 0; device < devices; ++device) {
    DeviceView view;
    view.base = reinterpret_cast<std::byte*>(bytes_ * (device + 1));
    view.first = first_;
    view.last = first_ + bytes_;
    view.scratch_first = view.last - scratch;
    view.scratch_last = view.last;
    view.device = device;
    views_.push_back(view);
    const auto at = reinterpret_cast<std::uint64_t>(place(device, view.scratch_first));
    map_pages(at, scratch, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  }
}

void* Window::place(std::uint32_t device, std::uint64_t address) const {
  const std::uint64_t distance = device == kHost ? 0 : bytes_ * (device + 1);
  return reinterpret_cast<void*>(address + distance);
}

bool Window::map(std::uint32_t device, std::uint64_t address, std::uint64_t bytes, int file,
                 std::uint64_t offset, bool writable) {
  return map_pages(reinterpret_cast<std::uint64_t>(place(device, address)), bytes,
                   writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED | MAP_FIXED, file,
                   offset) != nullptr;
}

void Window::unmap(std::uint32_t device, std::uint64_t address, std::uint64_t bytes) {
  map_pages(reinterpret_cast<std::uint64_t>(place(device, address)), bytes, PROT_NONE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

}  // namespace kiln::emulator
