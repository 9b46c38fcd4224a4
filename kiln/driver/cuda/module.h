#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kiln/driver/cuda/library.h"

namespace kiln::driver::cuda {

class CudaDevice;

/// Code on a device: PTX text or a binary image that the driver has loaded. Unloaded once the work
/// that was enqueued when the last owner went is over.
class Module {
 public:
  /// Refused by the driver: RuntimeError with its log. A listing of SASS: ValueError.
  static std::shared_ptr<const Module> load(CudaDevice& device, const std::string& image);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  CudaDevice& device() const { return device_; }
  /// Null when there is no such kernel.
  NativeFunction find_function(const std::string& name) const;
  /// Address and bytes of a variable; nullopt when there is none.
  std::optional<std::pair<DevicePointer, std::size_t>> find_variable(const std::string& name) const;
  /// Kernels that PTX text defines; of a binary image none are known.
  const std::vector<std::string>& kernel_names() const { return kernel_names_; }

 private:
  Module(CudaDevice& device, NativeModule module) : device_(device), module_(module) {}

  CudaDevice& device_;
  NativeModule module_;
  std::vector<std::string> kernel_names_;
};

/// Sizes of a kernel's parameters in bytes; nullopt when the driver cannot tell.
std::optional<std::vector<std::size_t>> parameter_sizes(const CudaDevice& device,
                                                        NativeFunction function);

}  // namespace kiln::driver::cuda
