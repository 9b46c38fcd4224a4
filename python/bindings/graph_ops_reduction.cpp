#include "bindings.h"
#include "graph_values.h"
#include "kiln/graph/ops/reduction.h"

namespace kiln::python {
namespace {

namespace ops = graph::ops;
using graph::TensorValue;
using graph::TensorValueLike;

void def_reduction(nb::module_& m, const char* name, TensorValue (*op)(const TensorValueLike&, int),
                   const char* doc) {
  m.def(
      name, [op](ValueLike x, int axis) { return op(x.get(), axis); }, nb::arg("x"),
      nb::arg("axis") = -1, doc);
}

}  // namespace

void bind_ops_reduction(nb::module_& m) {
  def_reduction(m, "sum", &ops::sum, "The sum along an axis, which stays with size 1.");
  def_reduction(m, "mean", &ops::mean, "The mean along an axis, which stays with size 1.");
  def_reduction(m, "prod", &ops::prod, "The product along an axis, which stays with size 1.");
  def_reduction(m, "argmax", &ops::argmax, "The first index of the maximum; NaN is the maximum.");
  def_reduction(m, "argmin", &ops::argmin, "The first index of the minimum; NaN is the minimum.");
  m.def(
      "top_k",
      [](ValueLike input, DimLike k, int axis) {
        const auto [values, indices] = ops::top_k(input.get(), k.get(), axis);
        return nb::make_tuple(values, indices);
      },
      nb::arg("input"), nb::arg("k"), nb::arg("axis") = -1,
      "The `k` largest values in descending order, and their indices.");
}

}  // namespace kiln::python
