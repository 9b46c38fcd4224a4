#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <array>

#include "bindings.h"
#include "graph_values.h"
#include "kiln/graph/ops/boxes.h"
#include "kiln/graph/ops/fft.h"
#include "kiln/graph/ops/fold.h"
#include "kiln/graph/ops/resize.h"
#include "kiln/support/error.h"

namespace kiln::python {
namespace {

namespace ops = graph::ops;

/// One value for both axes, or a pair of them.
struct Pair {
  nb::handle object;

  template <typename T, typename Convert>
  std::array<T, 2> get(const char* name, const Convert& convert) const {
    if (!PySequence_Check(object.ptr()) || PyUnicode_Check(object.ptr())) {
      const T both = convert(object);
      return {both, both};
    }
    const auto items = nb::borrow<nb::sequence>(object);
    if (nb::len(items) != 2)
      throw ValueError("fold: " + std::string(name) + " is one value or two, got " +
                       std::to_string(nb::len(items)) + ".");
    return {convert(items[0]), convert(items[1])};
  }
  std::array<graph::Dim, 2> dims(const char* name) const {
    return get<graph::Dim>(name, [](nb::handle item) { return to_dim(item); });
  }
  std::array<std::int64_t, 2> ints(const char* name) const {
    return get<std::int64_t>(name, [&](nb::handle item) {
      if (!PyLong_Check(item.ptr()) || PyBool_Check(item.ptr()))
        throw TypeError("fold: " + std::string(name) + " must be an int or a pair of ints.");
      return nb::cast<std::int64_t>(item);
    });
  }
};

}  // namespace
}  // namespace kiln::python

namespace nanobind::detail {
KILN_ANY_OBJECT_CASTER(kiln::python::Pair,
                       "int | str | kiln._core.graph.Dim | collections.abc.Sequence")
}  // namespace nanobind::detail

namespace kiln::python {

void bind_ops_image(nb::module_& m) {
  m.def(
      "resize_nearest",
      [](ValueLike input, ShapeLike size, int mode, int round_mode) {
        return ops::resize_nearest(input.get(), size.get(),
                                   {.coordinate_transform_mode = mode, .round_mode = round_mode});
      },
      nb::arg("input"), nb::arg("size"), nb::arg("coordinate_transform_mode") = 0,
      nb::arg("round_mode") = 0,
      R"(The nearest element of the input, along every axis.

Coordinate modes: 0 half_pixel, 1 align_corners, 2 asymmetric, 3 half_pixel_1D. Round modes: 0 half
down, 1 half up, 2 floor, 3 ceil.)");
  m.def(
      "resize_linear",
      [](ValueLike input, ShapeLike size, int mode, bool antialias) {
        return ops::resize_linear(input.get(), size.get(),
                                  {.coordinate_transform_mode = mode, .antialias = antialias});
      },
      nb::arg("input"), nb::arg("size"), nb::arg("coordinate_transform_mode") = 0,
      nb::arg("antialias") = false,
      "Linear interpolation, axis by axis; `antialias` widens the filter where the result is "
      "smaller.");
  m.def(
      "resize_bicubic",
      [](ValueLike input, ShapeLike size) { return ops::resize_bicubic(input.get(), size.get()); },
      nb::arg("input"), nb::arg("size"), "Cubic interpolation of the last two axes of NCHW.");
  nb::enum_<ops::InterpolationMode>(m, "InterpolationMode", "How `resize` interpolates.")
      .value("NEAREST", ops::InterpolationMode::NEAREST)
      .value("BILINEAR", ops::InterpolationMode::BILINEAR)
      .value("BICUBIC", ops::InterpolationMode::BICUBIC);
  m.def(
      "resize",
      [](ValueLike input, ShapeLike shape, ops::InterpolationMode interpolation) {
        return ops::resize(input.get(), shape.get(), interpolation);
      },
      nb::arg("input"), nb::arg("shape"),
      nb::arg("interpolation") = ops::InterpolationMode::BILINEAR,
      "Resizes the last two axes of NCHW.");
  m.def(
      "fold",
      [](ValueLike input, Pair output_size, Pair kernel_size, Pair stride, Pair dilation,
         Pair padding) {
        return ops::fold(input.get(), output_size.dims("output_size"),
                         kernel_size.ints("kernel_size"),
                         {.stride = stride.ints("stride"),
                          .dilation = dilation.ints("dilation"),
                          .padding = padding.ints("padding")});
      },
      nb::arg("input"), nb::arg("output_size"), nb::arg("kernel_size"), nb::arg("stride") = 1,
      nb::arg("dilation") = 1, nb::arg("padding") = 0,
      "Adds up blocks `[N, C * kernel size, L]` where they lie in an image `[N, C, H, W]`.");
  m.def(
      "irfft",
      [](ValueLike input, std::optional<std::int64_t> n, int axis, const std::string& normalization,
         bool input_is_complex, std::int64_t buffer_size_mb) {
        return ops::irfft(input.get(), {.n = n,
                                        .axis = axis,
                                        .normalization = normalization,
                                        .input_is_complex = input_is_complex,
                                        .buffer_size_mb = buffer_size_mb});
      },
      nb::arg("input_tensor"), nb::arg("n") = nb::none(), nb::arg("axis") = -1,
      nb::arg("normalization") = "backward", nb::arg("input_is_complex") = false,
      nb::arg("buffer_size_mb") = 512,
      "The inverse Fourier transform of half a Hermitian spectrum, as numpy.fft.irfft.");
  m.def(
      "roi_align",
      [](ValueLike input, ValueLike rois, std::int64_t output_height, std::int64_t output_width,
         double spatial_scale, double sampling_ratio, bool aligned, const std::string& mode) {
        return ops::roi_align(input.get(), rois.get(), output_height, output_width,
                              {.spatial_scale = spatial_scale,
                               .sampling_ratio = sampling_ratio,
                               .aligned = aligned,
                               .mode = mode});
      },
      nb::arg("input"), nb::arg("rois"), nb::arg("output_height"), nb::arg("output_width"),
      nb::arg("spatial_scale") = 1.0, nb::arg("sampling_ratio") = 0.0, nb::arg("aligned") = false,
      nb::arg("mode") = "AVG",
      "Bilinear samples of `[N, H, W, C]` in the bins of regions `(batch, x1, y1, x2, y2)`.");
  m.def(
      "non_maximum_suppression",
      [](ValueLike boxes, ValueLike scores, ValueLike most, ValueLike iou, ValueLike score,
         DimLike out_dim) {
        return ops::non_maximum_suppression(boxes.get(), scores.get(), most.get(), iou.get(),
                                            score.get(), out_dim.get());
      },
      nb::arg("boxes"), nb::arg("scores"), nb::arg("max_output_boxes_per_class"),
      nb::arg("iou_threshold"), nb::arg("score_threshold"), nb::arg("out_dim") = "num_selected",
      R"(Rows `(batch, class, box)` of the boxes that no better one overlaps too much.

Boxes `[B, N, 4]` are corners `(y1, x1, y2, x2)`, scores `[B, K, N]`; `out_dim` is the number of
rows, checked when the graph runs.)");
}

}  // namespace kiln::python
