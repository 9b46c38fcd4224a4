#include "kiln/gpu/device_info.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <thread>

#include "kiln/driver/cuda/device.h"
#include "kiln/gpu/cpu_grid.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::gpu {
namespace {

struct Architecture {
  const char* arch;
  const char* name;
  double compute;
  int sm_count;
};

// Name of the first product, its multiprocessors: NVIDIA's CUDA programming guide and data sheets.
constexpr Architecture kArchitectures[] = {
    {"sm_70", "V100", 7.0, 80},         {"sm_72", "Xavier", 7.2, 8},
    {"sm_75", "T4", 7.5, 40},           {"sm_80", "A100", 8.0, 108},
    {"sm_86", "A10", 8.6, 72},          {"sm_87", "Orin", 8.7, 16},
    {"sm_89", "L4", 8.9, 58},           {"sm_90", "H100", 9.0, 132},
    {"sm_90a", "H100", 9.0, 132},       {"sm_100", "B200", 10.0, 148},
    {"sm_100a", "B200", 10.0, 148},     {"sm_120", "RTX 5090", 12.0, 170},
    {"sm_120a", "RTX 5090", 12.0, 170},
};

int host_attribute(DeviceAttribute attribute) {
  switch (attribute) {
    case DeviceAttribute::MAX_THREADS_PER_BLOCK:
    case DeviceAttribute::MAX_BLOCK_DIM_X:
    case DeviceAttribute::MAX_BLOCK_DIM_Y:
    case DeviceAttribute::MAX_THREADS_PER_MULTIPROCESSOR:
      return 1024;
    case DeviceAttribute::MAX_BLOCK_DIM_Z:
      return 64;
    case DeviceAttribute::MAX_GRID_DIM_X:
      return 2147483647;
    case DeviceAttribute::MAX_GRID_DIM_Y:
    case DeviceAttribute::MAX_GRID_DIM_Z:
      return 65535;
    case DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK:
    case DeviceAttribute::MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
    case DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return static_cast<int>(detail::kSharedLimit);
    case DeviceAttribute::WARP_SIZE:
    case DeviceAttribute::MAX_BLOCKS_PER_MULTIPROCESSOR:
      return 1;
    case DeviceAttribute::MAX_REGISTERS_PER_BLOCK:
    case DeviceAttribute::MAX_REGISTERS_PER_MULTIPROCESSOR:
    case DeviceAttribute::CLOCK_RATE:
    case DeviceAttribute::COMPUTE_CAPABILITY_MAJOR:
    case DeviceAttribute::COMPUTE_CAPABILITY_MINOR:
    case DeviceAttribute::COOPERATIVE_LAUNCH:
    case DeviceAttribute::MAX_ACCESS_POLICY_WINDOW_SIZE:
      return 0;
    case DeviceAttribute::MULTIPROCESSOR_COUNT:
    case DeviceAttribute::PARALLELISM_LEVEL:
      return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  }
  throw ValueError(
      format("The device attribute {} is unknown to cpu devices.", static_cast<int>(attribute)));
}

DeviceInfo info_of(const driver::Device& device) {
  if (device.is_host())
    return {.name = device.model_name(),
            .vendor = "host",
            .api = "cpu",
            .arch_name = device.model_name(),
            .sm_count = host_attribute(DeviceAttribute::MULTIPROCESSOR_COUNT)};
  DeviceInfo info;
  info.vendor = "NVIDIA";
  info.api = std::string(device.api());
  info.arch_name = device.architecture_name();
  info.name = device.model_name();
  info.compute = device_attribute(device, DeviceAttribute::COMPUTE_CAPABILITY_MAJOR) +
                 device_attribute(device, DeviceAttribute::COMPUTE_CAPABILITY_MINOR) / 10.0;
  info.warp_size = device_attribute(device, DeviceAttribute::WARP_SIZE);
  info.sm_count = device_attribute(device, DeviceAttribute::MULTIPROCESSOR_COUNT);
  return info;
}

}  // namespace

std::string DeviceInfo::target() const {
  return api == "cuda" ? "nvptx64-nvidia-cuda:" + arch_name : "host";
}

DeviceInfo DeviceInfo::from_name(std::string_view arch_name) {
  const auto* found = std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                                   [&](const Architecture& a) { return arch_name == a.arch; });
  if (found == std::end(kArchitectures)) {
    std::vector<std::string_view> names;
    for (const Architecture& a : kArchitectures) names.emplace_back(a.arch);
    throw ValueError(format("DeviceInfo.from_name: the architecture '{}' is unknown; known are {}.",
                            arch_name, join(names, ", ")));
  }
  return {.name = found->name,
          .vendor = "NVIDIA",
          .api = "cuda",
          .arch_name = found->arch,
          .compute = found->compute,
          .warp_size = 32,
          .sm_count = found->sm_count};
}

const DeviceInfo& default_device_info() {
  static const DeviceInfo info =
      info_of(driver::accelerator_count() > 0 ? driver::Accelerator(0) : driver::CPU());
  return info;
}

int device_attribute(const driver::Device& device, DeviceAttribute attribute) {
  if (device.is_host()) return host_attribute(attribute);
  if (attribute == DeviceAttribute::PARALLELISM_LEVEL)
    return host_attribute(DeviceAttribute::PARALLELISM_LEVEL);
  if (const auto* cuda = dynamic_cast<const driver::cuda::CudaDevice*>(device.backend()))
    return cuda->attribute(static_cast<int>(attribute));
  throw ValueError(format("The attribute {} of {} is not known: the device is virtual.",
                          to_string(attribute), device.to_string()));
}

namespace detail {

std::string device_name(const driver::Device& device) {
  return format("{}:{}", device.api(), device.id());
}

const LaunchLimits& launch_limits(const driver::Device& device) {
  static auto* known = new std::map<const driver::DeviceBackend*, LaunchLimits>;  // leaked
  static std::mutex mutex;
  // The last device of this thread, so that a launch takes no lock.
  thread_local const driver::DeviceBackend* last = nullptr;
  thread_local const LaunchLimits* last_limits = nullptr;
  if (last == device.backend()) return *last_limits;
  const std::lock_guard lock(mutex);
  auto found = known->find(device.backend());
  if (found == known->end()) {
    const auto value = [&](DeviceAttribute attribute) {
      return std::int64_t{device_attribute(device, attribute)};
    };
    found = known
                ->emplace(device.backend(),
                          LaunchLimits{.grid = {value(DeviceAttribute::MAX_GRID_DIM_X),
                                                value(DeviceAttribute::MAX_GRID_DIM_Y),
                                                value(DeviceAttribute::MAX_GRID_DIM_Z)},
                                       .block = {value(DeviceAttribute::MAX_BLOCK_DIM_X),
                                                 value(DeviceAttribute::MAX_BLOCK_DIM_Y),
                                                 value(DeviceAttribute::MAX_BLOCK_DIM_Z)},
                                       .threads = value(DeviceAttribute::MAX_THREADS_PER_BLOCK)})
                .first;
  }
  last = device.backend();
  last_limits = &found->second;
  return *last_limits;
}

}  // namespace detail
}  // namespace kiln::gpu
