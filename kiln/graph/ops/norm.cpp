#include "kiln/graph/ops/norm.h"

#include "kiln/graph/graph_state.h"
#include "kiln/graph/ops/axis.h"
#include "kiln/graph/promotion.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph::ops {

using graph::detail::add_tensor_op;

std::int64_t checked_axis(int axis, int rank) {
  if (axis < -rank || axis >= rank)
    throw ValueError(format("Invalid axis={} for input x.rank={}", axis, rank));
  return axis < 0 ? axis + rank : axis;
}

TensorValue softmax(const TensorValueLike& value, int axis) {
  LocationScope at(value.location());
  TensorValue x = strong(value);
  return add_tensor_op(OpKind::softmax, {x}, {{"axis", checked_axis(axis, x.rank())}});
}

TensorValue logsoftmax(const TensorValueLike& value, int axis) {
  LocationScope at(value.location());
  TensorValue x = strong(value);
  return add_tensor_op(OpKind::logsoftmax, {x}, {{"axis", checked_axis(axis, x.rank())}});
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

}  // namespace kiln::graph::ops
