#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kiln/driver/device.h"
#include "kiln/gpu/attributes.h"

namespace kiln::gpu {

/// What is known about a kind of device before one is opened.
struct DeviceInfo {
  std::string name;
  std::string vendor;
  std::string api;
  /// Such as "sm_90"; of the host the processor's name.
  std::string arch_name;
  /// Compute capability, 9.0 for "sm_90"; 0 of the host.
  double compute = 0;
  int warp_size = 1;
  /// Streaming multiprocessors; of the host its threads. 0 where the architecture does not tell.
  int sm_count = 0;
  /// What a kernel compiler is told, such as "nvptx64-nvidia-cuda:sm_90".
  std::string target() const;

  /// An architecture that kiln knows, such as "sm_90". Others: ValueError.
  static DeviceInfo from_name(std::string_view arch_name);
};

/// Of the device that a context without arguments is for.
const DeviceInfo& default_device_info();

/// One attribute of a device. Unknown to its backend: ValueError.
int device_attribute(const driver::Device& device, DeviceAttribute attribute);

namespace detail {

/// "cuda:0", as texts of errors name a device.
std::string device_name(const driver::Device& device);

/// What every launch is compared with; read once for each device.
struct LaunchLimits {
  std::int64_t grid[3];
  std::int64_t block[3];
  std::int64_t threads;
};
const LaunchLimits& launch_limits(const driver::Device& device);

}  // namespace detail
}  // namespace kiln::gpu
