#pragma once

// Functions over tensors: each is the op of kiln::graph::ops of the same name, with its rules and
// errors. It computes at once, or adds to the graph that is being built.

#include <array>
#include <cstdint>
#include <functional>
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
inline Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon,
                       const graph::ops::RmsNormOptions& options = {}) {
  return KILN_LIFT(rms_norm, x, weight, epsilon, options);
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
inline std::vector<Tensor> chunk(const Tensor& x, int chunks, int axis = 0) {
  return KILN_LIFT(chunk, x, chunks, axis);
}
inline Tensor pad(const Tensor& x, const std::vector<std::int64_t>& paddings,
                  const graph::ops::PadOptions& options = {}) {
  return KILN_LIFT(pad, x, paddings, options);
}
inline Tensor tile(const Tensor& x, const graph::Shape& repeats) {
  return KILN_LIFT(tile, x, repeats);
}
inline Tensor rebind(const Tensor& x, const graph::Shape& shape,
                     const graph::ops::RebindOptions& options = {}) {
  return KILN_LIFT(rebind, x, shape, options);
}
inline Tensor gather_nd(const Tensor& x, const Tensor& indices, int batch_dims = 0) {
  return KILN_LIFT(gather_nd, x, indices, batch_dims);
}
inline Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& updates,
                             const graph::Dim& out_dim) {
  return KILN_LIFT(masked_scatter, x, mask, updates, out_dim);
}
inline Tensor nonzero(const Tensor& x, const graph::Dim& out_dim) {
  return KILN_LIFT(nonzero, x, out_dim);
}
inline Tensor repeat_interleave(const Tensor& x, std::int64_t repeats,
                                std::optional<int> axis = std::nullopt) {
  return KILN_LIFT(repeat_interleave, x, repeats, axis);
}
inline Tensor band_part(const Tensor& x, const graph::ops::BandPartOptions& options = {}) {
  return KILN_LIFT(band_part, x, options);
}

#define KILN_SCATTER(name)                                                          \
  inline Tensor name(const Tensor& x, const Tensor& updates, const Tensor& indices, \
                     int axis = -1) {                                               \
    return KILN_LIFT(name, x, updates, indices, axis);                              \
  }
#define KILN_SCATTER_ND(name)                                                         \
  inline Tensor name(const Tensor& x, const Tensor& updates, const Tensor& indices) { \
    return KILN_LIFT(name, x, updates, indices);                                      \
  }

KILN_SCATTER(scatter)
KILN_SCATTER(scatter_add)
KILN_SCATTER(scatter_max)
KILN_SCATTER(scatter_min)
KILN_SCATTER(scatter_mul)
KILN_SCATTER_ND(scatter_nd)
KILN_SCATTER_ND(scatter_nd_add)
KILN_SCATTER_ND(scatter_nd_max)
KILN_SCATTER_ND(scatter_nd_min)
KILN_SCATTER_ND(scatter_nd_mul)

#undef KILN_SCATTER
#undef KILN_SCATTER_ND

inline std::pair<Tensor, Tensor> bottom_k(const Tensor& x, const graph::Dim& k, int axis = -1) {
  return KILN_LIFT(bottom_k, x, k, axis);
}
inline Tensor argsort(const Tensor& x, bool ascending = true) {
  return KILN_LIFT(argsort, x, ascending);
}
inline Tensor cumsum(const Tensor& x, const graph::ops::CumsumOptions& options = {}) {
  return KILN_LIFT(cumsum, x, options);
}
inline Tensor group_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                         std::int64_t num_groups, double epsilon) {
  return KILN_LIFT(group_norm, x, gamma, beta, num_groups, epsilon);
}

// Convolutions; the bias stands among the tensors, and that of the options stays empty.
#define KILN_CONVOLUTION(name, Options)                                                \
  inline Tensor name(const Tensor& x, const Tensor& filter,                            \
                     const graph::ops::Options& options = {}) {                        \
    return KILN_LIFT(name, x, filter, options);                                        \
  }                                                                                    \
  inline Tensor name(const Tensor& x, const Tensor& filter, const Tensor& bias,        \
                     const graph::ops::Options& options = {}) {                        \
    return experimental::detail::lift(                                                 \
        #name,                                                                         \
        [](const graph::TensorValueLike& input, const graph::TensorValueLike& weights, \
           const graph::TensorValueLike& added, graph::ops::Options with_bias) {       \
          with_bias.bias = added;                                                      \
          return graph::ops::name(input, weights, with_bias);                          \
        },                                                                             \
        x, filter, bias, options);                                                     \
  }

KILN_CONVOLUTION(conv2d, Conv2dOptions)
KILN_CONVOLUTION(conv3d, Conv3dOptions)
KILN_CONVOLUTION(conv2d_transpose, Conv2dTransposeOptions)

#undef KILN_CONVOLUTION

inline Tensor max_pool2d(const Tensor& x, const graph::ops::Extent2d& kernel_size,
                         const graph::ops::MaxPool2dOptions& options = {}) {
  return KILN_LIFT(max_pool2d, x, kernel_size, options);
}
inline Tensor avg_pool2d(const Tensor& x, const graph::ops::Extent2d& kernel_size,
                         const graph::ops::AvgPool2dOptions& options = {}) {
  return KILN_LIFT(avg_pool2d, x, kernel_size, options);
}
inline Tensor resize_nearest(const Tensor& x, const graph::Shape& size,
                             const graph::ops::ResizeNearestOptions& options = {}) {
  return KILN_LIFT(resize_nearest, x, size, options);
}
inline Tensor resize_linear(const Tensor& x, const graph::Shape& size,
                            const graph::ops::ResizeLinearOptions& options = {}) {
  return KILN_LIFT(resize_linear, x, size, options);
}
inline Tensor resize_bicubic(const Tensor& x, const graph::Shape& size) {
  return KILN_LIFT(resize_bicubic, x, size);
}
inline Tensor resize(
    const Tensor& x, const graph::Shape& shape,
    graph::ops::InterpolationMode interpolation = graph::ops::InterpolationMode::BILINEAR) {
  return KILN_LIFT(resize, x, shape, interpolation);
}
inline Tensor roi_align(const Tensor& x, const Tensor& rois, std::int64_t output_height,
                        std::int64_t output_width,
                        const graph::ops::RoiAlignOptions& options = {}) {
  return KILN_LIFT(roi_align, x, rois, output_height, output_width, options);
}
inline Tensor non_maximum_suppression(const Tensor& boxes, const Tensor& scores,
                                      const Tensor& max_output_boxes_per_class,
                                      const Tensor& iou_threshold, const Tensor& score_threshold,
                                      const graph::Dim& out_dim = graph::Dim("num_selected")) {
  return KILN_LIFT(non_maximum_suppression, boxes, scores, max_output_boxes_per_class,
                   iou_threshold, score_threshold, out_dim);
}
inline Tensor fold(const Tensor& x, const std::array<graph::Dim, 2>& output_size,
                   const std::array<std::int64_t, 2>& kernel_size,
                   const graph::ops::FoldOptions& options = {}) {
  return KILN_LIFT(fold, x, output_size, kernel_size, options);
}
inline Tensor irfft(const Tensor& x, const graph::ops::IrfftOptions& options = {}) {
  return KILN_LIFT(irfft, x, options);
}
inline Tensor dequantize(graph::QuantizationEncoding encoding, const Tensor& quantized) {
  return KILN_LIFT(dequantize, encoding, quantized);
}
inline Tensor qmatmul(graph::QuantizationEncoding encoding,
                      const std::optional<graph::QuantizationConfig>& config, const Tensor& lhs,
                      const std::vector<Tensor>& rhs) {
  return KILN_LIFT(qmatmul, encoding, config, lhs, rhs);
}

/// Bounded from below and above; a bound that is left out is none.
Tensor clip(const Tensor& x, const std::optional<TensorLike>& least,
            const std::optional<TensorLike>& most = std::nullopt);

/// What `x[indices]` reads.
inline Tensor slice_tensor(const Tensor& x, std::vector<graph::SliceIndex> indices) {
  return x[std::move(indices)].load();
}
/// Writes all of `x`, which is backed by a buffer from then on.
inline void buffer_store(const Tensor& x, const Tensor& source) {
  x[{graph::ellipsis}].store(source);
}
/// What `x[indices] = source` does.
inline void buffer_store_slice(const Tensor& x, const Tensor& source,
                               std::vector<graph::SliceIndex> indices) {
  x[std::move(indices)].store(source);
}

/// Prints `x` when it is computed; styles are those of the debug settings.
void print(const Tensor& x, const std::string& label = "debug_tensor");

/// A branch or a step over tensors.
using Branch = std::function<std::vector<Tensor>()>;
using Step = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// Only one of the functions runs; each returns tensors of exactly `out_types`, else TypeError.
/// `pred` is a bool scalar on the CPU. The functions are recorded at each call.
std::vector<Tensor> cond(const Tensor& pred, const std::vector<graph::Type>& out_types,
                         const Branch& then_fn, const Branch& else_fn);
/// Runs `body` while `predicate` gives true, which is tested before the first iteration; the body
/// returns tensors of the types that it gets.
std::vector<Tensor> while_loop(const std::vector<Tensor>& initial_values,
                               const std::function<Tensor(const std::vector<Tensor>&)>& predicate,
                               const Step& body);

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
