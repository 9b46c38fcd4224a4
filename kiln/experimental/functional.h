#pragma once

// Functions over tensors: each is the op of kiln::graph::ops of the same name, with its rules and
// errors. It computes at once, or adds to the graph that is being built.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kiln/experimental/lift.h"
#include "kiln/graph/ops.h"

namespace kiln::experimental {

/// While it lives, functions over tensors compute nothing on this thread until a value is asked
/// for; what is never asked for is never computed. A store takes effect at once.
class LazyGuard {
 public:
  LazyGuard();
  LazyGuard(const LazyGuard&) = delete;
  LazyGuard& operator=(const LazyGuard&) = delete;

 private:
  Recording::Scope scope_;
};

namespace functional {

[[nodiscard]] inline LazyGuard lazy() { return LazyGuard(); }
/// Whether a graph is being built whose values nobody has while it is.
using experimental::in_graph_context;

#define KILN_LIFT(name, ...)  \
  experimental::detail::lift( \
      #name, [](const auto&... values) { return graph::ops::name(values...); }, __VA_ARGS__)
#define KILN_UNARY(name) \
  inline Tensor name(const Tensor& x) { return KILN_LIFT(name, x); }
#define KILN_BINARY(name)                                            \
  inline Tensor name(const TensorLike& lhs, const TensorLike& rhs) { \
    return KILN_LIFT(name, lhs, rhs);                                \
  }

KILN_BINARY(add)
KILN_BINARY(sub)
KILN_BINARY(mul)
KILN_BINARY(div)
KILN_BINARY(floor_div)
KILN_BINARY(mod)
KILN_BINARY(pow)
KILN_BINARY(max)
KILN_BINARY(min)
KILN_BINARY(equal)
KILN_BINARY(not_equal)
KILN_BINARY(greater)
KILN_BINARY(greater_equal)
KILN_BINARY(logical_and)
KILN_BINARY(logical_or)
KILN_BINARY(logical_xor)
KILN_BINARY(matmul)
KILN_BINARY(outer)
KILN_BINARY(complex_mul)

KILN_UNARY(abs)
KILN_UNARY(acos)
KILN_UNARY(atanh)
KILN_UNARY(ceil)
KILN_UNARY(cos)
KILN_UNARY(erf)
KILN_UNARY(exp)
KILN_UNARY(floor)
KILN_UNARY(is_inf)
KILN_UNARY(is_nan)
KILN_UNARY(log)
KILN_UNARY(log1p)
KILN_UNARY(logical_not)
KILN_UNARY(negate)
KILN_UNARY(relu)
KILN_UNARY(round)
KILN_UNARY(rsqrt)
KILN_UNARY(sigmoid)
KILN_UNARY(silu)
KILN_UNARY(sin)
KILN_UNARY(sqrt)
KILN_UNARY(tanh)
KILN_UNARY(trunc)
KILN_UNARY(as_interleaved_complex)

inline Tensor gelu(const Tensor& x, const std::string& approximate = "none") {
  return KILN_LIFT(gelu, x, approximate);
}
inline Tensor cast(const Tensor& x, DType dtype) { return KILN_LIFT(cast, x, dtype); }
inline Tensor where(const Tensor& condition, const TensorLike& x, const TensorLike& y) {
  return KILN_LIFT(where, condition, x, y);
}
inline Tensor softmax(const Tensor& x, int axis = -1) { return KILN_LIFT(softmax, x, axis); }
inline Tensor logsoftmax(const Tensor& x, int axis = -1) { return KILN_LIFT(logsoftmax, x, axis); }
inline Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon) {
  return KILN_LIFT(layer_norm, x, gamma, beta, epsilon);
}
inline Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon) {
  return KILN_LIFT(rms_norm, x, weight, epsilon);
}

inline Tensor reshape(const Tensor& x, const graph::Shape& shape) {
  return KILN_LIFT(reshape, x, shape);
}
inline Tensor broadcast_to(const Tensor& x, const graph::Shape& shape) {
  return KILN_LIFT(broadcast_to, x, shape);
}
inline Tensor permute(const Tensor& x, const std::vector<std::int64_t>& dims) {
  return KILN_LIFT(permute, x, dims);
}
inline Tensor transpose(const Tensor& x, int axis_1, int axis_2) {
  return KILN_LIFT(transpose, x, axis_1, axis_2);
}
inline Tensor squeeze(const Tensor& x, int axis) { return KILN_LIFT(squeeze, x, axis); }
inline Tensor unsqueeze(const Tensor& x, int axis) { return KILN_LIFT(unsqueeze, x, axis); }
inline Tensor flatten(const Tensor& x, int start_dim = 0, int end_dim = -1) {
  return KILN_LIFT(flatten, x, start_dim, end_dim);
}
inline Tensor concat(const std::vector<Tensor>& values, int axis = 0) {
  return KILN_LIFT(concat, values, axis);
}
inline Tensor stack(const std::vector<Tensor>& values, int axis = 0) {
  return KILN_LIFT(stack, values, axis);
}
inline std::vector<Tensor> split(const Tensor& x, const std::vector<graph::Dim>& sizes,
                                 int axis = 0) {
  return KILN_LIFT(split, x, sizes, axis);
}
inline Tensor gather(const Tensor& x, const Tensor& indices, int axis) {
  return KILN_LIFT(gather, x, indices, axis);
}
inline std::pair<Tensor, Tensor> top_k(const Tensor& x, const graph::Dim& k, int axis = -1) {
  return KILN_LIFT(top_k, x, k, axis);
}
/// As `Tensor::to`.
inline Tensor transfer_to(const Tensor& x, const LayoutDevice& target) { return x.to(target); }

/// A named weight of the graph that is being built, resolved when the model is initialised. One on
/// several devices has one entry for each of them, `{name}._shard.{i}`. No graph: LookupError.
Tensor constant_external(const std::string& name, const TensorLayout& layout,
                         const graph::ops::ConstantExternalOptions& options = {});

// Collectives along one axis of the mesh of a tensor. Another placement there than the one that is
// named: ShardingError.

/// From Sharded along `tensor_axis` to copies.
Tensor allgather(const Tensor& t, int tensor_axis = 0, const MeshAxis& mesh_axis = 0);
/// From Partial to copies.
Tensor allreduce_sum(const Tensor& t, const MeshAxis& mesh_axis = 0);
/// From Partial to slices along `scatter_axis`.
Tensor reduce_scatter(const Tensor& t, int scatter_axis = 0, const MeshAxis& mesh_axis = 0);

#undef KILN_UNARY
#undef KILN_BINARY

/// Reductions keep the axis with size 1; without an axis they take all elements: `[1]`.
#define KILN_REDUCTION(name)                                           \
  inline Tensor name(const Tensor& x, std::optional<int> axis = -1) {  \
    if (!axis) return name(reshape(x, {graph::Dim(-1)}), 0);           \
    return experimental::detail::lift(                                 \
        #name,                                                         \
        [](const graph::TensorValueLike& value, int at) {              \
          return graph::ops::name(value, graph::ops::AxisOptions{at}); \
        },                                                             \
        x, *axis);                                                     \
  }

KILN_REDUCTION(sum)
KILN_REDUCTION(mean)
KILN_REDUCTION(prod)
KILN_REDUCTION(max)
KILN_REDUCTION(min)
KILN_REDUCTION(argmax)
KILN_REDUCTION(argmin)

#undef KILN_REDUCTION
#undef KILN_LIFT

}  // namespace functional
}  // namespace kiln::experimental
