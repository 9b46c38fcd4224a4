#include "bindings.h"
#include "graph_values.h"
#include "kiln/graph/ops/complex.h"

namespace kiln::python {

namespace ops = graph::ops;

void bind_ops_complex(nb::module_& m) {
  m.def(
      "as_interleaved_complex", [](ValueLike x) { return ops::as_interleaved_complex(x.get()); },
      nb::arg("x"), "`[..., 2n]` as `[..., n, 2]`, pairs of real and imaginary part.");
  const auto mul = [](ValueLike lhs, ValueLike rhs) {
    return ops::complex_mul(lhs.get(), rhs.get());
  };
  const char* doc = "The product of complex numbers whose parts lie in the last axis of size 2.";
  m.def("complex_mul", mul, nb::arg("lhs"), nb::arg("rhs"), doc);
  nb::module_ complex = m.def_submodule("complex", "Complex numbers as pairs in the last axis.");
  complex.def("mul", mul, nb::arg("lhs"), nb::arg("rhs"), doc);
}

}  // namespace kiln::python
