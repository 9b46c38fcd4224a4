#include "experimental_call.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>

#include <vector>

#include "bindings.h"
#include "driver_casters.h"
#include "graph_values.h"
#include "kiln/experimental/call.h"
#include "kiln/experimental/functional.h"
#include "kiln/graph/ops.h"
#include "kiln/graph/promotion.h"
#include "kiln/support/error.h"

namespace kiln::python {
namespace {

using experimental::Call;
using experimental::CallArguments;
using experimental::CallPlan;
using experimental::Tensor;

// What a result of an op is, in CallPlan::form.
enum Form : std::uint32_t { kNone, kOne, kList, kTuple };

// The first word of each kind of argument in a key; kiln/experimental has its own for tensors and
// numbers.
enum Tag : std::uint64_t {
  kPlain = 100,
  kInteger,
  kReal,
  kType,
  kDevice,
  kSequence,
  kSlice,
  kName
};

/// Tells the ops which of a call's numbers they are given.
class CallNumbers final : public NumberArguments {
 public:
  explicit CallNumbers(Call& call) : call_(call) {}

  void add(PyObject* object) {
    for (PyObject*& known : objects_)
      if (known == object) {
        // Which of the two an op is given cannot be told.
        known = nullptr;
        object = nullptr;
      }
    objects_.push_back(object);
  }

  std::optional<graph::TensorValueLike> find(PyObject* object) override {
    for (std::size_t i = 0; i < objects_.size(); ++i)
      if (objects_[i] == object) return call_.number(i, graph::Location::current());
    return std::nullopt;
  }

 private:
  Call& call_;
  std::vector<PyObject*> objects_;
};

/// Tells a call what its arguments are.
class Arguments {
 public:
  Arguments(CallArguments& arguments, CallNumbers& numbers)
      : arguments_(arguments), numbers_(numbers) {}

  std::int64_t elements() const { return elements_; }

  void add(PyObject* object, int depth = 0) {
    experimental::CallKey& key = arguments_.key;
    if (is_tensor(object)) {
      const Tensor& tensor = tensor_of(object);
      arguments_.tensor(*tensor.state());
      if (tensor.real()) elements_ += tensor.num_elements();
    } else if (object == Py_None || object == Py_True || object == Py_False ||
               object == Py_Ellipsis) {
      key.add(kPlain);
      key.add(reinterpret_cast<std::uintptr_t>(object));
    } else if (PyFloat_CheckExact(object)) {
      const double value = PyFloat_AsDouble(object);
      if (depth == 0) return add_number(object, value);
      key.add(kReal);
      key.add(std::bit_cast<std::uint64_t>(value));
    } else if (PyLong_CheckExact(object)) {
      int overflow = 0;
      const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
      if (overflow != 0) return key.spoil();
      if (depth == 0) return add_number(object, std::int64_t{value});
      key.add(kInteger);
      key.add(static_cast<std::uint64_t>(value));
    } else if (PyUnicode_CheckExact(object)) {
      Py_ssize_t size = 0;
      const char* text = PyUnicode_AsUTF8AndSize(object, &size);
      if (!text) return PyErr_Clear(), key.spoil();
      key.add(std::string_view(text, static_cast<std::size_t>(size)));
    } else if (is_dtype(object)) {
      key.add(kType);
      key.add(static_cast<std::uint64_t>(nb::inst_ptr<DTypeObject>(object)->dtype.code()));
    } else if (is_device(object)) {
      key.add(kDevice);
      const driver::Device& device = nb::inst_ptr<DeviceObject>(object)->device;
      key.add(reinterpret_cast<std::uintptr_t>(device.backend()));
    } else if (depth < kDeepest && (PyTuple_CheckExact(object) || PyList_CheckExact(object))) {
      const bool is_list = PyList_CheckExact(object);
      const Py_ssize_t size = is_list ? PyList_Size(object) : PyTuple_Size(object);
      key.add(kSequence);
      key.add(static_cast<std::uint64_t>(size));
      // To the end: one of them may be distributed.
      for (Py_ssize_t i = 0; i < size; ++i)
        add(is_list ? PyList_GetItem(object, i) : PyTuple_GetItem(object, i), depth + 1);
    } else if (PySlice_Check(object)) {
      key.add(kSlice);
      // The slice keeps its parts alive.
      for (const char* part : {"start", "stop", "step"})
        add(nb::object(nb::handle(object).attr(part)).ptr(), depth + 1);
    } else {
      key.spoil();
    }
  }

  void add_keywords(PyObject* keywords) {
    PyObject *name, *value;
    for (Py_ssize_t at = 0; PyDict_Next(keywords, &at, &name, &value);) {
      arguments_.key.add(kName);
      add(name, 1);
      add(value);
    }
  }

 private:
  static constexpr int kDeepest = 4;

  void add_number(PyObject* object, const Scalar& value) {
    numbers_.add(object);
    arguments_.number(value);
  }

  CallArguments& arguments_;
  CallNumbers& numbers_;
  std::int64_t elements_ = 0;
};

/// What an op returned, taken apart. Other values than of graphs cannot be kept in a plan.
struct Results {
  std::vector<graph::Value> values;
  Form form = kNone;
  bool known = true;

  explicit Results(nb::handle result) {
    if (nb::isinstance<graph::Value>(result)) {
      form = kOne;
      add(result);
    } else if (PyList_Check(result.ptr()) || PyTuple_Check(result.ptr())) {
      form = PyList_Check(result.ptr()) ? kList : kTuple;
      for (nb::handle item : nb::iter(result)) add(item);
    } else {
      known = result.is_none();
    }
  }

 private:
  void add(nb::handle item) {
    known = known && nb::isinstance<graph::Value>(item);
    if (known) values.push_back(*nb::inst_ptr<graph::Value>(item));
  }
};

nb::object put_together(Call& call, std::span<PyObject* const> arguments, std::uint32_t form) {
  std::vector<Tensor>& results = call.results();
  if (form == kNone) return nb::none();
  if (form == kOne) {
    // An op that changes nothing gives back what it was given.
    for (PyObject* argument : arguments)
      if (is_tensor(argument) && tensor_of(argument).is(results[0])) return nb::borrow(argument);
    return make_tensor(std::move(results[0]));
  }
  const auto size = static_cast<Py_ssize_t>(results.size());
  nb::object all = nb::steal(form == kList ? PyList_New(size) : PyTuple_New(size));
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = make_tensor(std::move(results[static_cast<std::size_t>(i)])).release().ptr();
    if (form == kList)
      PyList_SetItem(all.ptr(), i, item);
    else
      PyTuple_SetItem(all.ptr(), i, item);
  }
  return all;
}

bool run(Call& call, const CallPlan& plan, std::int64_t elements) {
  // With the GIL the call may not wait: what it waits for might need the GIL.
  if (elements <= kSmallCall && call.run(plan, true)) return true;
  ReleaseGil release;
  return call.run(plan);
}

PyObject* call_lifted(PyObject* self, PyObject* arguments, PyObject* keywords) {
  try {
    const auto& function = *nb::inst_ptr<LiftedFunction>(self);
    const Py_ssize_t count = PyTuple_Size(arguments);
    PyObject* few[8];
    std::vector<PyObject*> many(count > 8 ? static_cast<std::size_t>(count) : 0);
    PyObject** items = count > 8 ? many.data() : few;
    for (Py_ssize_t i = 0; i < count; ++i) items[i] = PyTuple_GetItem(arguments, i);
    return function({items, static_cast<std::size_t>(count)}, keywords).release().ptr();
  } catch (...) {
    return raise_current_exception();
  }
}

PyType_Slot lifted_slots[] = {{Py_tp_call, reinterpret_cast<void*>(&call_lifted)}, {0, nullptr}};

/// `target[key] = source` or `target = source` where one of the two is distributed.
nb::object store_spread(std::span<PyObject* const> arguments, bool is_slice_last) {
  if (arguments.size() < 2 || !is_tensor(arguments[0]))
    throw TypeError("A store to a distributed tensor takes tensors.");
  const Tensor& target = tensor_of(arguments[0]);
  const bool has_key = arguments.size() > 2;
  const nb::handle source = arguments[has_key && !is_slice_last ? 2 : 1];
  if (!is_tensor(source))
    throw TypeError("A store to a distributed tensor takes a Tensor, not " + type_text(source) +
                    ".");
  std::vector<graph::SliceIndex> indices{graph::ellipsis};
  if (has_key) {
    // An index that is a tensor is refused, but becomes a value before.
    const graph::Graph around("index");
    const graph::Graph::Scope scope(graph::Graph::has_current() ? graph::Graph::current() : around);
    indices = to_indices(arguments[is_slice_last ? 2 : 1], target.shape());
  }
  {
    const graph::LocationScope at(graph::current_location());
    ReleaseGil release;
    experimental::detail::store_spread(target, indices, tensor_of(source));
  }
  return nb::none();
}

/// What the Python module for it says of an op.
nb::object said_of(nb::handle op, const char* what) {
  return nb::module_::import_("kiln.experimental._signatures").attr(what)(op);
}

/// A `__doc__`, which Python looks up in the class.
struct OwnText {
  std::string of_class;
};

/// Names of ops whose functions may have effects.
bool is_control_flow(std::string_view name) { return name == "cond" || name == "while_loop"; }

/// Names of ops that write their first argument.
bool is_store(std::string_view name) {
  return name == "buffer_store" || name == "buffer_store_slice";
}

}  // namespace

nb::object LiftedFunction::operator()(std::span<PyObject* const> arguments,
                                      PyObject* keywords) const {
  Call call(name.c_str(), id);
  CallNumbers numbers(call);
  Arguments described(call.arguments(), numbers);
  for (PyObject* argument : arguments) described.add(argument);
  if (keywords) described.add_keywords(keywords);
  if (const auto plan = call.plan(); plan && run(call, *plan, described.elements()))
    return put_together(call, arguments, plan->form);

  // A store to parts of a mesh is one to each of them.
  if (is_store && call.arguments().is_distributed)
    return store_spread(arguments, name != "setitem");
  if (is_control_flow(name))
    call.record_control_flow();
  else
    call.record(is_store);
  nb::object returned;
  {
    const NumberArguments::Scope scope(&numbers);
    nb::object list = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(arguments.size())));
    for (std::size_t i = 0; i < arguments.size(); ++i)
      PyTuple_SetItem(list.ptr(), static_cast<Py_ssize_t>(i), Py_NewRef(arguments[i]));
    returned = nb::steal(PyObject_Call(op.ptr(), list.ptr(), keywords));
    if (!returned.is_valid()) throw nb::python_error();
  }
  const Results results(returned);
  if (!results.known) return returned;
  {
    ReleaseGil release;
    call.finish(results.values, results.form);
  }
  return put_together(call, arguments, results.form);
}

const LiftedFunction* LiftedName::find() const {
  // Leaked: a program may delete the attribute.
  nb::object functions = nb::module_::import_("kiln._core.experimental.functional");
  return nb::inst_ptr<LiftedFunction>(nb::object(functions.attr(name_)).release());
}

void bind_experimental_functional(nb::module_& m, nb::module_& ops) {
  nb::class_<LiftedFunction>(m, "Function", nb::type_slots(lifted_slots),
                             "A function over tensors that is made of one over graph values.")
      .def(
          "__init__",
          [](LiftedFunction* self, nb::object op, const std::string& name, bool is_store) {
            new (self)
                LiftedFunction{name, experimental::detail::next_op_id(), std::move(op), is_store};
          },
          nb::arg("op"), nb::arg("name"), nb::arg("is_store") = false)
      .def("__getattr__",
           [](const LiftedFunction& f, const std::string& attribute) {
             // Found here, since a class has attributes of these names that are about the class.
             if (attribute == "__name__" || attribute == "__qualname__") return f.name;
             throw nb::attribute_error(
                 ("a function over tensors has no '" + attribute + "'").c_str());
           })
      .def_ro("__wrapped__", &LiftedFunction::op)
      .def_prop_ro("__signature__",
                   [](const LiftedFunction& f) { return said_of(f.op, "signature_of"); })
      .def("__repr__", [](const LiftedFunction& f) { return "<function " + f.name + ">"; });
  nb::object make = m.attr("Function");
  nb::class_<OwnText>(m, "_OwnText", "The text of a class, and of each of its objects its own.")
      .def(
          "__get__",
          [](const OwnText& text, nb::handle object, nb::handle) -> nb::object {
            if (object.is_none()) return nb::str(text.of_class.c_str());
            return said_of(nb::inst_ptr<LiftedFunction>(object)->op, "text_of");
          },
          nb::arg("object").none(), nb::arg("owner").none() = nb::none());
  make.attr("__doc__") = nb::cast(OwnText{nb::cast<std::string>(make.attr("__doc__"))});
  for (auto [key, op] : nb::borrow<nb::dict>(ops.attr("__dict__"))) {
    const std::string name = nb::cast<std::string>(key);
    if (name.front() == '_' || name == "allgather") continue;  // that of meshes is below
    if (PyType_Check(op.ptr()))
      m.attr(key) = op;
    else if (PyCallable_Check(op.ptr()))
      m.attr(key) = make(op, name, is_store(name));
  }
  // Those of a graph take one value for each device; these are over tensors that live on them.
  using Axis = std::variant<std::string, int>;
  const auto mesh_axis = [](const Axis& axis) {
    return std::visit([](const auto& given) { return experimental::MeshAxis(given); }, axis);
  };
  m.def(
      "allgather",
      [mesh_axis](const Tensor& t, int tensor_axis, const Axis& axis) {
        const graph::LocationScope at(graph::current_location());
        return without_gil(
            [&] { return experimental::functional::allgather(t, tensor_axis, mesh_axis(axis)); });
      },
      nb::arg("t"), nb::arg("tensor_axis") = 0, nb::arg("mesh_axis") = 0,
      "From Sharded along `tensor_axis` to copies, over one axis of the tensor's mesh. Another "
      "placement there: ShardingError.");
  m.def(
      "allreduce_sum",
      [mesh_axis](const Tensor& t, const Axis& axis) {
        const graph::LocationScope at(graph::current_location());
        return without_gil(
            [&] { return experimental::functional::allreduce_sum(t, mesh_axis(axis)); });
      },
      nb::arg("t"), nb::arg("mesh_axis") = 0,
      "From Partial to copies, over one axis of the tensor's mesh. Another placement there: "
      "ShardingError.");
  m.def(
      "reduce_scatter",
      [mesh_axis](const Tensor& t, int scatter_axis, const Axis& axis) {
        const graph::LocationScope at(graph::current_location());
        return without_gil([&] {
          return experimental::functional::reduce_scatter(t, scatter_axis, mesh_axis(axis));
        });
      },
      nb::arg("t"), nb::arg("scatter_axis") = 0, nb::arg("mesh_axis") = 0,
      "From Partial to slices along `scatter_axis`, over one axis of the tensor's mesh. Another "
      "placement there: ShardingError.");
  // Functions that no op is, but an expression of graph values.
  const auto add = [&](const char* name, nb::object op, bool stores = false) {
    m.attr(name) = make(op, name, stores);
  };
  add("getitem", nb::cpp_function([](StrongValue x, Any key) {
        const graph::TensorValue value = x.get();
        return make_value(value[to_indices(key, value.shape())]);
      }));
  add("setitem", nb::cpp_function([](nb::handle target, Any key, StrongValue source) {
        // The source is read before the target becomes a buffer.
        const graph::TensorValue value = source.get();
        const graph::BufferValue buffer = to_buffer_value(target);
        buffer[to_indices(key, buffer.shape())].store(value);
      }),
      true);
  add("clip", nb::cpp_function(
                  [](ValueLike x, Any low, Any high) {
                    graph::TensorValueLike value = x.get();
                    if (!low.is_none()) value = graph::ops::max(value, to_value_like(low));
                    if (!high.is_none()) value = graph::ops::min(value, to_value_like(high));
                    return make_value(graph::strong(value));
                  },
                  nb::arg("x"), nb::arg("min") = nb::none(), nb::arg("max") = nb::none(),
                  "Bounded from below and above; a bound that is left out is none."));
}

}  // namespace kiln::python
