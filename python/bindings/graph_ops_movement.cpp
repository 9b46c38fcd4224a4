#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "graph_values.h"
#include "kiln/graph/ops/movement.h"
#include "kiln/graph/promotion.h"
#include "kiln/support/error.h"

namespace kiln::python {

namespace {

namespace ops = graph::ops;
using graph::TensorValue;
using graph::TensorValueLike;

using Scatter = TensorValue (*)(const TensorValueLike&, const TensorValueLike&,
                                const TensorValueLike&, int);
using ScatterNd = TensorValue (*)(const TensorValueLike&, const TensorValueLike&,
                                  const TensorValueLike&);

void def_scatter(nb::module_& m, const char* name, Scatter op, const char* doc) {
  m.def(
      name,
      [op](ValueLike input, ValueLike updates, ValueLike indices, int axis) {
        return op(input.get(), updates.get(), indices.get(), axis);
      },
      nb::arg("input"), nb::arg("updates"), nb::arg("indices"), nb::arg("axis") = -1, doc);
}

void def_scatter_nd(nb::module_& m, const char* name, ScatterNd op, const char* doc) {
  m.def(
      name,
      [op](ValueLike input, ValueLike updates, ValueLike indices) {
        return op(input.get(), updates.get(), indices.get());
      },
      nb::arg("input"), nb::arg("updates"), nb::arg("indices"), doc);
}

}  // namespace

void bind_ops_movement(nb::module_& m) {
  m.def(
      "concat",
      [](nb::iterable values, int axis) { return ops::concat(to_value_likes(values), axis); },
      nb::arg("original_vals"), nb::arg("axis") = 0, "Joins along an axis.");
  m.def(
      "stack",
      [](nb::iterable values, int axis) { return ops::stack(to_value_likes(values), axis); },
      nb::arg("values"), nb::arg("axis") = 0, "Joins along a new axis.");
  m.def(
      "split",
      [](ValueLike x, ShapeLike sizes, int axis) {
        return make_values(ops::split(x.get(), sizes.get(), axis));
      },
      nb::arg("x"), nb::arg("split_sizes"), nb::arg("axis") = 0, "One tensor per size.");
  m.def(
      "chunk",
      [](ValueLike x, int chunks, int axis) {
        return make_values(ops::chunk(x.get(), chunks, axis));
      },
      nb::arg("x"), nb::arg("chunks"), nb::arg("axis") = 0, "Equal parts.");
  m.def(
      "slice_tensor",
      [](ValueLike x, Any indices) {
        const graph::TensorValueLike value = x.get();
        const graph::Shape shape = value.tensor() ? value.tensor()->shape() : graph::Shape();
        if (PyList_Check(indices.ptr()))
          return ops::slice_tensor(value,
                                   to_indices(nb::steal(PyList_AsTuple(indices.ptr())), shape));
        return ops::slice_tensor(value, to_indices(indices, shape));
      },
      nb::arg("x"), nb::arg("indices"),
      R"(NumPy indexing with range checks instead of clamping; also `x[...]`.

An entry is an int, a slice, `...`, None, an integer scalar tensor on the CPU, or
`(slice, out_dim)`, where the parts of the slice may be such tensors too; a step that is a
tensor must be positive when the graph runs.)");
  m.def(
      "pad",
      [](ValueLike input, const std::vector<std::int64_t>& paddings, const std::string& mode,
         ValueLike value) {
        return ops::pad(input.get(), paddings, {.mode = mode, .value = value.get()});
      },
      nb::arg("input"), nb::arg("paddings"), nb::arg("mode") = "constant", nb::arg("value") = 0,
      "Adds elements before and after each axis; modes 'constant', 'reflect' and 'edge'.");
  m.def(
      "tile", [](ValueLike x, ShapeLike repeats) { return ops::tile(x.get(), repeats.get()); },
      nb::arg("x"), nb::arg("repeats"), "As numpy.tile.");
  m.def(
      "gather",
      [](ValueLike input, ValueLike indices, int axis) {
        return ops::gather(input.get(), indices.get(), axis);
      },
      nb::arg("input"), nb::arg("indices"), nb::arg("axis"), "As numpy.take.");
  m.def(
      "gather_nd",
      [](ValueLike input, ValueLike indices, int batch_dims) {
        return ops::gather_nd(input.get(), indices.get(), batch_dims);
      },
      nb::arg("input"), nb::arg("indices"), nb::arg("batch_dims") = 0,
      "Slices of `input` at the positions that rows of `indices` name.");
  def_scatter(m, "scatter", &ops::scatter, "A copy of `input` with updates along an axis.");
  def_scatter(m, "scatter_add", &ops::scatter_add,
              "A copy of `input` to which updates are added along an axis.");
  def_scatter(m, "scatter_max", &ops::scatter_max,
              "The larger of `input` and the updates along an axis.");
  def_scatter(m, "scatter_min", &ops::scatter_min,
              "The smaller of `input` and the updates along an axis.");
  def_scatter(m, "scatter_mul", &ops::scatter_mul,
              "A copy of `input` that is multiplied by updates along an axis.");
  def_scatter_nd(m, "scatter_nd", &ops::scatter_nd,
                 "A copy of `input` with updates at the positions that rows of `indices` name.");
  def_scatter_nd(m, "scatter_nd_add", &ops::scatter_nd_add,
                 "As scatter_nd, but updates are added; duplicates add up.");
  def_scatter_nd(m, "scatter_nd_max", &ops::scatter_nd_max,
                 "As scatter_nd, but the larger of what is there and the updates stays.");
  def_scatter_nd(m, "scatter_nd_min", &ops::scatter_nd_min,
                 "As scatter_nd, but the smaller of what is there and the updates stays.");
  def_scatter_nd(m, "scatter_nd_mul", &ops::scatter_nd_mul,
                 "As scatter_nd, but what is there is multiplied by the updates.");
  m.def(
      "masked_scatter",
      [](ValueLike input, ValueLike mask, ValueLike updates, DimLike out_dim) {
        return ops::masked_scatter(input.get(), mask.get(), updates.get(), out_dim.get());
      },
      nb::arg("input"), nb::arg("mask"), nb::arg("updates"), nb::arg("out_dim"),
      "A copy of `input` whose elements where `mask` is true are those of `updates`, in order.");
  m.def(
      "nonzero", [](ValueLike x, DimLike out_dim) { return ops::nonzero(x.get(), out_dim.get()); },
      nb::arg("x"), nb::arg("out_dim"),
      "The int64 positions of the elements that are not 0, one a row; `out_dim` is their number.");
  m.def(
      "repeat_interleave",
      [](ValueLike x, ValueLike repeats, std::optional<int> axis, std::optional<DimLike> out_dim) {
        if (PyLong_Check(repeats.object.ptr()) && !PyBool_Check(repeats.object.ptr()))
          return ops::repeat_interleave(x.get(), nb::cast<std::int64_t>(repeats.object), axis);
        const TensorValueLike count = repeats.get();
        std::optional<graph::Dim> dim;
        if (out_dim) dim = out_dim->get();
        const TensorValue counts =
            count.is_weak() ? graph::promote_weak(count, DType::int64, graph::DeviceRef::CPU())
                            : graph::strong(count);
        return ops::repeat_interleave(x.get(), counts, axis, dim);
      },
      nb::arg("x"), nb::arg("repeats"), nb::arg("axis") = nb::none(),
      nb::arg("out_dim") = nb::none(),
      R"(As numpy.repeat; without an axis the input is flattened first.

`repeats` is an int, or an integer tensor on the CPU with one count or one for each element of
the axis; `out_dim` is then the size of the result, checked when the graph runs.)");
  m.def(
      "band_part",
      [](ValueLike x, std::optional<std::int64_t> num_lower, std::optional<std::int64_t> num_upper,
         bool exclude) {
        return ops::band_part(x.get(),
                              {.num_lower = num_lower, .num_upper = num_upper, .exclude = exclude});
      },
      nb::arg("x"), nb::arg("num_lower") = nb::none(), nb::arg("num_upper") = nb::none(),
      nb::arg("exclude") = false, "Keeps a band of diagonals of the last two axes; 0 elsewhere.");
}

}  // namespace kiln::python
