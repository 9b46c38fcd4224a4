#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "kiln/gpu/dim.h"

namespace kiln::gpu {

/// What a device can do. Codes below 1000 are CUDA's own; any other number of CUDA's may be cast.
enum class DeviceAttribute : int {
  MAX_THREADS_PER_BLOCK = 1,
  MAX_BLOCK_DIM_X = 2,
  MAX_BLOCK_DIM_Y = 3,
  MAX_BLOCK_DIM_Z = 4,
  MAX_GRID_DIM_X = 5,
  MAX_GRID_DIM_Y = 6,
  MAX_GRID_DIM_Z = 7,
  MAX_SHARED_MEMORY_PER_BLOCK = 8,
  WARP_SIZE = 10,
  MAX_REGISTERS_PER_BLOCK = 12,
  CLOCK_RATE = 13,
  MULTIPROCESSOR_COUNT = 16,
  MAX_THREADS_PER_MULTIPROCESSOR = 39,
  COMPUTE_CAPABILITY_MAJOR = 75,
  COMPUTE_CAPABILITY_MINOR = 76,
  MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
  MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
  COOPERATIVE_LAUNCH = 95,
  MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
  MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
  MAX_ACCESS_POLICY_WINDOW_SIZE = 109,
  PARALLELISM_LEVEL = 1000,
};
/// "MAX_GRID_DIM_X", or the number of an attribute without a name here.
std::string to_string(DeviceAttribute attribute);

/// What a compiled kernel needs and how it is configured.
enum class Attribute : int {
  MAX_THREADS_PER_BLOCK = 0,
  SHARED_SIZE_BYTES = 1,
  CONST_SIZE_BYTES = 2,
  LOCAL_SIZE_BYTES = 3,
  NUM_REGS = 4,
  PTX_VERSION = 5,
  BINARY_VERSION = 6,
  CACHE_MODE_CA = 7,
  MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
  CLUSTER_SIZE_MUST_BE_SET = 10,
  REQUIRED_CLUSTER_WIDTH = 11,
  REQUIRED_CLUSTER_HEIGHT = 12,
  REQUIRED_CLUSTER_DEPTH = 13,
  NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
  CLUSTER_SCHEDULING_POLICY_PREFERENCE = 15,
};
std::string to_string(Attribute attribute);

/// A setting of one kernel, for CompileOptions and LoadOptions. Only the maximum dynamic shared
/// size and the carveout can be set.
struct FuncAttribute {
  std::int32_t attribute = -1;
  std::int32_t value = -1;

  static constexpr FuncAttribute CACHE_MODE_CA(bool value) {
    return {static_cast<std::int32_t>(Attribute::CACHE_MODE_CA), value ? 1 : 0};
  }
  static constexpr FuncAttribute MAX_DYNAMIC_SHARED_SIZE_BYTES(std::uint32_t bytes) {
    return {static_cast<std::int32_t>(Attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES),
            static_cast<std::int32_t>(bytes)};
  }
  static constexpr FuncAttribute PREFERRED_SHARED_MEMORY_CARVEOUT(int percent) {
    return {static_cast<std::int32_t>(Attribute::PREFERRED_SHARED_MEMORY_CARVEOUT), percent};
  }
  static const FuncAttribute NULL_ATTRIBUTE;
  friend constexpr bool operator==(const FuncAttribute&, const FuncAttribute&) = default;
};
inline constexpr FuncAttribute FuncAttribute::NULL_ATTRIBUTE{};

/// How accesses to a range of memory are kept in the L2 cache.
struct AccessPolicyWindow {
  enum Property : std::int32_t { NORMAL = 0, STREAMING = 1, PERSISTING = 2 };

  void* base_ptr = nullptr;
  std::size_t num_bytes = 0;
  /// Part of the accesses that are hits, 0 to 1.
  float hit_ratio = 0;
  Property hit_prop = NORMAL;
  /// Not PERSISTING: ValueError where it is used.
  Property miss_prop = NORMAL;
};

/// A setting of one launch; ids are CUDA's.
struct LaunchAttribute {
  enum Id : std::int32_t {
    IGNORE = 0,
    ACCESS_POLICY_WINDOW = 1,
    COOPERATIVE = 2,
    SYNCHRONIZATION_POLICY = 3,
    CLUSTER_DIMENSION = 4,
    CLUSTER_SCHEDULING_POLICY_PREFERENCE = 5,
    PROGRAMMATIC_STREAM_SERIALIZATION = 6,
    PROGRAMMATIC_EVENT = 7,
    PRIORITY = 8,
    MEM_SYNC_DOMAIN_MAP = 9,
    MEM_SYNC_DOMAIN = 10,
    LAUNCH_COMPLETION_EVENT = 12,
    DEVICE_UPDATABLE_KERNEL_NODE = 13,
    PREFERRED_SHARED_MEMORY_CARVEOUT = 14,
  };
  /// 64 bytes, as the driver takes them.
  union Value {
    constexpr Value() : bytes{} {}
    Value(bool value) : bytes{} {  // NOLINT
      const std::int32_t number = value ? 1 : 0;
      std::memcpy(bytes, &number, sizeof number);
    }
    Value(const Dim& value) : bytes{} {  // NOLINT
      const std::uint32_t numbers[3] = {static_cast<std::uint32_t>(value.x()),
                                        static_cast<std::uint32_t>(value.y()),
                                        static_cast<std::uint32_t>(value.z())};
      std::memcpy(bytes, numbers, sizeof numbers);
    }
    Value(const AccessPolicyWindow& value) : bytes{} {  // NOLINT
      std::memcpy(bytes, &value, sizeof value);
    }
    alignas(8) unsigned char bytes[64];
  };

  Id id = IGNORE;
  Value value;

  static LaunchAttribute from_cluster_dim(const Dim& dim) { return {CLUSTER_DIMENSION, dim}; }
};
/// "COOPERATIVE", or the number.
std::string to_string(LaunchAttribute::Id id);

/// Host memory that is copied into a `__constant__` variable of the kernel's module before a
/// launch, in stream order. The host memory may change as soon as the call returns.
struct ConstantMemoryMapping {
  std::string name;
  const void* ptr = nullptr;
  std::size_t byte_count = 0;
};

}  // namespace kiln::gpu
