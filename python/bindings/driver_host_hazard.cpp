#include <nanobind/stl/string.h>

#include "bindings.h"
#include "kiln/driver/host_hazard.h"

namespace kiln::python {
namespace {

PyObject* error_class = nullptr;  // leaked: used until the process ends

}  // namespace

void bind_driver_host_hazard(nb::module_& m) {
  using driver::HostHazardCompletion;
  error_class = add_exception(
      m, "HostHazardError", PyExc_RuntimeError,
      "The work that a host access had to wait for failed; carries that work's text.");
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const driver::HostHazardError& error) {
      PyErr_SetString(error_class, error.what());
    }
  });
  nb::class_<HostHazardCompletion>(m, "HostHazardCompletion",
                                   "A token for device work that uses host memory.")
      .def_static("record_on", &HostHazardCompletion::record_on, nb::arg("queue"),
                  "A token for the present work of the queue.")
      .def_static("poisoned", &HostHazardCompletion::poisoned, nb::arg("queue"), nb::arg("msg"),
                  "A token for work that was refused.")
      .def("poison", &HostHazardCompletion::poison, nb::arg("msg"), "Marks the work as failed.")
      .def("wait", &HostHazardCompletion::wait, nb::call_guard<ReleaseGil>(),
           "Blocks until the work is over; HostHazardError when it failed.")
      .def("is_ready", &HostHazardCompletion::is_ready, "Whether `wait` would return at once.");
}

}  // namespace kiln::python
