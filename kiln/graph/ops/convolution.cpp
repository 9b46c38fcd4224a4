#include "kiln/graph/ops/convolution.h"

#include <string>
#include <vector>

#include "kiln/graph/graph_state.h"
#include "kiln/graph/layout.h"
#include "kiln/graph/ops/elementwise.h"
#include "kiln/graph/ops/shape.h"
#include "kiln/graph/promotion.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph::ops {

using graph::detail::add_tensor_op;

namespace {

using Ints = std::vector<std::int64_t>;

template <typename Array>
Ints ints(const Array& array) {
  return Ints(array.begin(), array.end());
}

/// What both kinds of convolutions share: which axis is which, and how messages call the op.
struct Convolution {
  OpKind kind;
  std::string name;  // "2-D convolution"
  int dims;          // spatial axes
  ConvInputLayout input_layout;
  const std::optional<TensorValueLike>& bias;

  void check_rank(const TensorValue& value, std::string_view what) const {
    if (value.rank() != dims + 2)
      throw ValueError(format("{} a {} must be rank {}, got shape {}", what, name, dims + 2,
                              value.shape().repr()));
  }

  bool channels_first() const { return input_layout == ConvInputLayout::NCHW; }

  /// Moves the channels of `x` to the end.
  TensorValue channels_last(const TensorValue& x) const {
    if (!channels_first()) return x;
    Ints order = {0};
    for (int i = 0; i < dims; ++i) order.push_back(2 + i);
    order.push_back(1);
    return permute(x, order);
  }

  TensorValue as_input(const TensorValue& y) const {
    if (!channels_first()) return y;
    Ints order = {0, dims + 1};
    for (int i = 0; i < dims; ++i) order.push_back(1 + i);
    return permute(y, order);
  }

  /// The op on channels at the end, in the layouts of the IR; `order`: the axes of the filter for
  /// it, empty when they lie so.
  TensorValue apply(const TensorValueLike& input, const TensorValueLike& filter, const Ints& order,
                    std::size_t channel_axis, ir::Attributes attributes) const {
    auto [x, w] = promote(input, filter);
    check_rank(x, "input to");
    check_rank(w, "filter for");
    TensorValue b;
    if (bias) {
      std::tie(x, b) = promote(x, *bias);
      w = cast(w, x.dtype());
    }
    if (!order.empty()) w = permute(w, order);
    const DType dtype = x.dtype();
    // With a bias the sum of both is rounded, once.
    if (bias && dtype.is_half()) {
      x = cast(x, DType::float32);
      w = cast(w, DType::float32);
      b = cast(b, DType::float32);
    }
    TensorValue y = add_tensor_op(kind, {channels_last(x), w}, std::move(attributes));
    if (bias) {
      if (b.shape() != Shape{w.shape()[channel_axis]})
        throw ValueError(format("bias for a {} must be rank 1 with shape (out_channels,)", name));
      y = cast(add(y, b), dtype);
    }
    return as_input(y);
  }
};

[[noreturn]] void throw_layout(const Convolution& op, FilterLayout layout, std::string_view known) {
  throw ValueError(format("The filter of a {} has layout {}, not {}.", op.name, known,
                          graph::to_string(layout)));
}

template <typename Options>
TensorValue convolve(OpKind kind, int dims, FilterLayout last, FilterLayout first,
                     const TensorValueLike& x, const TensorValueLike& filter,
                     const Options& options) {
  LocationScope at(x.location());
  const Convolution op{kind, format("{}-D convolution", dims), dims, options.input_layout,
                       options.bias};
  Ints order;
  if (options.filter_layout == first) {
    for (int i = 0; i < dims; ++i) order.push_back(2 + i);
    order.insert(order.end(), {1, 0});
  } else if (options.filter_layout != last) {
    throw_layout(op, options.filter_layout,
                 format("{} or {}", graph::to_string(last), graph::to_string(first)));
  }
  return op.apply(x, filter, order, static_cast<std::size_t>(dims) + 1,
                  {{"stride", ints(options.stride)},
                   {"dilation", ints(options.dilation)},
                   {"padding", ints(options.padding)},
                   {"groups", options.groups}});
}

ir::Attributes pool_attributes(const Extent2d& kernel_size, const Extent2d& stride,
                               const Extent2d& dilation, const Extent2d& padding, bool ceil_mode) {
  auto pair = [](const Extent2d& e) { return Ints{e.height, e.width}; };
  return {{"kernel_size", pair(kernel_size)},
          {"stride", pair(stride)},
          {"dilation", pair(dilation)},
          {"padding", pair(padding)},
          {"ceil_mode", ceil_mode}};
}

}  // namespace

TensorValue conv2d(const TensorValueLike& x, const TensorValueLike& filter,
                   const Conv2dOptions& options) {
  return convolve(OpKind::conv2d, 2, FilterLayout::RSCF, FilterLayout::FCRS, x, filter, options);
}

TensorValue conv3d(const TensorValueLike& x, const TensorValueLike& filter,
                   const Conv3dOptions& options) {
  return convolve(OpKind::conv3d, 3, FilterLayout::QRSCF, FilterLayout::FCQRS, x, filter, options);
}

TensorValue conv2d_transpose(const TensorValueLike& x, const TensorValueLike& filter,
                             const Conv2dTransposeOptions& options) {
  LocationScope at(x.location());
  const Convolution op{OpKind::conv2d_transpose, "2-D deconvolution", 2, options.input_layout,
                       options.bias};
  Ints order;
  if (options.filter_layout == FilterLayout::CFRS)
    order = {2, 3, 1, 0};
  else if (options.filter_layout != FilterLayout::RSCF)
    throw_layout(op, options.filter_layout, "RSCF or CFRS");
  return op.apply(x, filter, order, 2,
                  {{"stride", ints(options.stride)},
                   {"dilation", ints(options.dilation)},
                   {"padding", ints(options.padding)},
                   {"output_paddings", ints(options.output_paddings)}});
}

TensorValue max_pool2d(const TensorValueLike& input, const Extent2d& kernel_size,
                       const MaxPool2dOptions& options) {
  LocationScope at(input.location());
  return add_tensor_op(OpKind::max_pool2d, {strong(input)},
                       pool_attributes(kernel_size, options.stride, options.dilation,
                                       options.padding, options.ceil_mode));
}

TensorValue avg_pool2d(const TensorValueLike& input, const Extent2d& kernel_size,
                       const AvgPool2dOptions& options) {
  LocationScope at(input.location());
  ir::Attributes attributes = pool_attributes(kernel_size, options.stride, options.dilation,
                                              options.padding, options.ceil_mode);
  attributes["count_boundary"] = options.count_boundary;
  return add_tensor_op(OpKind::avg_pool2d, {strong(input)}, std::move(attributes));
}

}  // namespace kiln::graph::ops
