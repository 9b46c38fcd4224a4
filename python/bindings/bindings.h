#pragma once

// What the files of the binding share: one function a submodule, and the Python classes of kiln's
// exceptions.

#include <nanobind/nanobind.h>

#include <string>

#include "gil.h"
#include "kiln/support/error.h"

namespace nb = nanobind;

namespace kiln::python {

/// A new exception class in `scope`, borrowed; it lives as long as the process.
PyObject* add_exception(nb::module_& scope, const char* name, PyObject* base, const char* doc);
/// Teaches nanobind to raise the Python class of each kiln exception; adds the classes that are not
/// built in to `core`.
void bind_errors(nb::module_& core);
/// The translators of nanobind's functions, for one that is called by Python itself: sets the error
/// for the exception that is being handled, and returns null.
PyObject* raise_current_exception();
void bind_dtype(nb::module_& core);
void bind_driver_device(nb::module_& driver);
void bind_driver_queue(nb::module_& driver);
void bind_driver_buffer(nb::module_& driver);
void bind_driver_host_hazard(nb::module_& driver);
void bind_driver_virtual_device(nb::module_& driver);
void bind_driver_trace(nb::module_& driver);
void bind_driver_symmetric_pool(nb::module_& driver);
void bind_gpu_attributes(nb::module_& gpu);
void bind_gpu(nb::module_& gpu);
void bind_graph_dim(nb::module_& graph);
void bind_graph_type(nb::module_& graph);
void bind_graph_value(nb::module_& graph);
void bind_graph_weight(nb::module_& graph);
void bind_graph_graph(nb::module_& graph);
void bind_graph_location(nb::module_& graph);
void bind_ops_elementwise(nb::module_& ops);
void bind_ops_shape(nb::module_& ops);
void bind_ops_movement(nb::module_& ops);
void bind_ops_constant(nb::module_& ops);
void bind_ops_image(nb::module_& ops);
void bind_ops_quantized(nb::module_& ops);
void bind_ops_collectives(nb::module_& ops);
void bind_ops_random(nb::module_& ops);
void bind_ops_reduction(nb::module_& ops);
void bind_ops_linalg(nb::module_& ops);
void bind_ops_norm(nb::module_& ops);
void bind_ops_convolution(nb::module_& ops);
void bind_ops_complex(nb::module_& ops);
void bind_ops_print(nb::module_& ops);
void bind_ops_transfer(nb::module_& ops);
void bind_ops_buffer(nb::module_& ops);
void bind_ops_control_flow(nb::module_& ops);
void bind_engine(nb::module_& engine);
void bind_weights(nb::module_& weights);
void bind_experimental_sharding(nb::module_& experimental);
void bind_experimental_tensor(nb::module_& experimental);
void bind_experimental_modes(nb::module_& experimental);
void bind_experimental_callable(nb::module_& experimental);
/// Lifts every op that is bound by then.
void bind_experimental_functional(nb::module_& functional, nb::module_& ops);
/// Last: gives every function bound by then sentences for arguments that do not fit.
void bind_call_errors(nb::module_& core);

/// The `__init__` of a class whose objects kiln alone makes. `source` says what gives one.
template <typename T>
auto refuse_call(const char* source) {
  return [source](T*, const nb::args&, const nb::kwargs&) {
    throw TypeError(std::string("This class is not called; ") + source);
  };
}

}  // namespace kiln::python
