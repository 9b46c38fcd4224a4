#pragma once

#include <nanobind/nanobind.h>

#include "kiln/gpu/dim.h"

namespace kiln::python {

/// An int or a tuple of up to three; `name` is the argument's, for errors. Others: TypeError.
gpu::Dim to_dim(nanobind::handle object, const char* name);

}  // namespace kiln::python
