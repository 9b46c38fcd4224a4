#pragma once

#include "kiln/graph/value.h"

namespace kiln::graph::ops {

/// Floating-point dtypes. Axis out of range: ValueError.
TensorValue softmax(const TensorValueLike& value, int axis = -1);
TensorValue logsoftmax(const TensorValueLike& value, int axis = -1);

/// Over the last axis, with population variance; gamma and beta of the last dim promote with input.
TensorValue layer_norm(const TensorValueLike& input, const TensorValueLike& gamma,
                       const TensorValueLike& beta, double epsilon);

/// Options of `rms_norm`.
struct RmsNormOptions {
  double weight_offset = 0.0;
  /// Multiplies by the weight before rounding to the input's dtype.
  bool multiply_before_cast = false;
};
/// Over the last axis.
TensorValue rms_norm(const TensorValueLike& input, const TensorValueLike& weight, double epsilon,
                     const RmsNormOptions& options = {});

/// Normalises groups of channels of `[N, C, …]`, with an affine map per channel.
TensorValue group_norm(const TensorValueLike& input, const TensorValueLike& gamma,
                       const TensorValueLike& beta, std::int64_t num_groups, double epsilon);

}  // namespace kiln::graph::ops
