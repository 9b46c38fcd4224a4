#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "driver_casters.h"
#include "graph_values.h"
#include "kiln/graph/graph.h"
#include "kiln/graph/ops/elementwise.h"
#include "kiln/graph/ops/linalg.h"
#include "kiln/graph/value.h"
#include "kiln/support/error.h"

namespace kiln::python {
namespace {

using graph::BufferValue;
using graph::Dim;
using graph::OpaqueValue;
using graph::SliceIndex;
using graph::TensorValue;
using graph::TensorValueLike;
using graph::Value;

std::string class_name(nb::handle object) {
  return nb::cast<std::string>(object.type().attr("__name__"));
}

bool is_shape(nb::handle object) {
  return PyList_Check(object.ptr()) && nb::hasattr(object, "static_dims");
}

/// A weight joins the graph that is built when it is used.
void require_graph_for_weight() {
  try {
    graph::Graph::current();
  } catch (const LookupError&) {
    throw ValueError("Cannot operate on a kiln.graph.Weight when there is no parent graph.");
  }
}

bool is_dim(nb::handle object) { return nb::isinstance<DimObject>(object); }

graph::SliceBound to_bound(const nb::object& object) {
  if (object.is_none()) return {};
  if (stands_for_value(object)) return to_tensor(object);
  if (is_dim(object) || (PyIndex_Check(object.ptr()) && !PySequence_Check(object.ptr())))
    return to_dim(object);
  throw TypeError("The bound of a slice is an int, a dim or an integer scalar tensor, not " +
                  type_text(object) + ".");
}

graph::Slice to_slice(nb::handle object) {
  nb::object slice = nb::borrow(object);
  graph::Slice result{to_bound(slice.attr("start")), to_bound(slice.attr("stop")), {}, {}};
  nb::object step = slice.attr("step");
  if (stands_for_value(step))
    result.step = to_tensor(step);
  else if (!step.is_none())
    result.step = to_dim(step).value();
  return result;
}

/// Whether this is `(slice, out_dim)`: the second entry is a dim that can be no index.
bool is_named_slice(nb::handle object) {
  if (!PyTuple_Check(object.ptr()) || PyTuple_Size(object.ptr()) != 2 ||
      !PySlice_Check(PyTuple_GetItem(object.ptr(), 0)))
    return false;
  nb::handle dim = PyTuple_GetItem(object.ptr(), 1);
  return PyUnicode_Check(dim.ptr()) || (is_dim(dim) && !to_dim(dim).is_static());
}

SliceIndex to_slice_index(nb::handle object) {
  if (object.ptr() == Py_Ellipsis) return graph::ellipsis;
  if (object.is_none()) return graph::newaxis;
  if (PySlice_Check(object.ptr())) return to_slice(object);
  if (PyTuple_Check(object.ptr()) && PyTuple_Size(object.ptr()) == 2 &&
      PySlice_Check(PyTuple_GetItem(object.ptr(), 0)))
    return to_slice(PyTuple_GetItem(object.ptr(), 0)).out(to_dim(PyTuple_GetItem(object.ptr(), 1)));
  if (stands_for_value(object)) return to_tensor(object);
  if (is_dim(object) || (PyIndex_Check(object.ptr()) && !PyBool_Check(object.ptr()) &&
                         !PySequence_Check(object.ptr())))
    return to_dim(object);
  throw TypeError("A tensor is indexed by ints, slices, tensors, `...` and None, not by " +
                  type_text(object) + ".");
}

void refuse_wide(nb::handle number, const Dim& size, const char* before, const char* after) {
  if (!PyLong_Check(number.ptr())) return;
  int overflow = 0;
  PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow == 0) return;
  if (!size.is_static() && std::string_view(before) != "Index ")
    throw ValueError("slice index computation overflow");
  const std::string text = before + str_of(number) + after + size.to_string();
  if (std::string_view(before) == "Index ") throw IndexError(text);
  throw ValueError(text);
}

void refuse_wide_entry(nb::handle entry, const Dim& size) {
  refuse_wide(entry, size, "Index ", " out of range of dim ");
  if (PyTuple_Check(entry.ptr()) && PyTuple_Size(entry.ptr()) == 2)
    entry = PyTuple_GetItem(entry.ptr(), 0);
  if (!PySlice_Check(entry.ptr())) return;
  constexpr const char* kAfter = " out of range for dimension size ";
  refuse_wide(nb::object(entry.attr("start")), size, "slice start index ", kAfter);
  refuse_wide(nb::object(entry.attr("stop")), size, "slice stop index ", kAfter);
}

/// Before the integers become dims, which are 64 bits wide: those beyond lie outside of the axis.
void refuse_wide_indices(nb::handle key, const graph::Shape& shape) {
  const bool single = is_named_slice(key) || !PyTuple_Check(key.ptr());
  const Py_ssize_t count = single ? 1 : PyTuple_Size(key.ptr());
  std::vector<nb::handle> entries;
  std::size_t open = static_cast<std::size_t>(-1);
  for (Py_ssize_t i = 0; i < count; ++i) {
    nb::handle entry = single ? key : nb::handle(PyTuple_GetItem(key.ptr(), i));
    if (entry.is_none()) continue;
    if (entry.ptr() == Py_Ellipsis) open = entries.size();
    entries.push_back(entry);
  }
  const auto rank = static_cast<std::size_t>(shape.rank());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::size_t axis = i > open ? rank - (entries.size() - i) : i;
    if (i != open && axis < rank) refuse_wide_entry(entries[i], shape[static_cast<int>(axis)]);
  }
}

template <typename Operation>
auto binary(Operation operation) {
  return [operation](nb::handle_t<TensorValue> self, Any other) -> TensorObject {
    if (!is_value_like(other)) return TensorObject(nb::borrow(Py_NotImplemented));
    return make_value(operation(to_value_like(self), to_value_like(other)));
  };
}

template <typename Operation>
auto reversed(Operation operation) {
  return [operation](nb::handle_t<TensorValue> self, Any other) -> TensorObject {
    if (!is_value_like(other)) return TensorObject(nb::borrow(Py_NotImplemented));
    return make_value(operation(to_value_like(other), to_value_like(self)));
  };
}

template <typename Operation>
auto comparison(const char* symbol, Operation operation) {
  return [symbol, operation](nb::handle_t<TensorValue> self, Any other) -> TensorObject {
    if (!is_value_like(other))
      throw TypeError("'" + std::string(symbol) + "' not supported between instance of '" +
                      class_name(self) + "' and '" + class_name(other) + "'");
    return make_value(operation(to_value_like(self), to_value_like(other)));
  };
}

void def_operators(nb::class_<TensorValue, Value>& cls) {
  using Like = const TensorValueLike&;
  namespace ops = graph::ops;
  const auto add = [](Like a, Like b) { return ops::add(a, b); };
  const auto subtract = [](Like a, Like b) { return ops::sub(a, b); };
  const auto multiply = [](Like a, Like b) { return ops::mul(a, b); };
  const auto divide = [](Like a, Like b) { return ops::div(a, b); };
  const auto modulo = [](Like a, Like b) { return ops::mod(a, b); };
  const auto power = [](Like a, Like b) { return ops::pow(a, b); };
  const auto product = [](Like a, Like b) { return ops::matmul(a, b); };
  const auto floor_divide = [](Like a, Like b) { return ops::floor_div(a, b); };
  const auto conjunction = [](Like a, Like b) { return ops::logical_and(a, b); };
  const auto disjunction = [](Like a, Like b) { return ops::logical_or(a, b); };
  const auto exclusive = [](Like a, Like b) { return ops::logical_xor(a, b); };
  cls.def("__add__", binary(add)).def("__radd__", reversed(add));
  cls.def("__sub__", binary(subtract)).def("__rsub__", reversed(subtract));
  cls.def("__mul__", binary(multiply)).def("__rmul__", reversed(multiply));
  cls.def("__truediv__", binary(divide)).def("__rtruediv__", reversed(divide));
  cls.def("__mod__", binary(modulo)).def("__rmod__", reversed(modulo));
  cls.def("__pow__", binary(power)).def("__rpow__", reversed(power));
  cls.def("__matmul__", binary(product)).def("__rmatmul__", reversed(product));
  cls.def("__floordiv__", binary(floor_divide)).def("__rfloordiv__", reversed(floor_divide));
  cls.def("__and__", binary(conjunction)).def("__rand__", reversed(conjunction));
  cls.def("__or__", binary(disjunction)).def("__ror__", reversed(disjunction));
  cls.def("__xor__", binary(exclusive)).def("__rxor__", reversed(exclusive));
  const auto divmod = [=](const TensorValueLike& a, const TensorValueLike& b) {
    return nb::make_tuple(make_value(floor_divide(a, b)), make_value(modulo(a, b)));
  };
  cls.def("__divmod__",
          [divmod](nb::handle_t<TensorValue> self, ValueLike other) {
            return divmod(to_value_like(self), other.get());
          })
      .def("__rdivmod__", [divmod](nb::handle_t<TensorValue> self, ValueLike other) {
        return divmod(other.get(), to_value_like(self));
      });
  // `a < b` is `b > a`, so that every comparison with NaN but `!=` is false.
  cls.def("__eq__", comparison("==", [](Like a, Like b) { return ops::equal(a, b); }))
      .def("__ne__", comparison("!=", [](Like a, Like b) { return ops::not_equal(a, b); }))
      .def("__gt__", comparison(">", [](Like a, Like b) { return ops::greater(a, b); }))
      .def("__ge__", comparison(">=", [](Like a, Like b) { return ops::greater_equal(a, b); }))
      .def("__lt__", comparison("<", [](Like a, Like b) { return ops::greater(b, a); }))
      .def("__le__", comparison("<=", [](Like a, Like b) { return ops::greater_equal(b, a); }))
      .def("__hash__",
           [](const TensorValue& v) {
             const void* identity =
                 v.weight_state() ? static_cast<const void*>(v.weight_state().get()) : v.ir_value();
             return static_cast<Py_ssize_t>(std::hash<const void*>()(identity) >> 4);
           })
      .def("__neg__", [](const TensorValue& v) { return make_value(-v); })
      .def("__invert__", [](const TensorValue& v) { return make_value(~v); })
      .def("__abs__", [](const TensorValue& v) { return make_value(ops::abs(v)); })
      .def("__round__", [](const TensorValue& v) { return make_value(ops::round(v)); })
      .def("__getitem__",
           [](const TensorValue& v, Any key) { return make_value(v[to_indices(key, v.shape())]); });
  const auto refuse = [&](const char* name, const char* what) {
    cls.def(name, [what](const TensorValue& v, nb::args) -> bool {
      throw TypeError(v.repr() + " " + what);
    });
  };
  refuse("__iter__", "is not iterable");
  refuse("__contains__", "is not a container");
  refuse("__bool__",
         "has no truth value while the graph is built; use ops.where or ops.cond to choose.");
  // NumPy leaves operators with a tensor on the right to the tensor.
  cls.attr("__array_ufunc__") = nb::none();
}

void def_methods(nb::class_<TensorValue, Value>& cls) {
  cls.def(
         "reshape",
         [](const TensorValue& v, ShapeLike shape) { return make_value(v.reshape(shape.get())); },
         nb::arg("shape"), "As ops.reshape.")
      .def(
          "flatten",
          [](const TensorValue& v, int start_dim, int end_dim) {
            return make_value(v.flatten(start_dim, end_dim));
          },
          nb::arg("start_dim") = 0, nb::arg("end_dim") = -1, "As ops.flatten.")
      .def(
          "broadcast_to",
          [](const TensorValue& v, ShapeLike shape) {
            return make_value(v.broadcast_to(shape.get()));
          },
          nb::arg("shape"), "As ops.broadcast_to.")
      .def(
          "permute",
          [](const TensorValue& v, const std::vector<std::int64_t>& dims) {
            return make_value(v.permute(dims));
          },
          nb::arg("dims"), "As ops.permute.")
      .def(
          "transpose",
          [](const TensorValue& v, int dim_1, int dim_2) {
            return make_value(v.transpose(dim_1, dim_2));
          },
          nb::arg("dim_1"), nb::arg("dim_2"), "As ops.transpose.")
      .def_prop_ro(
          "T", [](const TensorValue& v) { return make_value(v.T()); }, "The last two axes swapped.")
      .def(
          "rebind",
          [](const TensorValue& v, ShapeLike shape, const std::string& message) {
            return make_value(v.rebind(shape.get(), message));
          },
          nb::arg("shape"), nb::arg("message") = "", "As ops.rebind.")
      .def(
          "cast",
          [](nb::handle_t<TensorValue> self, DType dtype) {
            return same_or_new(self, nb::cast<const TensorValue&>(self).cast(dtype));
          },
          nb::arg("dtype"), "As ops.cast.")
      .def(
          "to",
          [](nb::handle_t<TensorValue> self, DeviceLike device) {
            return same_or_new(self, nb::cast<const TensorValue&>(self).to(device.get()));
          },
          nb::arg("device"), "As ops.transfer_to.")
      .def(
          "print", [](const TensorValue& v, const std::string& label) { v.print(label); },
          nb::arg("label") = "debug_tensor", "Prints it when the graph runs.");
  const auto reduction = [&](const char* name, auto function, const char* doc) {
    cls.def(
        name, [function](const TensorValue& v, int axis) { return make_value(function(v, axis)); },
        nb::arg("axis") = -1, doc);
  };
  reduction("argmax", [](const TensorValue& v, int a) { return v.argmax(a); }, "As ops.argmax.");
  reduction("max", [](const TensorValue& v, int a) { return v.max(a); }, "The maximum of an axis.");
  reduction("mean", [](const TensorValue& v, int a) { return v.mean(a); }, "As ops.mean.");
  reduction("min", [](const TensorValue& v, int a) { return v.min(a); }, "The minimum of an axis.");
  reduction("stdev", [](const TensorValue& v, int a) { return v.stdev(a); }, "The root of `var`.");
  reduction(
      "var", [](const TensorValue& v, int a) { return v.var(a); },
      "The mean of squared deviations.");
}

void bind_tensor(nb::module_& m) {
  nb::class_<TensorValue, Value> cls(m, "TensorValue", nb::is_weak_referenceable(), R"(
A value-semantic tensor of a graph. Operators promote and broadcast.

>>> from kiln.driver import CPU
>>> from kiln.dtype import DType
>>> from kiln.graph import Graph, TensorType
>>> with Graph("g", input_types=[TensorType(DType.float32, ["n", 3], CPU())]) as graph:
...     x = graph.inputs[0]
...     print((x * 2 + 1)[:, 0])
TensorValue(dtype=float32, shape=[Dim('n')], device=cpu:0))");
  cls.def(
         "__init__", [](TensorValue* self, Any value) { new (self) TensorValue(to_tensor(value)); },
         nb::arg("value"))
      .def_prop_ro(
          "type",
          [](const TensorValue& v) {
            return nb::typed<nb::object, TensorTypeObject>(make_type(v.type()));
          },
          "Its type.")
      .def_prop_ro("shape", &TensorValue::shape, "Its dims.")
      .def_prop_ro("dtype", &TensorValue::dtype, "Element type.")
      .def_prop_ro("device", &TensorValue::device, "Where it lies.")
      .def_prop_ro("rank", &TensorValue::rank, "Number of dims.");
  def_methods(cls);
  def_operators(cls);
}

void bind_buffer(nb::module_& m) {
  const auto from_value = [](Any value) { return to_buffer_value(value); };
  nb::class_<BufferValue, Value>(m, "BufferValue", nb::is_weak_referenceable(),
                                 "Memory that a graph reads and updates in place.")
      .def(
          "__init__",
          [](BufferValue* self, Any value) { new (self) BufferValue(to_buffer_value(value)); },
          nb::arg("value"))
      .def_static("from_mlir", from_value, nb::arg("value"),
                  "The checked way in for a raw graph value.")
      .def_static("from_value", from_value, nb::arg("value"), "As `from_mlir`.")
      .def_prop_ro(
          "type",
          [](const BufferValue& v) {
            return nb::typed<nb::object, BufferTypeObject>(make_type(v.type()));
          },
          "Its type.")
      .def_prop_ro("shape", &BufferValue::shape, "Its dims.")
      .def_prop_ro("dtype", &BufferValue::dtype, "Element type.")
      .def_prop_ro("device", &BufferValue::device, "Where it lies.")
      .def_prop_ro("rank", &BufferValue::rank, "Number of dims.")
      .def(
          "print", [](const BufferValue& v, const std::string& label) { v.print(label); },
          nb::arg("label") = "debug_buffer", "Loads the buffer and prints it when the graph runs.")
      .def("__getitem__", [](const BufferValue& v,
                             Any key) { return make_value(v[to_indices(key, v.shape())].load()); })
      .def(
          "__setitem__",
          [](const BufferValue& v, Any key, Any value) {
            const BufferValue::Region region = v[to_indices(key, v.shape())];
            if (nb::isinstance<BufferValue>(value))
              region.store(*nb::inst_ptr<BufferValue>(value));
            else
              region.store(to_tensor(value));
          },
          nb::sig("def __setitem__(self, key: object, "
                  "value: kiln.graph.StrongTensorValueLike | BufferValue, /) -> None"))
      // Python would ask for one element after the other and never come to an end.
      .def("__iter__",
           [](const BufferValue& v) -> bool { throw TypeError(v.repr() + " is not iterable"); })
      .def("__contains__", [](const BufferValue& v, Any) -> bool {
        throw TypeError(v.repr() + " is not a container");
      });
}

}  // namespace

nb::object make_value(const Value& value) {
  const graph::Type type = value.type();
  if (type.is_tensor()) return nb::cast(TensorValue(value));
  if (type.is_buffer()) return nb::cast(BufferValue(value));
  if (type.is_opaque()) return nb::cast(OpaqueValue(value));
  return nb::cast(value);
}

TensorObject same_or_new(nb::handle argument, const TensorValue& result) {
  if (nb::isinstance<TensorValue>(argument)) {
    const auto& value = nb::cast<const TensorValue&>(argument);
    if (value.ir_value() == result.ir_value() && value.weight_state() == result.weight_state())
      return TensorObject(nb::borrow(argument));
  }
  return make_value(result);
}

nb::list make_values(const std::vector<Value>& values) {
  nb::list list;
  for (const Value& value : values) list.append(make_value(value));
  return list;
}

nb::list make_values(const std::vector<TensorValue>& values) {
  nb::list list;
  for (const TensorValue& value : values) list.append(make_value(value));
  return list;
}

bool stands_for_value(nb::handle object) {
  return nb::isinstance<Value>(object) || nb::hasattr(object, "__tensorvalue__");
}

bool is_value_like(nb::handle object) {
  return nb::isinstance<TensorValue>(object) || is_dim(object) || is_shape(object) ||
         is_number(object) || is_ndarray(object) || nb::hasattr(object, "__tensorvalue__") ||
         is_dlpack_producer(object);
}

TensorValue to_tensor(nb::handle object) {
  if (nb::isinstance<TensorValue>(object)) {
    const TensorValue& value = *nb::inst_ptr<TensorValue>(object);
    if (value.weight_state() && !value.graph_state()) require_graph_for_weight();
    return value;
  }
  if (nb::isinstance<BufferValue>(object))
    throw TypeError("A buffer is never loaded implicitly; use ops.buffer_load or buffer[...].");
  if (nb::isinstance<Value>(object)) return TensorValue(*nb::inst_ptr<Value>(object));
  if (is_dim(object)) return TensorValue(to_dim(object));
  if (is_shape(object)) return TensorValue(to_shape(object));
  if (nb::hasattr(object, "__tensorvalue__"))
    return to_tensor(nb::object(object.attr("__tensorvalue__")()));
  if (is_number(object) || is_ndarray(object) || is_dlpack_producer(object))
    throw TypeError("TensorValue() can not be created directly from a '" + class_name(object) +
                    "'. Use ops.constant to convert to a TensorValue with a specific dtype.");
  throw TypeError("A tensor cannot be made from a '" + class_name(object) + "'.");
}

graph::Array to_array(nb::handle object) {
  driver::Buffer buffer;
  graph::DeviceRef device;
  if (is_ndarray(object)) {
    nb::object dense = nb::object(object.attr("copy")("C"));
    const NDArray facts = read_ndarray(dense);
    return graph::Array(
        facts.dtype, facts.shape.to_vector(), facts.data,
        static_cast<std::size_t>(num_elements(facts.shape)) * facts.dtype.size_in_bytes());
  }
  buffer = buffer_from_dlpack(object, std::nullopt);
  device = graph::DeviceRef(buffer.device());
  {
    ReleaseGil release;
    buffer = buffer.copy(driver::CPU());
    buffer.wait_for_host_read();
  }
  return graph::Array(buffer.dtype(), buffer.shape().to_vector(), buffer.data(), buffer.byte_size(),
                      device);
}

namespace {
thread_local NumberArguments* number_arguments = nullptr;
}

NumberArguments::Scope::Scope(NumberArguments* arguments)
    : outer_(std::exchange(number_arguments, arguments)) {}
NumberArguments::Scope::~Scope() { number_arguments = outer_; }

TensorValueLike to_value_like(nb::handle object) {
  if (nb::isinstance<TensorValue>(object)) return to_tensor(object);
  if (is_dim(object)) return to_dim(object);
  if (is_shape(object)) return to_shape(object);
  if (is_number(object)) {
    if (number_arguments)
      if (auto found = number_arguments->find(object.ptr())) return *found;
    return to_scalar(object);
  }
  if (nb::hasattr(object, "__tensorvalue__")) return to_tensor(object);
  if (is_ndarray(object) || is_dlpack_producer(object)) return to_array(object);
  return to_tensor(object);  // throws, or takes a raw value
}

BufferValue to_buffer_value(nb::handle object) {
  if (nb::isinstance<BufferValue>(object)) return *nb::inst_ptr<BufferValue>(object);
  if (nb::isinstance<Value>(object)) return BufferValue(*nb::inst_ptr<Value>(object));
  if (nb::hasattr(object, "__buffervalue__"))
    return to_buffer_value(nb::object(object.attr("__buffervalue__")()));
  throw TypeError(
      "BufferValue() argument must be a value of buffer type or a graph.BufferValue, not '" +
      class_name(object) + "'");
}

Value to_value(nb::handle object) {
  if (nb::isinstance<Value>(object)) return *nb::inst_ptr<Value>(object);
  // What is both is a tensor that may become a buffer.
  if (nb::hasattr(object, "__buffervalue__") && !nb::hasattr(object, "__tensorvalue__"))
    return to_buffer_value(object);
  return to_tensor(object);
}

std::vector<Value> to_values(nb::handle iterable) {
  std::vector<Value> values;
  for (nb::handle item : nb::iter(iterable)) values.push_back(to_value(item));
  return values;
}

std::vector<TensorValueLike> to_value_likes(nb::handle iterable) {
  if (nb::isinstance<Value>(iterable))
    throw TypeError("Expected a sequence of tensors, such as [x, y], but got the tensor " +
                    repr_of(iterable) + " alone.");
  std::vector<TensorValueLike> values;
  for (nb::handle item : nb::iter(iterable)) values.push_back(to_value_like(item));
  return values;
}

std::vector<graph::Type> to_types(nb::handle iterable) {
  if (!nb::hasattr(iterable, "__iter__"))
    throw TypeError("Types are given as a sequence, such as [" +
                    std::string(nb::isinstance<TypeObject>(iterable) ? repr_of(iterable) : "type") +
                    "], not as " + type_text(iterable) + ".");
  std::vector<graph::Type> types;
  for (nb::handle item : nb::iter(iterable)) {
    if (!nb::isinstance<TypeObject>(item))
      throw TypeError("Input types are graph types, not " + type_text(item) + ".");
    types.push_back(nb::inst_ptr<TypeObject>(item)->type);
  }
  return types;
}

std::vector<Value> to_results(nb::handle result) {
  if (result.is_none()) return {};
  if (nb::isinstance<Value>(result) || nb::isinstance<DimObject>(result) ||
      nb::hasattr(result, "static_dims") || nb::hasattr(result, "__tensorvalue__"))
    return {to_value(result)};
  // What is not iterable is refused as the value it was meant to be.
  const bool is_iterable = nb::hasattr(result, "__iter__") && !PyUnicode_Check(result.ptr());
  return is_iterable ? to_values(result) : std::vector<Value>{to_value(result)};
}

std::vector<SliceIndex> to_indices(nb::handle key, const graph::Shape& shape) {
  refuse_wide_indices(key, shape);
  if (is_named_slice(key) || !PyTuple_Check(key.ptr())) return {to_slice_index(key)};
  std::vector<SliceIndex> indices;
  for (Py_ssize_t i = 0; i < PyTuple_Size(key.ptr()); ++i)
    indices.push_back(to_slice_index(PyTuple_GetItem(key.ptr(), i)));
  return indices;
}

void bind_graph_value(nb::module_& m) {
  nb::class_<Value>(m, "Value", "A value of a graph, of any type.")
      .def("__init__",
           [](Value*, nb::args, nb::kwargs) {
             throw NotImplementedError("Value is abstract; graphs and ops make values.");
           })
      .def_prop_ro(
          "type",
          [](const Value& v) { return nb::typed<nb::object, TypeObject>(make_type(v.type())); },
          "Its type.")
      .def_prop_ro(
          "tensor", [](const Value& v) { return make_value(v.tensor()); },
          "Itself as a TensorValue; TypeError for another type.")
      .def_prop_ro(
          "buffer",
          [](const Value& v) { return nb::typed<nb::object, BufferValue>(make_value(v.buffer())); },
          "Itself as a BufferValue; TypeError for another type.")
      .def_prop_ro(
          "opaque",
          [](const Value& v) { return nb::typed<nb::object, OpaqueValue>(make_value(v.opaque())); },
          "Itself as an opaque value; TypeError for another type.")
      .def("__repr__", [](const Value& v) { return v.repr(); });
  nb::class_<OpaqueValue, Value>(m, "_OpaqueValue", "A value only custom kernels understand.");
  bind_tensor(m);
  bind_buffer(m);
}

}  // namespace kiln::python
