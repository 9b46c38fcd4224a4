#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "graph_values.h"
#include "kiln/graph/ops/shape.h"

namespace kiln::python {

namespace ops = graph::ops;

void bind_ops_shape(nb::module_& m) {
  m.def(
      "reshape", [](ValueLike x, ShapeLike shape) { return ops::reshape(x.get(), shape.get()); },
      nb::arg("x"), nb::arg("shape"), "Row-major order kept; one dim may be -1.");
  m.def(
      "flatten",
      [](ValueLike x, int start_dim, int end_dim) {
        return ops::flatten(x.get(), start_dim, end_dim);
      },
      nb::arg("x"), nb::arg("start_dim") = 0, nb::arg("end_dim") = -1,
      "Merges the axes `start_dim` to `end_dim`.");
  m.def(
      "rebind",
      [](ValueLike x, ShapeLike shape, const std::string& message,
         std::optional<graph::FilterLayout> layout) {
        return ops::rebind(x.get(), shape.get(), {.message = message, .layout = layout});
      },
      nb::arg("x"), nb::arg("shape"), nb::arg("message") = "", nb::arg("layout") = nb::none(),
      "Asserts at run that `x` has `shape` and goes on with the new dims.");
  m.def(
      "broadcast_to",
      [](ValueLike x, Any shape, Any out_dims) {
        if (!stands_for_value(shape)) return ops::broadcast_to(x.get(), to_shape(shape));
        return ops::broadcast_to(
            x.get(), to_tensor(shape),
            out_dims.is_none() ? std::nullopt : std::optional(to_shape(out_dims)));
      },
      nb::arg("x"), nb::arg("shape"), nb::arg("out_dims") = nb::none(),
      "NumPy broadcasting to a shape, or to a vector that holds one.");
  m.def(
      "squeeze", [](ValueLike x, int axis) { return ops::squeeze(x.get(), axis); }, nb::arg("x"),
      nb::arg("axis"), "Removes an axis of size 1.");
  m.def(
      "unsqueeze", [](ValueLike x, int axis) { return ops::unsqueeze(x.get(), axis); },
      nb::arg("x"), nb::arg("axis"), "Inserts an axis of size 1.");
  m.def(
      "transpose",
      [](ValueLike x, int axis_1, int axis_2) { return ops::transpose(x.get(), axis_1, axis_2); },
      nb::arg("x"), nb::arg("axis_1"), nb::arg("axis_2"), "Swaps two axes.");
  m.def(
      "permute",
      [](ValueLike x, const std::vector<std::int64_t>& dims) {
        return ops::permute(x.get(), dims);
      },
      nb::arg("x"), nb::arg("dims"), "Result axis i is input axis `dims[i]`.");
}

}  // namespace kiln::python
