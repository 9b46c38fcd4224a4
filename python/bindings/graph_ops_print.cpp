#include <nanobind/stl/string.h>

#include "bindings.h"
#include "graph_values.h"
#include "kiln/graph/ops/print.h"

namespace kiln::python {

namespace ops = graph::ops;

void bind_ops_print(nb::module_& m) {
  m.def(
      "print",
      [](Any value, const std::string& label) {
        if (PyUnicode_Check(value.ptr()))
          ops::print(nb::cast<std::string>(value), label);
        else
          ops::print(to_value_like(value), label);
      },
      nb::arg("value"), nb::arg("label") = "debug_tensor",
      "Prints a tensor or a text when the graph runs.");
}

}  // namespace kiln::python
