#include "kiln/gpu/attributes.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kiln::gpu {
namespace {

struct Name {
  int code;
  const char* name;
};

constexpr Name kDeviceAttributes[] = {
    {1, "MAX_THREADS_PER_BLOCK"},
    {2, "MAX_BLOCK_DIM_X"},
    {3, "MAX_BLOCK_DIM_Y"},
    {4, "MAX_BLOCK_DIM_Z"},
    {5, "MAX_GRID_DIM_X"},
    {6, "MAX_GRID_DIM_Y"},
    {7, "MAX_GRID_DIM_Z"},
    {8, "MAX_SHARED_MEMORY_PER_BLOCK"},
    {10, "WARP_SIZE"},
    {12, "MAX_REGISTERS_PER_BLOCK"},
    {13, "CLOCK_RATE"},
    {16, "MULTIPROCESSOR_COUNT"},
    {39, "MAX_THREADS_PER_MULTIPROCESSOR"},
    {75, "COMPUTE_CAPABILITY_MAJOR"},
    {76, "COMPUTE_CAPABILITY_MINOR"},
    {81, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"},
    {82, "MAX_REGISTERS_PER_MULTIPROCESSOR"},
    {95, "COOPERATIVE_LAUNCH"},
    {97, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"},
    {106, "MAX_BLOCKS_PER_MULTIPROCESSOR"},
    {109, "MAX_ACCESS_POLICY_WINDOW_SIZE"},
    {1000, "PARALLELISM_LEVEL"},
};

constexpr Name kAttributes[] = {
    {0, "MAX_THREADS_PER_BLOCK"},
    {1, "SHARED_SIZE_BYTES"},
    {2, "CONST_SIZE_BYTES"},
    {3, "LOCAL_SIZE_BYTES"},
    {4, "NUM_REGS"},
    {5, "PTX_VERSION"},
    {6, "BINARY_VERSION"},
    {7, "CACHE_MODE_CA"},
    {8, "MAX_DYNAMIC_SHARED_SIZE_BYTES"},
    {9, "PREFERRED_SHARED_MEMORY_CARVEOUT"},
    {10, "CLUSTER_SIZE_MUST_BE_SET"},
    {11, "REQUIRED_CLUSTER_WIDTH"},
    {12, "REQUIRED_CLUSTER_HEIGHT"},
    {13, "REQUIRED_CLUSTER_DEPTH"},
    {14, "NON_PORTABLE_CLUSTER_SIZE_ALLOWED"},
    {15, "CLUSTER_SCHEDULING_POLICY_PREFERENCE"},
};

constexpr Name kLaunchAttributes[] = {
    {0, "IGNORE"},
    {1, "ACCESS_POLICY_WINDOW"},
    {2, "COOPERATIVE"},
    {3, "SYNCHRONIZATION_POLICY"},
    {4, "CLUSTER_DIMENSION"},
    {5, "CLUSTER_SCHEDULING_POLICY_PREFERENCE"},
    {6, "PROGRAMMATIC_STREAM_SERIALIZATION"},
    {7, "PROGRAMMATIC_EVENT"},
    {8, "PRIORITY"},
    {9, "MEM_SYNC_DOMAIN_MAP"},
    {10, "MEM_SYNC_DOMAIN"},
    {12, "LAUNCH_COMPLETION_EVENT"},
    {13, "DEVICE_UPDATABLE_KERNEL_NODE"},
    {14, "PREFERRED_SHARED_MEMORY_CARVEOUT"},
};

template <std::size_t N>
std::string name_of(const Name (&names)[N], int code) {
  const auto* found = std::find_if(std::begin(names), std::end(names),
                                   [&](const Name& n) { return n.code == code; });
  return found == std::end(names) ? std::to_string(code) : found->name;
}

}  // namespace

std::string to_string(DeviceAttribute attribute) {
  return name_of(kDeviceAttributes, static_cast<int>(attribute));
}
std::string to_string(Attribute attribute) {
  return name_of(kAttributes, static_cast<int>(attribute));
}
std::string to_string(LaunchAttribute::Id id) { return name_of(kLaunchAttributes, id); }

}  // namespace kiln::gpu
