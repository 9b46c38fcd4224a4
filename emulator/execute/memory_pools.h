#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/memory/device_view.h"

namespace kiln::emulator {

/// Memory for stacks, with a page at the low end that cannot be touched. Comes from a pool and goes
/// back to it.
class StackMemory {
 public:
  StackMemory() = default;
  /// Throws std::bad_alloc when the system has no more.
  explicit StackMemory(std::size_t bytes);
  StackMemory(StackMemory&& other) noexcept;
  StackMemory& operator=(StackMemory&& other) noexcept;
  ~StackMemory();
  std::byte* begin() const { return begin_; }
  std::byte* end() const { return begin_ + bytes_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* begin_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A part of a view's scratch range; goes back with the object.
class ScratchMemory {
 public:
  ScratchMemory() = default;
  /// Nothing (empty) when the range has no room.
  ScratchMemory(const DeviceView& view, std::uint64_t bytes);
  ScratchMemory(ScratchMemory&& other) noexcept;
  ScratchMemory& operator=(ScratchMemory&& other) noexcept;
  ~ScratchMemory();
  bool empty() const { return bytes_ == 0; }
  std::uint64_t address() const { return address_; }  // a multiple of 4096
  std::uint64_t bytes() const { return bytes_; }

 private:
  void* pool_ = nullptr;
  std::uint64_t address_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace kiln::emulator
