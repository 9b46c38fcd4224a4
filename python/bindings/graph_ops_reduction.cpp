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

void def_selection(nb::module_& m, const char* name,
                   std::pair<TensorValue, TensorValue> (*op)(const TensorValueLike&,
                                                             const graph::Dim&, int),
                   const char* doc) {
  m.def(
      name,
      [op](ValueLike input, DimLike k, int axis) {
        const auto [values, indices] = op(input.get(), k.get(), axis);
        return nb::make_tuple(values, indices);
      },
      nb::arg("input"), nb::arg("k"), nb::arg("axis") = -1, doc);
}

}  // namespace

void bind_ops_reduction(nb::module_& m) {
  def_reduction(m, "sum", &ops::sum, "The sum along an axis, which stays with size 1.");
  def_reduction(m, "mean", &ops::mean, "The mean along an axis, which stays with size 1.");
  def_reduction(m, "prod", &ops::prod, "The product along an axis, which stays with size 1.");
  def_reduction(m, "argmax", &ops::argmax, "The first index of the maximum; NaN is the maximum.");
  def_reduction(m, "argmin", &ops::argmin, "The first index of the minimum; NaN is the minimum.");
  m.def(
      "cumsum",
      [](ValueLike x, int axis, bool exclusive, bool reverse) {
        return ops::cumsum(x.get(), {.axis = axis, .exclusive = exclusive, .reverse = reverse});
      },
      nb::arg("x"), nb::arg("axis") = -1, nb::arg("exclusive") = false, nb::arg("reverse") = false,
      "The sums of the elements up to each one, without itself if `exclusive`, from the end if "
      "`reverse`.");
  def_selection(m, "top_k", &ops::top_k,
                "The `k` largest values in descending order, and their int64 indices. NaN comes "
                "first, and equal values in the order of their indices.");
  def_selection(m, "bottom_k", &ops::bottom_k,
                "The `k` smallest values in ascending order, and their int64 indices. NaN comes "
                "last, and equal values in the order of their indices.");
  m.def(
      "argsort", [](ValueLike x, bool ascending) { return ops::argsort(x.get(), ascending); },
      nb::arg("x"), nb::arg("ascending") = true,
      "The int64 indices that sort a tensor of rank 1, stable in both directions; NaN is the "
      "largest value.");
}

}  // namespace kiln::python
