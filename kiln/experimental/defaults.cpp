#include "kiln/experimental/defaults.h"

#include "kiln/experimental/tensor.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::experimental {
namespace {

/// What the guards of this thread have set.
TensorOptions& in_force() {
  thread_local TensorOptions options;
  return options;
}

/// Accelerator 0, if there is one on which graphs can run, else the CPU.
driver::Device first_compatible_device() {
  if (driver::accelerator_count() > 0)
    if (const driver::Device first = driver::Accelerator(); first.is_compatible()) return first;
  return driver::CPU();
}

}  // namespace

std::pair<DType, driver::Device> defaults(const TensorOptions& options) {
  const TensorOptions& guarded = in_force();
  const auto& chosen = options.device ? options.device : guarded.device;
  const driver::Device device =
      chosen ? chosen->mapping().mesh().devices()[0] : first_compatible_device();
  const auto& dtype = options.dtype ? options.dtype : guarded.dtype;
  return {dtype.value_or(device.is_host() ? DType::float32 : DType::bfloat16), device};
}

DefaultsGuard::DefaultsGuard(TensorOptions options) : outer_(in_force()) {
  if (options.dtype) in_force().dtype = options.dtype;
  if (!options.device) return;
  const DeviceMesh& mesh = options.device->mapping().mesh();
  if (!mesh.is_single())
    throw ValueError(
        format("The default device must be one device, but {} has {}. Give the mapping where a "
               "tensor is made.",
               mesh.to_string(), mesh.num_devices()));
  in_force().device = options.device;
}

DefaultsGuard::~DefaultsGuard() { in_force() = outer_; }

DefaultsGuard defaults_like(const Tensor& tensor) {
  return DefaultsGuard({.dtype = tensor.dtype(), .device = tensor.device()});
}

}  // namespace kiln::experimental
