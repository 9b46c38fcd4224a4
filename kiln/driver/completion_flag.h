#pragma once

#include <cstdint>

#include "kiln/driver/buffer.h"

namespace kiln::driver {

/// One unsigned 64-bit cell in page-locked host memory that the device sees, at first 0: the host
/// or a kernel signals, `DeviceQueue::wait_for_host_value` waits. A small value; copies name the
/// same cell. Safe from any thread.
class CompletionFlag {
 public:
  /// A device whose api is not `cuda`: RuntimeError.
  explicit CompletionFlag(const Device& device);

  /// The cell's address as kernels know it.
  std::uintptr_t device_ptr() const;
  /// Stores 0.
  void reset() const { signal(0); }
  /// Stores with release order.
  void signal(std::uint64_t value) const;
  /// Reads with acquire order.
  std::uint64_t load() const;

 private:
  Buffer cell_;
};

}  // namespace kiln::driver
