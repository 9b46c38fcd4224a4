#include "kiln/graph/ops/norm.h"

#include "kiln/graph/graph_state.h"
#include "kiln/graph/infer.h"
#include "kiln/graph/ops/axis.h"
#include "kiln/graph/ops/elementwise.h"
#include "kiln/graph/ops/reduction.h"
#include "kiln/graph/ops/shape.h"
#include "kiln/graph/promotion.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph::ops {

using graph::detail::add_tensor_op;

TensorValue softmax(const TensorValueLike& value, int axis) {
  LocationScope at(value.location());
  TensorValue x = strong(value);
  return add_tensor_op(OpKind::softmax, {x}, {{"axis", normalized_axis(axis, x.rank())}});
}

TensorValue logsoftmax(const TensorValueLike& value, int axis) {
  LocationScope at(value.location());
  TensorValue x = strong(value);
  return add_tensor_op(OpKind::logsoftmax, {x}, {{"axis", normalized_axis(axis, x.rank())}});
}

TensorValue layer_norm(const TensorValueLike& input, const TensorValueLike& gamma,
                       const TensorValueLike& beta, double epsilon) {
  LocationScope at(input.location());
  const TensorValueLike* operands[] = {&input, &gamma, &beta};
  std::vector<TensorValue> v = promote(operands);
  return add_tensor_op(OpKind::layer_norm, {v[0], v[1], v[2]}, {{"epsilon", epsilon}});
}

TensorValue rms_norm(const TensorValueLike& input, const TensorValueLike& weight, double epsilon,
                     const RmsNormOptions& options) {
  LocationScope at(input.location());
  auto [x, w] = promote(input, weight);
  return add_tensor_op(OpKind::rms_norm, {x, w},
                       {{"epsilon", epsilon},
                        {"weight_offset", options.weight_offset},
                        {"multiply_before_cast", options.multiply_before_cast}});
}

TensorValue group_norm(const TensorValueLike& input, const TensorValueLike& gamma,
                       const TensorValueLike& beta, std::int64_t num_groups, double epsilon) {
  LocationScope at(input.location());
  const TensorValueLike* operands[] = {&input, &gamma, &beta};
  std::vector<TensorValue> v = promote(operands);
  const TensorType type = v[0].type();
  check_dtype("group_norm", DTypeFamily::floating, type.dtype);
  const Shape& shape = type.shape;
  if (shape.rank() < 2)
    throw ValueError(
        format("Expected input tensor with >=2 dimensions, got shape {}", shape.repr()));
  const Dim& channels = shape[1];
  if (num_groups < 1 || !channels.is_static() || channels.value() % num_groups != 0)
    throw ValueError(
        format("group_norm: the channel dim {} of shape {} is not divisible into {} "
               "groups.",
               channels.to_string(), shape.repr(), num_groups));
  for (std::size_t i : {1, 2})
    if (v[i].shape() != Shape{channels})
      throw ValueError(format("group_norm: {} must have shape {}, got {}.",
                              i == 1 ? "gamma" : "beta", Shape{channels}.repr(),
                              v[i].shape().repr()));
  // One rounding at the end: half types are widened for the whole formula.
  const DType wide = type.dtype.is_half() ? DType(DType::float32) : type.dtype;
  const Dim inside =
      (Shape(shape.begin() + 2, shape.end()).num_elements() * channels).floor_div(num_groups);
  TensorValue x = reshape(cast(v[0], wide), {shape[0], num_groups, inside});
  TensorValue deviation = sub(x, mean(x, 2));
  TensorValue variance = mean(mul(deviation, deviation), 2);
  TensorValue normal = reshape(div(deviation, sqrt(add(variance, epsilon))), shape);
  Shape affine(shape.size(), Dim(1));
  affine[1] = channels;
  TensorValue scaled = mul(normal, reshape(cast(v[1], wide), affine));
  return cast(add(scaled, reshape(cast(v[2], wide), affine)), type.dtype);
}

}  // namespace kiln::graph::ops
