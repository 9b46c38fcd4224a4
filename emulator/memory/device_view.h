#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace kiln::emulator {

/// How many devices there may be at most.
inline constexpr std::uint32_t kMaxDevices = 8;

/// How a device sees memory. Device addresses are one reserved window of the process's own
/// addresses, in which nothing can be read; what a kernel reads at device address `a` lies at
/// `base + a`, where this device has mapped what it may reach and nothing else. Pinned host memory
/// lies in the window too, readable there, so that its address serves host and devices.
struct DeviceView {
  std::byte* base = nullptr;  // `base + address` is the memory of an address
  std::uint64_t first = 0;    // the window: device addresses [first, last), a power of two long
  std::uint64_t last = 0;     // and aligned to its length
  std::uint64_t scratch_first = 0;  // within it, for shared and local memory of resident blocks:
  std::uint64_t scratch_last = 0;   // readable and writable, untouched pages cost nothing
  std::uint32_t device = 0;

  /// Only with KILN_EMULATOR_CHECK=memory, else null: `bounds[(a - first) >> 3]` says which of the
  /// 8 bytes from address `a` (a multiple of 8) may be touched where pages are mapped: 0 all of
  /// them, 1..7 only so many from the front, 255 none.
  const std::uint8_t* bounds = nullptr;
  /// Only with KILN_EMULATOR_CHECK=init, else null: `written[a - first]` is not 0 once the byte at
  /// `a` was written, by a copy, a fill, or a kernel (which sets it with its stores). Host memory
  /// counts as written.
  std::uint8_t* written = nullptr;
};

/// Where the replicas of multicast memory lie: fills `replicas` with one pointer for each member
/// device, in the order of devices, and returns their number; 0 when `view`'s device may not reach
/// all of [address, address + bytes) as multicast memory, or a member has no memory bound there.
/// Thread-safe and without locks. Unbinding waits for nobody: a kernel that still runs then
/// may write to memory that is no longer bound.
std::uint32_t multicast_replicas(const DeviceView& view, std::uint64_t address, std::uint64_t bytes,
                                 std::byte* replicas[kMaxDevices]);

/// What lies at an address, for reports: "16 bytes behind the 4096 bytes at 0x… of device 0
/// (cuMemAlloc, allocation 12)". Empty when nothing is known. Thread-safe.
std::string describe_address(std::uint64_t address);

}  // namespace kiln::emulator
