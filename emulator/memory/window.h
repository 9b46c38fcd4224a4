#pragma once

#include <cstdint>
#include <vector>

#include "emulator/memory/device_view.h"

namespace kiln::emulator {

/// Pages of a file, the physical memory behind addresses. The descriptor closes with the last user.
class MemoryFile {
 public:
  /// A new file of zeros; -1 in `descriptor()` when the system has none to give.
  MemoryFile(const char* name, std::uint64_t bytes);
  /// Takes over a descriptor.
  explicit MemoryFile(int descriptor) : descriptor_(descriptor) {}
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int descriptor() const { return descriptor_; }
  /// Gives the pages back to the system; they read as zeros afterwards.
  void discard(std::uint64_t offset, std::uint64_t bytes);

 private:
  int descriptor_ = -1;
};

/// The window of device addresses, and one view of equal size for each device at a constant
/// distance from it. Nothing of it can be touched until it is mapped. Mapping is thread-safe as far
/// as different ranges go. Lives as long as the process.
class Window {
 public:
  /// Throws ValueError when the process has no addresses to give.
  explicit Window(std::uint32_t devices);

  std::uint32_t devices() const { return static_cast<std::uint32_t>(views_.size()); }
  const DeviceView& view(std::uint32_t device) const { return views_[device]; }
  DeviceView& view(std::uint32_t device) { return views_[device]; }
  std::uint64_t first() const { return first_; }
  std::uint64_t bytes() const { return bytes_; }
  /// Whether [address, address + bytes) lies within the window.
  bool contains(std::uint64_t address, std::uint64_t bytes = 1) const {
    return address - first_ < bytes_ && bytes <= bytes_ - (address - first_);
  }

  /// Maps pages of a file where a device sees them, or, for `kHost`, where the process does.
  /// False when the system refused.
  bool map(std::uint32_t device, std::uint64_t address, std::uint64_t bytes, int file,
           std::uint64_t offset, bool writable);
  void unmap(std::uint32_t device, std::uint64_t address, std::uint64_t bytes);
  static constexpr std::uint32_t kHost = ~0u;

 private:
  void* place(std::uint32_t device, std::uint64_t address) const;

  std::uint64_t first_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<DeviceView> views_;
};

/// Addresses that nothing else of the process uses: reserved, untouchable, aligned to `alignment`
/// (a power of two); 0 when there are none.
std::uint64_t reserve_addresses(std::uint64_t bytes, std::uint64_t alignment);

}  // namespace kiln::emulator
