#pragma once

// What kiln uses of the CUDA driver's binary interface. Facts of the interface, so that neither
// the toolkit nor its headers are needed to build.

#include <cstddef>
#include <cstdint>

namespace kiln::driver::cuda {

using Result = int;
using DeviceNumber = int;
using DevicePointer = std::uint64_t;
using Context = struct ContextTag*;
using Stream = struct StreamTag*;
using NativeEvent = struct EventTag*;

inline constexpr Result kSuccess = 0;
inline constexpr Result kNotReady = 600;

// Attributes of devices.
inline constexpr int kIntegrated = 18;
inline constexpr int kComputeCapabilityMajor = 75;
inline constexpr int kComputeCapabilityMinor = 76;

// Flags.
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDefault = 0;
inline constexpr unsigned kHostPortable = 1;
inline constexpr unsigned kHostDeviceMap = 2;
inline constexpr unsigned kWaitGreaterOrEqual = 0;
inline constexpr unsigned kWaitEqual = 1;

// Attributes of the memory of device graphs.
inline constexpr int kGraphMemoryUsed = 0;
inline constexpr int kGraphMemoryReserved = 2;

}  // namespace kiln::driver::cuda
