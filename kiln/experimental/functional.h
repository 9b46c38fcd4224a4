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
#include "kiln/experimental/random.h"
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
  inline Tensor name(const TensorLike& x) { return KILN_LIFT(name, x); }
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

inline Tensor gelu(const TensorLike& x, const std::string& approximate = "none") {
  return KILN_LIFT(gelu, x, approximate);
}
inline Tensor cast(const TensorLike& x, DType dtype) { return KILN_LIFT(cast, x, dtype); }
inline Tensor where(const TensorLike& condition, const TensorLike& x, const TensorLike& y) {
  return KILN_LIFT(where, condition, x, y);
}
inline Tensor softmax(const TensorLike& x, int axis = -1) { return KILN_LIFT(softmax, x, axis); }
inline Tensor logsoftmax(const TensorLike& x, int axis = -1) {
  return KILN_LIFT(logsoftmax, x, axis);
}
inline Tensor layer_norm(const TensorLike& x, const Tensor& gamma, const Tensor& beta,
                         double epsilon) {
  return KILN_LIFT(layer_norm, x, gamma, beta, epsilon);
}
inline Tensor rms_norm(const TensorLike& x, const Tensor& weight, double epsilon,
                       const graph::ops::RmsNormOptions& options = {}) {
  return KILN_LIFT(rms_norm, x, weight, epsilon, options);
}

inline Tensor reshape(const TensorLike& x, const graph::Shape& shape) {
  return KILN_LIFT(reshape, x, shape);
}
inline Tensor broadcast_to(const TensorLike& x, const graph::Shape& shape) {
  return KILN_LIFT(broadcast_to, x, shape);
}
/// To a shape that is an int64 vector on the CPU; `out_dims` name the result's dims.
inline Tensor broadcast_to(const TensorLike& x, const Tensor& shape,
                           const std::optional<graph::Shape>& out_dims = std::nullopt) {
  return experimental::detail::lift(
      "broadcast_to",
      [](const graph::TensorValueLike& value, const graph::TensorValueLike& dims,
         const std::optional<graph::Shape>& names) {
        return graph::ops::broadcast_to(value, graph::strong(dims), names);
      },
      x, shape, out_dims);
}
inline Tensor permute(const TensorLike& x, const std::vector<std::int64_t>& dims) {
  return KILN_LIFT(permute, x, dims);
}
inline Tensor transpose(const TensorLike& x, int axis_1, int axis_2) {
  return KILN_LIFT(transpose, x, axis_1, axis_2);
}
inline Tensor squeeze(const TensorLike& x, int axis) { return KILN_LIFT(squeeze, x, axis); }
inline Tensor unsqueeze(const TensorLike& x, int axis) { return KILN_LIFT(unsqueeze, x, axis); }
inline Tensor flatten(const TensorLike& x, int start_dim = 0, int end_dim = -1) {
  return KILN_LIFT(flatten, x, start_dim, end_dim);
}
inline Tensor concat(const std::vector<Tensor>& values, int axis = 0) {
  return KILN_LIFT(concat, values, axis);
}
inline Tensor stack(const std::vector<Tensor>& values, int axis = 0) {
  return KILN_LIFT(stack, values, axis);
}
inline std::vector<Tensor> split(const TensorLike& x, const std::vector<graph::Dim>& sizes,
                                 int axis = 0) {
  return KILN_LIFT(split, x, sizes, axis);
}
inline Tensor gather(const TensorLike& x, const Tensor& indices, int axis) {
  return KILN_LIFT(gather, x, indices, axis);
}
inline std::pair<Tensor, Tensor> top_k(const TensorLike& x, const graph::Dim& k, int axis = -1) {
  return KILN_LIFT(top_k, x, k, axis);
}
inline std::vector<Tensor> chunk(const TensorLike& x, int chunks, int axis = 0) {
  return KILN_LIFT(chunk, x, chunks, axis);
}
inline Tensor pad(const TensorLike& x, const std::vector<std::int64_t>& paddings,
                  const graph::ops::PadOptions& options = {}) {
  return KILN_LIFT(pad, x, paddings, options);
}
inline Tensor tile(const TensorLike& x, const graph::Shape& repeats) {
  return KILN_LIFT(tile, x, repeats);
}
inline Tensor rebind(const TensorLike& x, const graph::Shape& shape,
                     const graph::ops::RebindOptions& options = {}) {
  return KILN_LIFT(rebind, x, shape, options);
}
inline Tensor gather_nd(const TensorLike& x, const Tensor& indices, int batch_dims = 0) {
  return KILN_LIFT(gather_nd, x, indices, batch_dims);
}
inline Tensor masked_scatter(const TensorLike& x, const Tensor& mask, const Tensor& updates,
                             const graph::Dim& out_dim) {
  return KILN_LIFT(masked_scatter, x, mask, updates, out_dim);
}
inline Tensor nonzero(const TensorLike& x, const graph::Dim& out_dim) {
  return KILN_LIFT(nonzero, x, out_dim);
}
inline Tensor repeat_interleave(const TensorLike& x, std::int64_t repeats,
                                std::optional<int> axis = std::nullopt) {
  return KILN_LIFT(repeat_interleave, x, repeats, axis);
}
/// A count for all, or one for each element of the axis, on the CPU; `out_dim` is the size of the
/// result, compared when it runs.
inline Tensor repeat_interleave(const TensorLike& x, const Tensor& repeats, std::optional<int> axis,
                                const std::optional<graph::Dim>& out_dim) {
  return experimental::detail::lift(
      "repeat_interleave",
      [](const graph::TensorValueLike& value, const graph::TensorValueLike& counts,
         std::optional<int> at, const std::optional<graph::Dim>& size) {
        return graph::ops::repeat_interleave(value, graph::strong(counts), at, size);
      },
      x, repeats, axis, out_dim);
}
inline Tensor band_part(const TensorLike& x, const graph::ops::BandPartOptions& options = {}) {
  return KILN_LIFT(band_part, x, options);
}

#define KILN_SCATTER(name)                                                              \
  inline Tensor name(const TensorLike& x, const Tensor& updates, const Tensor& indices, \
                     int axis = -1) {                                                   \
    return KILN_LIFT(name, x, updates, indices, axis);                                  \
  }
#define KILN_SCATTER_ND(name)                                                             \
  inline Tensor name(const TensorLike& x, const Tensor& updates, const Tensor& indices) { \
    return KILN_LIFT(name, x, updates, indices);                                          \
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

inline std::pair<Tensor, Tensor> bottom_k(const TensorLike& x, const graph::Dim& k, int axis = -1) {
  return KILN_LIFT(bottom_k, x, k, axis);
}
inline Tensor argsort(const TensorLike& x, bool ascending = true) {
  return KILN_LIFT(argsort, x, ascending);
}
inline Tensor cumsum(const TensorLike& x, const graph::ops::CumsumOptions& options = {}) {
  return KILN_LIFT(cumsum, x, options);
}
inline Tensor group_norm(const TensorLike& x, const Tensor& gamma, const Tensor& beta,
                         std::int64_t num_groups, double epsilon) {
  return KILN_LIFT(group_norm, x, gamma, beta, num_groups, epsilon);
}

// Convolutions; the bias stands among the tensors, and that of the options stays empty.
#define KILN_CONVOLUTION(name, Options)                                                \
  inline Tensor name(const TensorLike& x, const Tensor& filter,                        \
                     const graph::ops::Options& options = {}) {                        \
    return KILN_LIFT(name, x, filter, options);                                        \
  }                                                                                    \
  inline Tensor name(const TensorLike& x, const Tensor& filter, const Tensor& bias,    \
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

inline Tensor max_pool2d(const TensorLike& x, const graph::ops::Extent2d& kernel_size,
                         const graph::ops::MaxPool2dOptions& options = {}) {
  return KILN_LIFT(max_pool2d, x, kernel_size, options);
}
inline Tensor avg_pool2d(const TensorLike& x, const graph::ops::Extent2d& kernel_size,
                         const graph::ops::AvgPool2dOptions& options = {}) {
  return KILN_LIFT(avg_pool2d, x, kernel_size, options);
}
inline Tensor resize_nearest(const TensorLike& x, const graph::Shape& size,
                             const graph::ops::ResizeNearestOptions& options = {}) {
  return KILN_LIFT(resize_nearest, x, size, options);
}
inline Tensor resize_linear(const TensorLike& x, const graph::Shape& size,
                            const graph::ops::ResizeLinearOptions& options = {}) {
  return KILN_LIFT(resize_linear, x, size, options);
}
inline Tensor resize_bicubic(const TensorLike& x, const graph::Shape& size) {
  return KILN_LIFT(resize_bicubic, x, size);
}
inline Tensor resize(
    const Tensor& x, const graph::Shape& shape,
    graph::ops::InterpolationMode interpolation = graph::ops::InterpolationMode::BILINEAR) {
  return KILN_LIFT(resize, x, shape, interpolation);
}
inline Tensor roi_align(const TensorLike& x, const Tensor& rois, std::int64_t output_height,
                        std::int64_t output_width,
                        const graph::ops::RoiAlignOptions& options = {}) {
  return KILN_LIFT(roi_align, x, rois, output_height, output_width, options);
}
inline Tensor non_maximum_suppression(const TensorLike& boxes, const Tensor& scores,
                                      const Tensor& max_output_boxes_per_class,
                                      const Tensor& iou_threshold, const Tensor& score_threshold,
                                      const graph::Dim& out_dim = graph::Dim("num_selected")) {
  return KILN_LIFT(non_maximum_suppression, boxes, scores, max_output_boxes_per_class,
                   iou_threshold, score_threshold, out_dim);
}
inline Tensor fold(const TensorLike& x, const std::array<graph::Dim, 2>& output_size,
                   const std::array<std::int64_t, 2>& kernel_size,
                   const graph::ops::FoldOptions& options = {}) {
  return KILN_LIFT(fold, x, output_size, kernel_size, options);
}
inline Tensor irfft(const TensorLike& x, const graph::ops::IrfftOptions& options = {}) {
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

inline Tensor clamp(const Tensor& x, const TensorLike& lower_bound, const TensorLike& upper_bound) {
  return clip(x, lower_bound, upper_bound);
}

// New tensors. What the options leave out is the default in force; in a graph they are constants.

inline Tensor constant(const graph::ops::Literal& value, const TensorOptions& options = {}) {
  return Tensor(value, options);
}
inline Tensor full(const graph::Shape& shape, const Scalar& value,
                   const TensorOptions& options = {}) {
  return Tensor::full(shape, value, options);
}
inline Tensor zeros(const graph::Shape& shape, const TensorOptions& options = {}) {
  return full(shape, 0, options);
}
inline Tensor ones(const graph::Shape& shape, const TensorOptions& options = {}) {
  return full(shape, 1, options);
}
/// With the shape, dtype and placement of a tensor, a layout or a type.
inline Tensor full_like(const TensorLayout& like, const Scalar& value) {
  return Tensor::full_like(like, value);
}
inline Tensor full_like(const graph::TensorType& like, const Scalar& value) {
  return Tensor::full_like(like, value);
}
inline Tensor full_like(const Tensor& like, const Scalar& value) {
  return full_like(like.layout(), value);
}
inline Tensor zeros_like(const auto& like) { return full_like(like, 0); }
inline Tensor ones_like(const auto& like) { return full_like(like, 1); }
/// `start + i * step` up to `stop`, which is excluded.
inline Tensor arange(const Scalar& start, const Scalar& stop, const Scalar& step = 1,
                     const TensorOptions& options = {}) {
  return Tensor::arange(start, stop, step, options);
}
inline Tensor arange(const Scalar& stop) { return arange(0, stop); }
/// The same, also for tensors as bounds: then `out_dim` is the size, compared when it runs.
inline Tensor range(const TensorLike& start, const TensorLike& stop, const TensorLike& step = 1,
                    const TensorOptions& options = {}, const graph::ops::RangeOptions& more = {}) {
  const auto [dtype, device] = defaults(options);
  return experimental::detail::lift(
      "range",
      [](const graph::TensorValueLike& from, const graph::TensorValueLike& to,
         const graph::TensorValueLike& by, DType of, graph::DeviceRef on,
         const std::optional<graph::Dim>& out_dim) {
        return graph::ops::range(from, to, by, of, on, {.out_dim = out_dim});
      },
      start, stop, step, dtype, graph::DeviceRef(device), more.out_dim);
}
/// `0.5 - 0.5 cos(2 pi i / M)`: one period, or symmetric. Negative length: ValueError.
inline Tensor hann_window(std::int64_t window_length, bool periodic = true,
                          const TensorOptions& options = {}) {
  const auto [dtype, device] = defaults(options);
  return experimental::detail::lift(
      "hann_window",
      [](std::int64_t length, bool is_periodic, DType of, graph::DeviceRef on) {
        return graph::ops::hann_window(length, on, {.periodic = is_periodic, .dtype = of});
      },
      window_length, periodic, dtype, graph::DeviceRef(device));
}
/// The dims as an int64 vector on the CPU.
inline Tensor shape_to_tensor(const graph::Shape& shape) {
  return KILN_LIFT(shape_to_tensor, shape);
}
using random::gaussian;
using random::gaussian_like;
using random::normal;
using random::normal_like;
using random::uniform;
using random::uniform_like;

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
inline Tensor transfer_to(const Tensor& x, const LayoutDevice& target,
                          graph::Location location = graph::Location::current()) {
  return x.to(target, location);
}

/// A named weight of the graph that is being built, resolved when the model is initialised. One on
/// several devices has one entry for each of them, `{name}._shard.{i}`. No graph: LookupError.
Tensor constant_external(const std::string& name, const TensorLayout& layout,
                         const graph::ops::ConstantExternalOptions& options = {});

// Collectives along one axis of the mesh of a tensor. Another placement there than the one that is
// named: ShardingError.

/// From Sharded along `tensor_axis` to copies.
Tensor allgather(const Tensor& t, int tensor_axis = 0, const MeshAxis& mesh_axis = 0,
                 graph::Location location = graph::Location::current());
/// From Partial to copies.
Tensor allreduce_sum(const Tensor& t, const MeshAxis& mesh_axis = 0,
                     graph::Location location = graph::Location::current());
/// From Partial to slices along `scatter_axis`.
Tensor reduce_scatter(const Tensor& t, int scatter_axis = 0, const MeshAxis& mesh_axis = 0,
                      graph::Location location = graph::Location::current());

#undef KILN_UNARY
#undef KILN_BINARY

/// Reductions keep the axis with size 1; without an axis they take all elements: `[1]`.
#define KILN_REDUCTION(name)                                                  \
  inline Tensor name(const Tensor& x, std::optional<int> axis = -1,           \
                     graph::Location location = graph::Location::current()) { \
    const graph::LocationScope at_line(location);                             \
    if (!axis) return name(reshape(x, {graph::Dim(-1)}), 0);                  \
    return experimental::detail::lift(                                        \
        #name,                                                                \
        [](const graph::TensorValueLike& value, int at) {                     \
          return graph::ops::name(value, graph::ops::AxisOptions{at});        \
        },                                                                    \
        x, *axis);                                                            \
  }

KILN_REDUCTION(sum)
KILN_REDUCTION(mean)
KILN_REDUCTION(prod)
KILN_REDUCTION(max)
KILN_REDUCTION(min)
KILN_REDUCTION(argmax)
KILN_REDUCTION(argmin)

#undef KILN_REDUCTION

inline Tensor elementwise_max(const TensorLike& lhs, const TensorLike& rhs) {
  return max(lhs, rhs);
}
inline Tensor elementwise_min(const TensorLike& lhs, const TensorLike& rhs) {
  return min(lhs, rhs);
}

#undef KILN_LIFT

}  // namespace functional
}  // namespace kiln::experimental
