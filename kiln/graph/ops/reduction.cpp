#include "kiln/graph/ops/reduction.h"

#include "kiln/graph/graph_state.h"
#include "kiln/graph/infer.h"
#include "kiln/graph/ops/axis.h"
#include "kiln/graph/placement.h"
#include "kiln/graph/promotion.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph::ops {
namespace {

TensorValue reduce(OpKind kind, const TensorValueLike& x, int axis) {
  LocationScope at(x.location());
  TensorValue value = strong(x);
  return graph::detail::add_tensor_op(kind, {value},
                                      {{"axis", normalized_axis(axis, value.rank())}});
}

}  // namespace

using T = const TensorValueLike&;

TensorValue sum(T x, int axis) { return reduce(OpKind::reduce_sum, x, axis); }
TensorValue mean(T x, int axis) { return reduce(OpKind::reduce_mean, x, axis); }
TensorValue prod(T x, int axis) { return reduce(OpKind::reduce_prod, x, axis); }
TensorValue argmax(T x, int axis) { return reduce(OpKind::argmax, x, axis); }
TensorValue argmin(T x, int axis) { return reduce(OpKind::argmin, x, axis); }
TensorValue sum(T x, const AxisOptions& options) { return sum(x, options.axis); }
TensorValue mean(T x, const AxisOptions& options) { return mean(x, options.axis); }
TensorValue prod(T x, const AxisOptions& options) { return prod(x, options.axis); }
TensorValue argmax(T x, const AxisOptions& options) { return argmax(x, options.axis); }
TensorValue argmin(T x, const AxisOptions& options) { return argmin(x, options.axis); }
TensorValue max(T x, const AxisOptions& options) {
  return reduce(OpKind::reduce_max, x, options.axis);
}
TensorValue min(T x, const AxisOptions& options) {
  return reduce(OpKind::reduce_min, x, options.axis);
}

TensorValue cumsum(T x, const CumsumOptions& options) {
  LocationScope at(x.location());
  TensorValue value = strong(x);
  const std::int64_t axis = normalized_axis(options.axis, value.rank());
  HostDetour detour("cumsum", {&value});
  return detour.back(graph::detail::add_tensor_op(
      OpKind::cumsum, {value},
      {{"axis", axis}, {"exclusive", options.exclusive}, {"reverse", options.reverse}}));
}

namespace {

std::pair<TensorValue, TensorValue> select(OpKind kind, T input, const Dim& k, int axis) {
  LocationScope at(input.location());
  TensorValue value = strong(input);
  const int rank = value.rank();
  const std::int64_t from_start = axis < 0 && axis >= -rank ? axis + rank : axis;
  ir::Op* op = graph::detail::add_op(kind, {value}, {{"axis", from_start}, {"k", k}});
  auto& graph = *graph::detail::current_graph();
  return {TensorValue(graph.handle(op->result(0))), TensorValue(graph.handle(op->result(1)))};
}

}  // namespace

std::pair<TensorValue, TensorValue> top_k(T input, const Dim& k, int axis) {
  return select(OpKind::top_k, input, k, axis);
}

std::pair<TensorValue, TensorValue> bottom_k(T input, const Dim& k, int axis) {
  return select(OpKind::bottom_k, input, k, axis);
}

TensorValue argsort(T x, bool ascending) {
  LocationScope at(x.location());
  const TensorValue value = strong(x);
  if (value.rank() != 1)
    throw ValueError(
        format("argsort only implemented for input tensors of rank 1, but the input "
               "has shape {}.",
               value.shape().repr()));
  check_dtype("argsort", DTypeFamily::not_bool, value.dtype());
  return select(ascending ? OpKind::bottom_k : OpKind::top_k, value, value.shape()[0], 0).second;
}

}  // namespace kiln::graph::ops
