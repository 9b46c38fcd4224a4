#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/variant.h>

#include <array>
#include <optional>
#include <variant>

#include "bindings.h"
#include "graph_values.h"
#include "kiln/graph/ops/convolution.h"

namespace kiln::python {

namespace ops = graph::ops;

namespace {

template <std::size_t n>
using Numbers = std::array<std::int64_t, n>;

/// One number for both axes, or one each.
using NumberOrPair = std::variant<std::int64_t, Numbers<2>>;

ops::Extent2d to_extent(const NumberOrPair& value) {
  if (const auto* both = std::get_if<std::int64_t>(&value)) return *both;
  const auto& [height, width] = std::get<Numbers<2>>(value);
  return {height, width};
}

std::optional<graph::TensorValueLike> to_bias(const std::optional<ValueLike>& bias) {
  return bias ? std::optional(bias->get()) : std::nullopt;
}

/// `count` times `number`, as the default of an argument.
nb::tuple repeated(std::int64_t number, std::size_t count) {
  nb::list list;
  for (std::size_t i = 0; i < count; ++i) list.append(number);
  return nb::tuple(list);
}

/// A convolution over `Axes` axes.
template <std::size_t Axes, typename Options>
void bind_convolution(nb::module_& m, const char* name, graph::FilterLayout layout,
                      graph::TensorValue (*op)(const graph::TensorValueLike&,
                                               const graph::TensorValueLike&, const Options&),
                      const char* doc) {
  m.def(
      name,
      [op](ValueLike x, ValueLike filter, Numbers<Axes> stride, Numbers<Axes> dilation,
           Numbers<2 * Axes> padding, std::int64_t groups, std::optional<ValueLike> bias,
           graph::ConvInputLayout input_layout, graph::FilterLayout filter_layout) {
        return op(x.get(), filter.get(),
                  {.stride = stride,
                   .dilation = dilation,
                   .padding = padding,
                   .groups = groups,
                   .bias = to_bias(bias),
                   .input_layout = input_layout,
                   .filter_layout = filter_layout});
      },
      nb::arg("x"), nb::arg("filter"), nb::arg("stride") = repeated(1, Axes),
      nb::arg("dilation") = repeated(1, Axes), nb::arg("padding") = repeated(0, 2 * Axes),
      nb::arg("groups") = 1, nb::arg("bias") = nb::none(),
      nb::arg("input_layout") = graph::ConvInputLayout::NHWC, nb::arg("filter_layout") = layout,
      doc);
}

}  // namespace

void bind_ops_convolution(nb::module_& m) {
  using graph::ConvInputLayout;
  using graph::FilterLayout;
  bind_convolution<2>(m, "conv2d", FilterLayout::RSCF, &ops::conv2d, R"(
Cross-correlation of `[N, H, W, C]` with a filter `[R, S, C / groups, F]`.

>>> from kiln.driver import CPU
>>> from kiln.dtype import DType
>>> from kiln.graph import Graph, TensorType, ops
>>> types = [TensorType(DType.float32, shape, CPU()) for shape in (["n", 8, 8, 3], [3, 3, 3, 16])]
>>> with Graph("g", input_types=types) as graph:
...     ops.conv2d(*graph.inputs, padding=(1, 1, 1, 1)).shape
[Dim('n'), Dim(8), Dim(8), Dim(16)])");
  bind_convolution<3>(m, "conv3d", FilterLayout::QRSCF, &ops::conv3d,
                      "As `conv2d` of `[N, D, H, W, C]` with a filter `[Q, R, S, C / groups, F]`.");
  m.def(
      "conv2d_transpose",
      [](ValueLike x, ValueLike filter, Numbers<2> stride, Numbers<2> dilation, Numbers<4> padding,
         Numbers<2> output_paddings, std::optional<ValueLike> bias, ConvInputLayout input_layout,
         FilterLayout filter_layout) {
        return ops::conv2d_transpose(x.get(), filter.get(),
                                     {.stride = stride,
                                      .dilation = dilation,
                                      .padding = padding,
                                      .output_paddings = output_paddings,
                                      .bias = to_bias(bias),
                                      .input_layout = input_layout,
                                      .filter_layout = filter_layout});
      },
      nb::arg("x"), nb::arg("filter"), nb::arg("stride") = nb::make_tuple(1, 1),
      nb::arg("dilation") = nb::make_tuple(1, 1), nb::arg("padding") = nb::make_tuple(0, 0, 0, 0),
      nb::arg("output_paddings") = nb::make_tuple(0, 0), nb::arg("bias") = nb::none(),
      nb::arg("input_layout") = ConvInputLayout::NHWC,
      nb::arg("filter_layout") = FilterLayout::RSCF,
      "The gradient of `conv2d` with respect to its input; the filter is `[R, S, out, in]`.");
  m.def(
      "avg_pool2d",
      [](ValueLike input, NumberOrPair kernel_size, NumberOrPair stride, NumberOrPair dilation,
         NumberOrPair padding, bool ceil_mode, bool count_boundary) {
        return ops::avg_pool2d(input.get(), to_extent(kernel_size),
                               {.stride = to_extent(stride),
                                .dilation = to_extent(dilation),
                                .padding = to_extent(padding),
                                .ceil_mode = ceil_mode,
                                .count_boundary = count_boundary});
      },
      nb::arg("input"), nb::arg("kernel_size"), nb::arg("stride") = 1, nb::arg("dilation") = 1,
      nb::arg("padding") = 0, nb::arg("ceil_mode") = false, nb::arg("count_boundary") = true,
      "The mean of each window of `[N, H, W, C]`.");
  m.def(
      "max_pool2d",
      [](ValueLike input, NumberOrPair kernel_size, NumberOrPair stride, NumberOrPair dilation,
         NumberOrPair padding, bool ceil_mode) {
        return ops::max_pool2d(input.get(), to_extent(kernel_size),
                               {.stride = to_extent(stride),
                                .dilation = to_extent(dilation),
                                .padding = to_extent(padding),
                                .ceil_mode = ceil_mode});
      },
      nb::arg("input"), nb::arg("kernel_size"), nb::arg("stride") = 1, nb::arg("dilation") = 1,
      nb::arg("padding") = 0, nb::arg("ceil_mode") = false,
      "The largest element of each window of `[N, H, W, C]`.");
}

}  // namespace kiln::python
