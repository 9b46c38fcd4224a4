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
using NativeModule = struct ModuleTag*;
using NativeFunction = struct FunctionTag*;
using NativeGraph = struct GraphTag*;
using NativeGraphExec = struct GraphExecTag*;
using NativeGraphNode = struct GraphNodeTag*;
using MemoryHandle = std::uint64_t;

/// CUlaunchAttribute: the id and 64 bytes of value.
struct NativeLaunchAttribute {
  int id = 0;
  char pad[4] = {};
  alignas(8) unsigned char value[64] = {};
};
/// CUlaunchConfig.
struct NativeLaunchConfig {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  Stream stream = nullptr;
  const NativeLaunchAttribute* attributes = nullptr;
  unsigned num_attributes = 0;
};
/// CUDA_KERNEL_NODE_PARAMS of version 2.
struct KernelNodeParams {
  NativeFunction function = nullptr;
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  void** arguments = nullptr;
  void** extra = nullptr;
  void* kernel = nullptr;
  Context context = nullptr;
};
/// CUDA_MEMSET_NODE_PARAMS.
struct FillNodeParams {
  DevicePointer destination = 0;
  std::size_t pitch = 0;
  unsigned value = 0;
  unsigned element_bytes = 1;
  std::size_t width = 0, height = 1;
};
/// One end of a copy in CUDA_MEMCPY3D.
struct CopyEnd {
  std::size_t x = 0, y = 0, z = 0, level = 0;
  unsigned memory_type = 0;
  const void* host = nullptr;
  DevicePointer device = 0;
  void* array = nullptr;
  void* reserved = nullptr;
  std::size_t pitch = 0, height = 0;
};
/// CUDA_MEMCPY3D.
struct CopyNodeParams {
  CopyEnd source, destination;
  std::size_t width = 0, height = 1, depth = 1;
};
/// CUmemLocation, CUmemAllocationProp, CUmemAccessDesc, CUmulticastObjectProp.
struct MemoryLocation {
  int type = 0;
  int id = 0;
};
struct AllocationProperties {
  int type = 0;
  int handle_types = 0;
  MemoryLocation location;
  void* windows = nullptr;
  unsigned char flags[8] = {};
};
struct AccessDescription {
  MemoryLocation location;
  int flags = 0;
};
struct MulticastProperties {
  unsigned num_devices = 0;
  std::size_t size = 0;
  std::uint64_t handle_types = 0;
  std::uint64_t flags = 0;
};

inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidValue = 1;
inline constexpr Result kNotFound = 500;
inline constexpr Result kNotReady = 600;

// Attributes of devices.
inline constexpr int kIntegrated = 18;
inline constexpr int kComputeCapabilityMajor = 75;
inline constexpr int kComputeCapabilityMinor = 76;
inline constexpr int kMulticastSupported = 132;

// Flags.
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDefault = 0;
inline constexpr unsigned kHostPortable = 1;
inline constexpr unsigned kHostDeviceMap = 2;
inline constexpr unsigned kWaitGreaterOrEqual = 0;
inline constexpr unsigned kWaitEqual = 1;
inline constexpr unsigned kMemoryHost = 1;
inline constexpr unsigned kMemoryDevice = 2;
inline constexpr unsigned kMemoryUnified = 4;
inline constexpr int kAllocationPinned = 1;
inline constexpr int kLocationDevice = 1;
inline constexpr int kAccessReadWrite = 3;
inline constexpr unsigned kGranularityRecommended = 1;

// Options of the loader.
inline constexpr int kLoadInfoLog = 3;
inline constexpr int kLoadInfoLogBytes = 4;
inline constexpr int kLoadErrorLog = 5;
inline constexpr int kLoadErrorLogBytes = 6;

// Attributes of the memory of device graphs.
inline constexpr int kGraphMemoryUsed = 0;
inline constexpr int kGraphMemoryReserved = 2;

}  // namespace kiln::driver::cuda
