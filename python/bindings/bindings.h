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

}  // namespace kiln::python
