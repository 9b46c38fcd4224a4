#pragma once

// What the files of the engine's binding share.

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>

#include "driver_casters.h"
#include "kiln/engine/model.h"
#include "kiln/engine/weights_registry.h"

namespace kiln::python {

/// None, a mapping from names to buffers or arrays, or the tensors of files.
engine::WeightsRegistry to_registry(nb::handle object);
/// Bound to Python, with what calls need to know about it.
nb::object make_model(engine::Model model);
/// What a Python Model holds. Another object: TypeError.
const engine::Model& model_of(nb::handle object);
/// A path as text; nothing for an object that is no path.
std::optional<std::string> to_path(nb::handle object);

void bind_engine_compiled(nb::module_& engine);
void bind_engine_debug(nb::module_& engine);
void bind_engine_model(nb::module_& engine);
void bind_engine_session(nb::module_& engine);

}  // namespace kiln::python
