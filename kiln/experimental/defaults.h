#pragma once

#include <optional>
#include <utility>

#include "kiln/driver/device.h"
#include "kiln/dtype/dtype.h"
#include "kiln/experimental/tensor_layout.h"

namespace kiln::experimental {

class Tensor;

/// Where a new tensor lives and what its elements are; what is left out is the default in force.
struct TensorOptions {
  std::optional<DType> dtype = std::nullopt;
  /// A mesh gets copies, a mapping what it says.
  std::optional<LayoutDevice> device = std::nullopt;
};

/// The pair in force on this thread, with what is given in the place of its part: of several
/// devices the first. Without guards: accelerator 0 if there is one, else the CPU; bfloat16 on an
/// accelerator, else float32.
std::pair<DType, driver::Device> defaults(const TensorOptions& options = {});

/// Sets the defaults that are given on this thread until it goes out of scope; guards nest. Several
/// devices: ValueError.
class DefaultsGuard {
 public:
  explicit DefaultsGuard(TensorOptions options);
  ~DefaultsGuard();
  DefaultsGuard(const DefaultsGuard&) = delete;
  DefaultsGuard& operator=(const DefaultsGuard&) = delete;

 private:
  TensorOptions outer_;
};

[[nodiscard]] inline DefaultsGuard default_dtype(DType dtype) {
  return DefaultsGuard({.dtype = dtype});
}
[[nodiscard]] inline DefaultsGuard default_device(driver::Device device) {
  return DefaultsGuard({.device = device});
}
/// Those of a tensor.
[[nodiscard]] DefaultsGuard defaults_like(const Tensor& tensor);

}  // namespace kiln::experimental
