#include "bindings.h"
#include "graph_values.h"
#include "kiln/graph/ops/linalg.h"

namespace kiln::python {

namespace ops = graph::ops;

void bind_ops_linalg(nb::module_& m) {
  m.def(
      "matmul", [](ValueLike lhs, ValueLike rhs) { return ops::matmul(lhs.get(), rhs.get()); },
      nb::arg("lhs"), nb::arg("rhs"), R"(
Products of the matrices in the last two axes; also `lhs @ rhs`.

>>> from kiln.driver import CPU
>>> from kiln.dtype import DType
>>> from kiln.graph import Graph, TensorType, ops
>>> types = [TensorType(DType.float32, shape, CPU()) for shape in (["n", 3], [3, 2])]
>>> with Graph("g", input_types=types) as graph:
...     ops.matmul(*graph.inputs).shape
[Dim('n'), Dim(2)])");
  m.def(
      "outer", [](ValueLike lhs, ValueLike rhs) { return ops::outer(lhs.get(), rhs.get()); },
      nb::arg("lhs"), nb::arg("rhs"), "All products of two vectors.");
}

}  // namespace kiln::python
