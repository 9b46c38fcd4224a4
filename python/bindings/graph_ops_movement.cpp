#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "graph_values.h"
#include "kiln/graph/ops/movement.h"

namespace kiln::python {

namespace ops = graph::ops;

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
  m.def(
      "scatter",
      [](ValueLike input, ValueLike updates, ValueLike indices, int axis) {
        return ops::scatter(input.get(), updates.get(), indices.get(), axis);
      },
      nb::arg("input"), nb::arg("updates"), nb::arg("indices"), nb::arg("axis") = -1,
      "A copy of `input` with updates along an axis.");
  m.def(
      "repeat_interleave",
      [](ValueLike x, std::int64_t repeats, std::optional<int> axis) {
        return ops::repeat_interleave(x.get(), repeats, axis);
      },
      nb::arg("x"), nb::arg("repeats"), nb::arg("axis") = nb::none(),
      "As numpy.repeat; without an axis the input is flattened first.");
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
