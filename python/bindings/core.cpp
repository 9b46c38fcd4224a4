#include "bindings.h"
#include "python_function.h"

NB_MODULE(_core, m) {
  using namespace kiln::python;
  m.doc() = "The native part of kiln. Use the modules kiln.dtype, kiln.driver, kiln.graph, ….";
  m.attr("__version__") = KILN_PYTHON_VERSION;
  // Some handles live as long as the process, such as devices that other threads still use.
  nb::set_leak_warnings(false);
  bind_errors(m);
  bind_callbacks(m);
  bind_dtype(m);

  nb::module_ driver = m.def_submodule("driver", "Devices, queues and buffers.");
  bind_driver_device(driver);
  bind_driver_queue(driver);
  bind_driver_buffer(driver);
}
