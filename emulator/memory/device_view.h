#pragma once

#include <cstddef>
#include <cstdint>

namespace kiln::emulator {

/// How a device sees memory. Device addresses are one reserved window of the process's own
/// addresses, in which nothing can be read; what a kernel reads at device address `a` lies at
/// `base + a`, where this device has mapped what it may reach and nothing else. Pinned host memory
/// lies in the window too, readable there, so that its address serves host and devices.
struct DeviceView {
  std::byte* base = nullptr;  // `base + address` is the memory of an address
  std::uint64_t first = 0;    // the window: device addresses [first, last)
  std::uint64_t last = 0;
  std::uint64_t scratch_first = 0;  // within it, for shared and local memory of resident blocks:
  std::uint64_t scratch_last = 0;   // readable and writable, untouched pages cost nothing
};

}  // namespace kiln::emulator
