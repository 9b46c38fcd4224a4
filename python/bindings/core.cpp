#include "bindings.h"

NB_MODULE(_core, m) {
  m.doc() = "The native part of kiln. Use the modules kiln.dtype, kiln.driver, kiln.graph, ….";
  m.attr("__version__") = KILN_PYTHON_VERSION;
  // Some handles live as long as the process, such as devices that other threads still use.
  nb::set_leak_warnings(false);
  kiln::python::bind_errors(m);
  kiln::python::bind_dtype(m);
}
