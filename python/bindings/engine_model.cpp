#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>

#include "bindings.h"
#include "engine_casters.h"
#include "kiln/engine/model.h"
#include "kiln/support/error.h"

namespace kiln::python {
namespace {

using driver::Buffer;
using engine::Model;
using engine::TensorSpec;

// A call that runs for less than this keeps the GIL: giving it away and taking it back would cost
// a small call more than its work, and other threads wait no longer than for any Python statement.
constexpr std::chrono::nanoseconds kShortCall = std::chrono::microseconds(20);

/// What a Python Model holds.
struct ModelObject {
  Model model;
  bool writes_inputs = false;
  // How long the last call took and how many elements it was given; guarded by the GIL.
  std::chrono::nanoseconds last_time = std::chrono::hours(1);
  std::chrono::nanoseconds last_replay = std::chrono::hours(1);
  std::int64_t last_elements = 0;
};

PyTypeObject* buffer_class = nullptr;
PyTypeObject* model_class = nullptr;

constexpr const char* kNotContiguous =
    "kiln does not currently support executing non-contiguous tensors. Before passing these "
    "tensors, make a contiguous copy of them using .contiguous().";

[[noreturn]] void refuse_buffer_input(std::size_t i) {
  throw ValueError("input " + std::to_string(i) +
                   " is a buffer that the graph may write; it needs writable, aligned memory");
}

/// An array as it is, strides included; the engine says what it refuses.
Buffer borrow_ndarray(nb::handle array, const NDArray& facts) {
  if (facts.contiguous) return alias_ndarray(array, facts);
  throw ValueError(kNotContiguous);
}

NDArray read_input(nb::handle array, std::size_t i) {
  try {
    return read_ndarray(array);
  } catch (const ValueError& error) {
    throw ValueError("Input at position " + std::to_string(i) + ": " + error.message());
  }
}

Buffer to_input(const ModelObject& self, nb::handle argument, std::size_t i) {
  const auto& specs = self.model.input_metadata();
  const bool is_buffer = self.writes_inputs && i < specs.size() && self.model.is_buffer_input(i);
  if (is_ndarray(argument)) {
    const NDArray facts = read_input(argument, i);
    if (is_buffer && !facts.writable) refuse_buffer_input(i);
    return borrow_ndarray(argument, facts);
  }
  if (is_number(argument)) {
    if (is_buffer) refuse_buffer_input(i);
    if (i >= specs.size()) return Buffer::scalar(0, DType::int64);  // the count is refused later
    return Buffer::scalar(
        to_scalar(argument), specs[i].dtype,
        specs[i].device.is_cpu() ? driver::CPU() : driver::Accelerator(specs[i].device.id));
  }
  if (python::is_buffer(argument)) return buffer_of(argument);
  if (!is_dlpack_producer(argument))
    throw ValueError(
        "All positional arguments must be of the type `kiln.driver.Buffer` or a tensor type "
        "implementing the dlpack protocol. We do not currently support inputs of the type " +
        type_text(argument) + ".");
  try {
    return buffer_from_dlpack(argument, is_buffer ? std::optional(false) : std::nullopt);
  } catch (const BufferError&) {
    if (is_buffer) refuse_buffer_input(i);
    throw;
  } catch (const ValueError&) {
    throw ValueError(kNotContiguous);
  }
}

/// The inputs of a call; few live inside the object.
class Inputs {
 public:
  Inputs(const ModelObject& self, PyObject* const* arguments, std::size_t count) {
    if (count > kInline) heap_.resize(count);
    Buffer* inputs = count > kInline ? heap_.data() : inline_;
    for (std::size_t i = 0; i < count; ++i)
      inputs[i] = Py_TYPE(arguments[i]) == buffer_class ? buffer_of(arguments[i])
                                                        : to_input(self, arguments[i], i);
    span_ = {inputs, count};
  }
  std::span<const Buffer> span() const { return span_; }

 private:
  static constexpr std::size_t kInline = 8;
  Buffer inline_[kInline];
  std::vector<Buffer> heap_;
  std::span<const Buffer> span_;
};

/// Whether the call will not take long once it starts.
bool is_short(const ModelObject& self, std::int64_t elements) {
  return !self.writes_inputs && self.last_time <= kShortCall && elements <= 2 * self.last_elements;
}

nb::list to_list(std::span<Buffer> buffers) {
  nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(buffers.size())));
  for (std::size_t i = 0; i < buffers.size(); ++i)
    PyList_SetItem(list.ptr(), static_cast<Py_ssize_t>(i),
                   make_buffer(std::move(buffers[i])).release().ptr());
  return nb::steal<nb::list>(list.release());
}

nb::list execute(ModelObject& self, PyObject* const* arguments, std::size_t count) {
  const Inputs inputs(self, arguments, count);
  std::int64_t elements = 1;
  for (const Buffer& input : inputs.span()) elements += input.num_elements();
  Model::Outputs outputs;
  const auto start = std::chrono::steady_clock::now();
  auto end = start;
  // With the GIL the call may not wait: what it waits for might need the GIL.
  if (is_short(self, elements) && self.model.try_execute(inputs.span(), outputs)) {
    end = std::chrono::steady_clock::now();
  } else {
    ReleaseGil release;
    outputs = self.model.execute(inputs.span());
    end = std::chrono::steady_clock::now();
  }
  self.last_time = end - start;
  self.last_elements = elements;
  return to_list({outputs.begin(), outputs.end()});
}

std::uint64_t to_key(PyObject* object) {
  if (!PyLong_Check(object) || PyBool_Check(object)) throw TypeError("graph_key must be an int.");
  const std::uint64_t key = PyLong_AsUnsignedLongLong(object);
  if (key == UINT64_MAX && PyErr_Occurred()) {
    PyErr_Clear();
    throw ValueError("graph_key must be in range [0, 2^64 - 1].");
  }
  return key;
}

engine::GraphKeys to_keys(PyObject* object) {
  if (PyLong_Check(object)) return to_key(object);
  if (PyUnicode_Check(object) || PyBytes_Check(object) || !PySequence_Check(object))
    throw TypeError("graph_keys must be an int or sequence of ints.");
  std::vector<std::uint64_t> keys;
  for (nb::handle key : nb::iter(nb::handle(object))) keys.push_back(to_key(key.ptr()));
  return keys;
}

/// A method whose arguments are keys and inputs.
template <typename Call>
PyObject* with_keys(const char* name, PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                    const Call& call) {
  try {
    if (count == 0)
      throw TypeError("Model." + std::string(name) + "() needs the graph keys, then the inputs.");
    const engine::GraphKeys keys = to_keys(arguments[0]);
    auto& model = *nb::inst_ptr<ModelObject>(self);
    const Inputs inputs(model, arguments + 1, static_cast<std::size_t>(count - 1));
    return call(model, keys, inputs.span());
  } catch (...) {
    return raise_current_exception();
  }
}

PyObject* capture(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return with_keys("capture", self, arguments, count,
                   [](ModelObject& model, const engine::GraphKeys& keys, auto inputs) {
                     std::vector<Buffer> outputs;
                     {
                       ReleaseGil release;
                       outputs = model.model.capture(keys, inputs);
                     }
                     return to_list(outputs).release().ptr();
                   });
}

PyObject* replay(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return with_keys("replay", self, arguments, count,
                   [](ModelObject& model, const engine::GraphKeys& keys, auto inputs) {
                     const auto start = std::chrono::steady_clock::now();
                     const bool is_short = model.last_replay <= kShortCall;
                     if (!is_short || !model.model.try_replay(keys, inputs)) {
                       ReleaseGil release;
                       model.model.replay(keys, inputs);
                     }
                     model.last_replay = std::chrono::steady_clock::now() - start;
                     return Py_NewRef(Py_None);
                   });
}

PyObject* verify_replay(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return with_keys("debug_verify_replay", self, arguments, count,
                   [](ModelObject& model, const engine::GraphKeys& keys, auto inputs) {
                     {
                       ReleaseGil release;
                       model.model.debug_verify_replay(keys, inputs);
                     }
                     return Py_NewRef(Py_None);
                   });
}

/// Binds names as Python binds arguments to parameters.
std::vector<nb::object> bind_names(const ModelObject& self, nb::handle args, nb::handle kwargs) {
  const auto& specs = self.model.input_metadata();
  const auto given = static_cast<std::size_t>(PyTuple_Size(args.ptr()));
  if (given > specs.size()) throw TypeError("too many positional arguments");
  std::vector<nb::object> bound(specs.size());
  for (std::size_t i = 0; i < given; ++i)
    bound[i] = nb::borrow(PyTuple_GetItem(args.ptr(), static_cast<Py_ssize_t>(i)));
  for (auto [key, value] : nb::borrow<nb::dict>(kwargs)) {
    const auto name = nb::cast<std::string>(key);
    std::size_t i = 0;
    while (i < specs.size() && specs[i].name != name) ++i;
    if (i == specs.size()) throw TypeError("got an unexpected keyword argument '" + name + "'");
    if (bound[i].is_valid()) throw TypeError("multiple values for argument '" + name + "'");
    bound[i] = nb::borrow(value);
  }
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (!bound[i].is_valid())
      throw TypeError("missing a required argument: '" + specs[i].name + "'");
  return bound;
}

// Not a function of nanobind's: those pack their arguments into a tuple, which is a tenth of the
// time of a small call.
PyObject* execute_directly(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  try {
    return execute(*nb::inst_ptr<ModelObject>(self), arguments, static_cast<std::size_t>(count))
        .release()
        .ptr();
  } catch (...) {
    return raise_current_exception();
  }
}

using FastMethod = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);

PyMethodDef fast_method(const char* name, FastMethod method, const char* doc) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(method)), METH_FASTCALL,
          doc};
}

PyMethodDef fast_methods[] = {
    fast_method(
        "execute", &execute_directly,
        "execute($self, /, *args)\n--\n\n"
        "Runs the graph on one buffer, array or number per input and returns the list of results."),
    fast_method(
        "capture", &capture,
        "capture($self, graph_keys, /, *inputs)\n--\n\n"
        "Executes, and records the execution under a key, or a key for each device. Returns "
        "the list of results, which later replays write."),
    fast_method(
        "replay", &replay,
        "replay($self, graph_keys, /, *inputs)\n--\n\n"
        "Runs a recorded execution again on what the captured buffers hold now; other inputs "
        "than these are a RuntimeError."),
    fast_method("debug_verify_replay", &verify_replay,
                "debug_verify_replay($self, graph_keys, /, *inputs)\n--\n\n"
                "Executes on these inputs and compares the launches with the recorded ones; a "
                "difference is a RuntimeError that names the first."),
};

nb::object signature_of(const ModelObject& self) {
  nb::module_ inspect = nb::module_::import_("inspect");
  nb::object parameter = inspect.attr("Parameter");
  nb::list parameters;
  for (const TensorSpec& spec : self.model.input_metadata())
    parameters.append(parameter(spec.name, parameter.attr("POSITIONAL_OR_KEYWORD")));
  return inspect.attr("Signature")(parameters);
}

void bind_specs(nb::module_& m) {
  nb::class_<TensorSpec>(m, "TensorSpec", "What a model takes or gives at one position.")
      .def("__init__", refuse_call<TensorSpec>("Model.input_metadata lists TensorSpec objects."))
      .def_ro("dtype", &TensorSpec::dtype, "Element type.")
      .def_ro("name", &TensorSpec::name, "Such as 'input0'.")
      .def_prop_ro(
          "shape",
          [](const TensorSpec& s) -> nb::object {
            if (!s.shape) return nb::none();
            nb::list dims;
            for (const auto& dim : *s.shape) dims.append(dim);
            return std::move(dims);
          },
          "A list of ints, None for symbolic dims; None for any rank.")
      .def_ro("device", &TensorSpec::device, "Where it lies.")
      .def("__eq__",
           [](const TensorSpec& a, Any b) -> nb::object {
             if (!nb::isinstance<TensorSpec>(b)) return nb::borrow(Py_NotImplemented);
             return nb::bool_(a == *nb::inst_ptr<TensorSpec>(b));
           })
      .def("__str__", &TensorSpec::to_string)
      .def("__repr__", &TensorSpec::repr);
  using engine::ModelMetadata;
  nb::class_<ModelMetadata>(m, "ModelMetadata", "Names, inputs and outputs of one graph.")
      .def_ro("name", &ModelMetadata::name, "The graph's name.")
      .def_ro("input_metadata", &ModelMetadata::input_metadata, "One spec per input.")
      .def_ro("output_metadata", &ModelMetadata::output_metadata, "One spec per output.")
      .def("__repr__",
           [](const ModelMetadata& m) { return "ModelMetadata(name='" + m.name + "')"; });
}

}  // namespace

nb::object make_model(Model model) {
  ModelObject object{std::move(model)};
  const std::size_t count = object.model.input_metadata().size();
  for (std::size_t i = 0; i < count; ++i) object.writes_inputs |= object.model.is_buffer_input(i);
  return nb::cast(std::move(object));
}

const Model& model_of(nb::handle object) {
  if (!nb::isinstance<ModelObject>(object) || !nb::inst_ready(object))
    throw TypeError("Expected a Model, got " + type_text(object) + ".");
  return nb::inst_ptr<ModelObject>(object)->model;
}

void bind_engine_model(nb::module_& m) {
  bind_specs(m);
  buffer_class = reinterpret_cast<PyTypeObject*>(nb::type<Buffer>().ptr());
  nb::class_<ModelObject> cls(m, "Model", nb::is_weak_referenceable(), R"(
A compiled graph with its weights, ready to run. Calls may run in parallel.

>>> import numpy as np
>>> from kiln.driver import CPU
>>> from kiln.dtype import DType
>>> from kiln.engine import InferenceSession
>>> from kiln.graph import Graph, TensorType
>>> graph = Graph("double", lambda x: x * 2, [TensorType(DType.float32, ["n"], CPU())])
>>> model = InferenceSession().load(graph)
>>> model.execute(np.array([1, 2], np.float32))[0].to_numpy().tolist()
[2.0, 4.0])");

  cls.def("__init__", refuse_call<ModelObject>("InferenceSession.load gives Model objects."));
  model_class = reinterpret_cast<PyTypeObject*>(cls.ptr());
  for (PyMethodDef& method : fast_methods)
    cls.attr(method.ml_name) = nb::steal(PyDescr_NewMethod(model_class, &method));
  cls.def(
         "__call__",
         [](ModelObject& self, nb::args args, nb::kwargs kwargs) {
           const std::size_t count = self.model.input_metadata().size();
           std::vector<PyObject*> arguments(count);
           std::vector<nb::object> bound;
           if (kwargs.size() == 0 && args.size() == count) {
             for (std::size_t i = 0; i < count; ++i)
               arguments[i] = PyTuple_GetItem(args.ptr(), static_cast<Py_ssize_t>(i));
           } else {
             bound = bind_names(self, args, kwargs);
             for (std::size_t i = 0; i < count; ++i) arguments[i] = bound[i].ptr();
           }
           return execute(self, arguments.data(), arguments.size());
         },
         nb::arg("args"), nb::arg("kwargs"), "Binds inputs by position and name, then executes.")
      .def(
          "release_captured_graph",
          [](const ModelObject& self, Any graph_keys) {
            const engine::GraphKeys keys = to_keys(graph_keys.ptr());
            ReleaseGil release;
            self.model.release_captured_graph(keys);
          },
          nb::arg("graph_keys"),
          nb::sig("def release_captured_graph(self, graph_keys: int | "
                  "collections.abc.Sequence[int]) -> None"),
          "Forgets recorded executions; keys that are not known are none.")
      .def(
          "reload",
          [](const ModelObject& self, Any registry) {
            const engine::WeightsRegistry weights = to_registry(registry);
            ReleaseGil release;
            self.model.reload(weights);
          },
          nb::arg("weights_registry"), "Binds all weights anew; calls under way keep the old ones.")
      .def_prop_ro("signature", &signature_of, "An inspect.Signature with one parameter per input.")
      .def_prop_ro(
          "name", [](const ModelObject& self) { return self.model.name(); }, "The graph's name.")
      .def_prop_ro(
          "devices", [](const ModelObject& self) { return self.model.devices(); },
          "The devices it uses: the host first, then accelerators.")
      .def_prop_ro(
          "input_devices", [](const ModelObject& self) { return self.model.input_devices(); },
          "The device of each input.")
      .def_prop_ro(
          "output_devices", [](const ModelObject& self) { return self.model.output_devices(); },
          "The device of each output.")
      .def_prop_ro(
          "input_metadata", [](const ModelObject& self) { return self.model.input_metadata(); },
          "One TensorSpec per input.")
      .def_prop_ro(
          "output_metadata", [](const ModelObject& self) { return self.model.output_metadata(); },
          "One TensorSpec per output.")
      .def_prop_ro(
          "kernel_summaries", [](const ModelObject& self) { return self.model.kernel_summaries(); },
          "One text per compiled kernel, such as 'Epilogue(matmul, relu)'.")
      .def("__repr__", [](const ModelObject& self) { return self.model.repr(); });
}

}  // namespace kiln::python
