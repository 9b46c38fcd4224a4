#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "bindings.h"
#include "driver_casters.h"
#include "kiln/driver/buffer.h"
#include "kiln/driver/host_hazard.h"
#include "kiln/support/process.h"

namespace kiln::python {
namespace {

using driver::Buffer;
using driver::Device;
using driver::DeviceEvent;
using driver::DeviceQueue;
using driver::Index;
using driver::Slice;
using driver::Usage;

bool is_plain_integer(nb::handle object) {
  if (PyLong_CheckExact(object.ptr())) return true;
  if (PyBool_Check(object.ptr()) || !PyIndex_Check(object.ptr())) return false;
  return PyLong_Check(object.ptr()) || !PySequence_Check(object.ptr());  // arrays are sequences
}

[[noreturn]] void refuse_index(nb::handle index) {
  throw TypeError("A buffer is indexed by integers and slices, not by " + type_text(index) + ".");
}

/// An index clamped to 64 bits, as Python clamps the parts of slices.
std::int64_t clamped(nb::handle object) {
  const Py_ssize_t value = PyNumber_AsSsize_t(object.ptr(), nullptr);
  if (value == -1 && PyErr_Occurred()) throw nb::python_error();  // of its own __index__
  return value;
}

std::optional<std::int64_t> part(nb::handle slice, const char* name) {
  nb::object value = slice.attr(name);
  if (value.is_none()) return std::nullopt;
  if (!is_plain_integer(value)) refuse_index(value);
  return clamped(value);
}

Index to_index(nb::handle object) {
  if (is_plain_integer(object)) return Index(clamped(object));
  if (!PySlice_Check(object.ptr())) refuse_index(object);
  Py_ssize_t start = 0, stop = 0, step = 0;
  if (PySlice_Unpack(object.ptr(), &start, &stop, &step) == 0)
    return Index(Slice{start, stop, step});
  PyErr_Clear();  // the parts say which of them is wrong
  return Index(Slice{part(object, "start"), part(object, "stop"), part(object, "step")});
}

/// One index or a tuple of them, in place for the usual few.
class Indices {
 public:
  explicit Indices(nb::handle key) : key_(key) {
    if (!PyTuple_Check(key.ptr())) {
      values_.push_back(to_index(key));
      return;
    }
    const Py_ssize_t count = PyTuple_Size(key.ptr());
    values_.reserve(count);
    for (Py_ssize_t i = 0; i < count; ++i)
      values_.push_back(to_index(PyTuple_GetItem(key.ptr(), i)));
  }
  std::span<const Index> span() const { return values_; }

  /// `call()`, which indexes; its IndexError names the integer that was given, not a clamped one.
  template <typename Call>
  auto naming_integers(const Buffer& buffer, Call call) const {
    try {
      return call();
    } catch (const IndexError&) {
      for (std::size_t axis = 0; axis < values_.size(); ++axis) {
        const auto* value = std::get_if<std::int64_t>(&values_[axis]);
        const bool is_clamped = value && (*value == std::numeric_limits<std::int64_t>::max() ||
                                          *value == std::numeric_limits<std::int64_t>::min());
        if (!is_clamped) continue;
        const bool in_tuple = PyTuple_Check(key_.ptr()) != 0;
        const nb::handle given = in_tuple ? PyTuple_GetItem(key_.ptr(), axis) : key_.ptr();
        const std::int64_t size = buffer.rank() == 0 ? 1 : buffer.shape()[axis];
        throw IndexError("index " + str_of(given) + " is out of bounds for axis " +
                         std::to_string(axis) + " with size " + std::to_string(size));
      }
      throw;
    }
  }

 private:
  nb::handle key_;
  std::vector<Index> values_;
};

/// The same Python object when the handle did not change, as `to` and `from_dlpack` promise.
nb::object same_or_new(nb::handle self, Buffer result) {
  return result == buffer_of(self) ? nb::borrow(self) : make_buffer(std::move(result));
}

nb::object to_devices(nb::handle self, Any target, std::optional<DeviceEvent> after) {
  const driver::ToOptions options{.after = std::move(after)};
  const auto move = [&](nb::handle device) {
    if (!is_device(device))
      throw TypeError("Buffer.to expects a device or a list of devices, got " + type_text(device) +
                      ".");
    const Device& to = nb::inst_ptr<DeviceObject>(device)->device;
    const Buffer& buffer = buffer_of(self);
    ReleaseGil release;
    return buffer.to(to, options);
  };
  if (is_device(target)) return same_or_new(self, move(target));
  if (!PySequence_Check(target.ptr())) move(target);
  nb::list results;
  for (nb::handle device : target) results.append(same_or_new(self, move(device)));
  return std::move(results);
}

void iterate_indices(const Shape& shape, nb::list& found) {
  const std::int64_t count = num_elements(shape);
  std::vector<std::int64_t> position(shape.size(), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    found.append(make_tuple_of(Shape(position)));
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      if (++position[axis] < shape[axis]) break;
      position[axis] = 0;
    }
  }
}

template <typename Function>
auto without_gil(Function function) {
  ReleaseGil release;
  return function();
}

Device or_cpu(const std::optional<Device>& device) { return device ? *device : driver::CPU(); }

void def_creation(nb::class_<Buffer>& cls) {
  cls.def(
         "__init__",
         [](Buffer* self, DType dtype, IntShape shape, std::optional<Device> device, Usage usage) {
           new (self) Buffer(dtype, shape.get(), or_cpu(device), usage);
         },
         nb::arg("dtype"), nb::arg("shape"), nb::arg("device") = nb::none(),
         nb::arg("usage") = Usage::DEFAULT)
      .def(
          "__init__",
          [](Buffer* self, DType dtype, IntShape shape, const DeviceQueue& stream, Usage usage) {
            new (self) Buffer(dtype, shape.get(), stream, usage);
          },
          nb::arg("dtype"), nb::arg("shape"), nb::arg("stream"), nb::arg("usage") = Usage::DEFAULT)
      .def(
          "__init__",
          [](Buffer* self, nb::object array, std::optional<Device> device) {
            if (!is_ndarray(array))
              throw TypeError("Buffer() takes a dtype and a shape, or a NumPy array; got " +
                              type_text(array) + ".");
            nb::object dense = nb::module_::import_("numpy").attr("ascontiguousarray")(array).attr(
                "reshape")(array.attr("shape"));
            check_call("Buffer");
            const NDArray facts = read_ndarray(dense);
            const Device target = or_cpu(device);
            ReleaseGil release;
            new (self) Buffer(Buffer::copy_of(facts.data, num_elements(facts.shape), facts.dtype,
                                              facts.shape, target));
          },
          nb::arg("shape"), nb::arg("device") = nb::none());

  cls.def_static(
         "zeros",
         [](IntShape shape, DType dtype, std::optional<Device> device, Usage usage) {
           const Shape dims = shape.get();
           return without_gil([&] { return Buffer::zeros(dims, dtype, or_cpu(device), usage); });
         },
         nb::arg("shape"), nb::arg("dtype"), nb::arg("device") = nb::none(),
         nb::arg("usage") = Usage::DEFAULT, R"(
A buffer with every byte cleared.

>>> from kiln.driver import Buffer
>>> from kiln.dtype import DType
>>> Buffer.zeros((2, 3), DType.int32).to_numpy().tolist()
[[0, 0, 0], [0, 0, 0]])")
      .def_static(
          "scalar",
          [](Number value, DType dtype, std::optional<Device> device) {
            return Buffer::scalar(value.get(), dtype, or_cpu(device));
          },
          nb::arg("value"), nb::arg("dtype"), nb::arg("device") = nb::none(),
          "A buffer of rank 0 that holds the converted value.")
      .def_static(
          "from_numpy",
          [](Any array) {
            check_call("Buffer.from_numpy");
            return buffer_from_numpy(array);
          },
          nb::arg("arr"), R"(
A CPU buffer that aliases a C-contiguous, writable array; other arrays are copied.

>>> import numpy as np
>>> from kiln.driver import Buffer
>>> array = np.arange(4)
>>> buffer = Buffer.from_numpy(array)
>>> array[0] = 7
>>> buffer[0].item()
7)")
      .def_static(
          "from_dlpack",
          [](Any array, std::optional<bool> copy) -> nb::object {
            if (is_buffer(array) && !copy.value_or(false)) return nb::borrow(array);
            check_call("Buffer.from_dlpack");
            return make_buffer(buffer_from_dlpack(array, copy));
          },
          nb::arg("array"), nb::kw_only(), nb::arg("copy") = nb::none(),
          "A buffer on the memory of any DLPack producer; `copy` as in the array API.")
      .def_static(
          "mmap",
          [](Any filename, DType dtype, Any shape, const std::string& mode, const Integer& offset) {
            const bool is_int = PyIndex_Check(shape.ptr()) && !PySequence_Check(shape.ptr());
            const Shape dims = is_int ? to_int_shape(nb::make_tuple(nb::object(nb::borrow(shape))))
                                      : to_int_shape(shape);
            const driver::MmapOptions options{
                .mode = mode, .offset = offset.get<std::int64_t>("Buffer.mmap: the offset", 0)};
            const std::string name = path_of(filename);
            return without_gil([&] { return Buffer::mmap(name, dtype, dims, options); });
          },
          nb::arg("filename"), nb::arg("dtype"), nb::arg("shape"), nb::arg("mode") = "copyonwrite",
          nb::arg("offset") = 0,
          "A CPU buffer over a binary file, with the modes of numpy.memmap.");
}

void def_facts(nb::class_<Buffer>& cls) {
  cls.def_prop_ro("dtype", &Buffer::dtype, "Element type.")
      .def_prop_ro("device", &Buffer::device, "Where the memory lies.")
      .def_prop_ro("stream", &Buffer::stream, "The queue it is bound to.")
      .def_prop_ro(
          "shape", [](const Buffer& b) { return make_tuple_of(b.shape()); }, "Extents.")
      .def_prop_ro("rank", &Buffer::rank, "Number of axes.")
      .def_prop_ro("num_elements", &Buffer::num_elements, "Product of the extents.")
      .def_prop_ro("element_size", &Buffer::element_size, "Bytes of one element.")
      .def_prop_ro(
          "strides", [](const Buffer& b) { return make_tuple_of(b.strides()); },
          "Steps in elements.")
      .def_prop_ro("is_contiguous", &Buffer::is_contiguous,
                   "Whether the elements lie in row-major order without gaps.")
      .def_prop_ro("is_host", &Buffer::is_host, "Whether it lies on the CPU.")
      .def_prop_ro("pinned", &Buffer::pinned, "Whether it is host memory of an accelerator.")
      .def_prop_ro("usage", &Buffer::usage, "The intent that was asked for.")
      .def(
          "_data_ptr", [](const Buffer& b) { return reinterpret_cast<std::uintptr_t>(b.data()); },
          "Address of the first element.")
      .def(
          "_aligned",
          [](const Buffer& b, const std::optional<Integer>& n) {
            return b.aligned(n ? n->get<std::size_t>("Buffer._aligned: the number of bytes", 1)
                               : 0);
          },
          nb::arg("n") = nb::none(), "Whether the start is a multiple of `n` bytes.")
      .def(
          "_record_use",
          [](const Buffer& b, const DeviceQueue& queue, bool write) {
            b.record_use(queue, {.write = write});
          },
          nb::arg("queue"), nb::arg("write") = true,
          "Says that work enqueued on `queue` so far uses this memory.")
      .def(
          "_iterate_indices",
          [](const Buffer& b) {
            nb::list found;
            iterate_indices(b.shape(), found);
            return nb::iter(found);
          },
          "Every index tuple, in row-major order.")
      .def("__repr__", &Buffer::repr)
      .def("__str__", [](const Buffer& b) { return without_gil([&] { return b.to_string(); }); });
}

void def_access(nb::class_<Buffer>& cls) {
  cls.def(
         "__getitem__",
         [](const Buffer& b, Any key) {
           const Indices indices(key);
           return indices.naming_integers(b, [&] { return b.at(indices.span()); });
         },
         nb::arg("index"))
      .def(
          "__setitem__",
          [](const Buffer& b, Any key, Number value) {
            const Indices indices(key);
            const Scalar scalar = value.get();
            indices.naming_integers(b,
                                    [&] { without_gil([&] { b.set(indices.span(), scalar); }); });
          },
          nb::arg("index"), nb::arg("value"))
      .def(
          "item",
          [](const Buffer& b) { return make_number(without_gil([&] { return b.item(); })); },
          "The one element as bool, int or float; waits for pending work.")
      .def(
          "view",
          [](const Buffer& b, DType dtype, Any shape) {
            return b.view(dtype,
                          shape.is_none() ? std::nullopt : std::optional(to_int_shape(shape)));
          },
          nb::arg("dtype"), nb::arg("shape") = nb::none(), R"(
The same memory as another element type; without `shape` the last axis is resized.

>>> from kiln.driver import Buffer
>>> from kiln.dtype import DType
>>> Buffer.zeros((2, 4), DType.int16).view(DType.int8).shape
(2, 8))")
      .def(
          "contiguous", [](const Buffer& b) { return without_gil([&] { return b.contiguous(); }); },
          "A row-major copy on the same device and queue.")
      .def(
          "copy",
          [](const Buffer& b, std::optional<Device> device) {
            return without_gil([&] { return device ? b.copy(*device) : b.copy(); });
          },
          nb::arg("device") = nb::none(), "New row-major memory with equal elements.")
      .def("to", &to_devices, nb::arg("device"), nb::kw_only(), nb::arg("after") = nb::none(),
           "This buffer on a device, or on each of a list of devices; no copy when it is there.")
      .def("to", &to_devices, nb::arg("devices"), nb::kw_only(), nb::arg("after") = nb::none(),
           "This buffer on each of a list of devices.")
      .def_prop_ro(
          "_host_hazard_tracked", [](const Buffer& b) { return b.host_hazard_tracked(); },
          "Whether host access waits for stamped tokens.")
      .def(
          "_stamp_write",
          [](const Buffer& b, const driver::HostHazardCompletion& t) { b.stamp_write(t); },
          nb::arg("token"), "Says that the token's work writes it; no effect when not tracked.")
      .def(
          "_stamp_read",
          [](const Buffer& b, const driver::HostHazardCompletion& t) { b.stamp_read(t); },
          nb::arg("token"), "Says that the token's work reads it; no effect when not tracked.")
      .def(
          "inplace_copy_from",
          [](const Buffer& b, const Buffer& source) {
            without_gil([&] { b.inplace_copy_from(source); });
          },
          nb::arg("src"), "Copies the elements of `src` here; enqueued on this buffer's queue.")
      .def(
          "memset",
          [](const Buffer& b, const Integer& value) {
            const int byte = value.get("Buffer.memset: the value", 0, 255);
            without_gil([&] { b.memset(byte); });
          },
          nb::arg("value"), "Writes `value` into every byte; enqueued on the buffer's queue.");
}

}  // namespace

bool is_buffer(nb::handle object) {
  return nb::isinstance<Buffer>(object) && nb::inst_ready(object);
}
nb::object make_buffer(Buffer buffer) { return nb::cast(std::move(buffer)); }

nb::tuple make_tuple_of(const Shape& shape) {
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  for (std::size_t i = 0; i < shape.size(); ++i)
    PyTuple_SetItem(tuple.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(shape[i]));
  return nb::steal<nb::tuple>(tuple.release());
}

Shape to_int_shape(nb::handle sequence) {
  const bool is_sequence = !PyUnicode_Check(sequence.ptr()) && PySequence_Check(sequence.ptr());
  nb::object items = is_sequence ? nb::steal(PySequence_Tuple(sequence.ptr())) : nb::object();
  if (!items.is_valid()) {  // an array of rank 0, too
    PyErr_Clear();
    throw TypeError("A shape is a sequence of ints, not " + repr_of(sequence) + " of " +
                    type_text(sequence) + ".");
  }
  Shape shape;
  for (Py_ssize_t i = 0; i < PyTuple_Size(items.ptr()); ++i) {
    nb::handle item = PyTuple_GetItem(items.ptr(), i);
    if (!is_plain_integer(item))
      throw TypeError("A shape is a sequence of ints, but it holds " + repr_of(item) + ".");
    nb::object number = nb::steal(PyNumber_Index(item.ptr()));
    if (!number.is_valid()) throw nb::python_error();
    const long long value = PyLong_AsLongLong(number.ptr());
    if (value == -1 && PyErr_Occurred()) {
      PyErr_Clear();
      throw ValueError("The extent " + str_of(number) + " does not fit 64 bits.");
    }
    shape.push_back(value);
  }
  return shape;
}

namespace {

bool type_name_starts_with(nb::handle object, std::string_view start) {
  return std::string_view(nb::cast<std::string>(object.type().attr("__name__"))).starts_with(start);
}

}  // namespace

bool is_number(nb::handle object) {
  if (PyFloat_Check(object.ptr()) || PyLong_Check(object.ptr())) return true;
  // The class of a number has __float__ too.
  if (PySequence_Check(object.ptr()) || PyType_Check(object.ptr()) || is_buffer(object))
    return false;
  // NumPy's complex scalars have __float__, which drops a part.
  if (type_name_starts_with(object, "complex") || type_name_starts_with(object, "clongdouble"))
    return false;
  return PyIndex_Check(object.ptr()) || nb::hasattr(object, "__float__");
}

Scalar to_scalar(nb::handle object, bool any_size) {
  PyObject* p = object.ptr();
  if (PyBool_Check(p)) return p == Py_True;
  if (PyFloat_Check(p)) return PyFloat_AsDouble(p);
  if (!is_number(object))
    throw TypeError("Expected a number, got " + repr_of(object) + " of " + type_text(object) + ".");
  if (type_name_starts_with(object, "bool")) return PyObject_IsTrue(p) == 1;  // numpy.bool
  if (nb::object number = nb::steal(PyNumber_Index(p)); number.is_valid()) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
    if (!overflow) return static_cast<std::int64_t>(value);
    if (overflow > 0) {
      const unsigned long long big = PyLong_AsUnsignedLongLong(number.ptr());
      if (!PyErr_Occurred()) return static_cast<std::uint64_t>(big);
      PyErr_Clear();
    }
    const double nearest = PyLong_AsDouble(number.ptr());
    if (PyErr_Occurred()) {
      PyErr_Clear();
      if (!any_size) throw ValueError("The number is too large for any element type.");
      return Scalar::wide_integer(overflow < 0 ? -HUGE_VAL : HUGE_VAL);
    }
    nb::object back = nb::steal(PyLong_FromDouble(nearest));
    if (!back.is_valid()) throw nb::python_error();
    const auto is = [&](int comparison) {
      return PyObject_RichCompareBool(number.ptr(), back.ptr(), comparison) == 1;
    };
    return Scalar::wide_integer(nearest, (is(Py_GT) ? 1 : 0) - (is(Py_LT) ? 1 : 0));
  }
  PyErr_Clear();
  nb::object real = nb::steal(PyNumber_Float(p));
  if (!real.is_valid()) throw nb::python_error();
  return PyFloat_AsDouble(real.ptr());
}

nb::object make_number(const Scalar& scalar) {
  return std::visit(
      [](auto value) -> nb::object { return nb::cast(value); },
      static_cast<const std::variant<bool, std::int64_t, std::uint64_t, double>&>(scalar));
}

void bind_driver_buffer(nb::module_& m) {
  nb::enum_<Usage>(m, "Usage", nb::is_flag(), "What memory is meant for; a set of flags.")
      .value("DEFAULT", Usage::DEFAULT, "No special intent.")
      .value("STAGING", Usage::STAGING, "Host memory meant for transfers.")
      .value("UNTRACKED", Usage::UNTRACKED, "No automatic waits, together with STAGING.");

  nb::class_<Buffer> cls(m, "Buffer", nb::is_weak_referenceable(), nb::pooled(), R"(
A strided, typed window onto memory of one device.

>>> from kiln.driver import Buffer
>>> from kiln.dtype import DType
>>> buffer = Buffer(DType.float32, (2, 3))
>>> for index in buffer._iterate_indices(): buffer[index] = sum(index)
>>> buffer[1, 2].item(), buffer[:, 1].to_numpy().tolist()
(3.0, [1.0, 2.0]))");
  def_creation(cls);
  def_facts(cls);
  def_access(cls);
  def_exchange(cls);

  m.def(
      "load_max_buffer", [](Any path) { return driver::load_max_buffer(path_of(path)); },
      nb::arg("path"), "Reads one tensor that the binary-checkpoint debug print wrote.");
  m.def(
      "batch_inplace_copy",
      [](const std::vector<Buffer>& dsts, const std::vector<Buffer>& srcs) {
        without_gil([&] { driver::batch_inplace_copy(dsts, srcs); });
      },
      nb::arg("dsts"), nb::arg("srcs"), "Copies pair by pair in as few submissions as possible.");
  m.def(
      "copy_pinned_to_destinations",
      [](const Buffer& source, const std::vector<Buffer>& destinations) {
        without_gil([&] { driver::copy_pinned_to_destinations(source, destinations); });
      },
      nb::arg("source"), nb::arg("destinations"), "Copies `source` into each destination.");
}

}  // namespace kiln::python
