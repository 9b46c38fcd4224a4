#pragma once

#include <vector>

#include "kiln/experimental/tensor.h"

namespace kiln::experimental {

/// The elements of a float32 tensor.
inline std::vector<float> floats(const Tensor& tensor) {
  const driver::Buffer buffer = tensor.materialize().driver_tensor();
  const auto* data = static_cast<const float*>(buffer.data());
  return {data, data + buffer.num_elements()};
}

}  // namespace kiln::experimental
