#pragma once

// What the files of the binding share: one function a submodule, and the Python classes of kiln's
// exceptions.

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace kiln::python {

/// Teaches nanobind to raise the Python class of each kiln exception; adds the classes that are not
/// built in to `core`.
void bind_errors(nb::module_& core);
void bind_dtype(nb::module_& core);
void bind_driver_device(nb::module_& driver);
void bind_driver_queue(nb::module_& driver);
void bind_driver_buffer(nb::module_& driver);
void bind_graph_dim(nb::module_& graph);
void bind_graph_type(nb::module_& graph);

}  // namespace kiln::python
