// NumPy arrays and DLPack tensors as buffers, and buffers as those.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include "bindings.h"
#include "driver_casters.h"
#include "kiln/driver/dlpack.h"
#include "kiln/support/process.h"
#include "python_function.h"

namespace kiln::python {
namespace {

using driver::Buffer;
using driver::Device;

// The head of a NumPy array and of its dtype. NumPy keeps both stable, since extensions that were
// compiled long ago read them; going through attributes would cost half a microsecond an array.
struct ArrayHead {
  PyObject_HEAD char* data;
  int rank;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  PyObject* base;
  PyObject* dtype;
  int flags;
};
struct ArrayDTypeHead {
  PyObject_HEAD PyTypeObject* scalar_type;
  char kind;
  char type;
  char byte_order;
  char flags;
  int number;
};
constexpr int kContiguous = 0x1;
constexpr int kWritable = 0x400;

const ArrayHead& head_of(nb::handle array) {
  return *reinterpret_cast<const ArrayHead*>(array.ptr());
}

/// By NumPy's numbers of its own types.
std::optional<DType> builtin_dtype(int number) {
  switch (number) {
    case 0:
      return DType::bool_;
    case 1:
      return DType::int8;
    case 2:
      return DType::uint8;
    case 3:
      return DType::int16;
    case 4:
      return DType::uint16;
    case 5:
      return DType::int32;
    case 6:
      return DType::uint32;
    case 7:
    case 9:
      return DType::int64;
    case 8:
    case 10:
      return DType::uint64;
    case 11:
      return DType::float32;
    case 12:
      return DType::float64;
    case 23:
      return DType::float16;
    default:
      return std::nullopt;
  }
}

constexpr const char* kArrayNotContiguous =
    "driver buffer's from_dlpack only accepts contiguous arrays. First call "
    "np.ascontiguousarray(array)";
constexpr const char* kTensorNotContiguous =
    "driver buffer's from_dlpack only accepts contiguous tensors. First call .contiguous() on the "
    "tensor";

/// Nullopt for an array of elements that no member of DType describes.
std::optional<NDArray> try_read_ndarray(nb::handle array) {
  const ArrayHead& head = head_of(array);
  const auto& type = *reinterpret_cast<const ArrayDTypeHead*>(head.dtype);
  std::optional<DType> dtype;
  if (type.byte_order == '=' || type.byte_order == '|') dtype = builtin_dtype(type.number);
  if (!dtype) {
    try {
      dtype = dtype_from_numpy(head.dtype);
    } catch (const ValueError&) {
      return std::nullopt;
    }
    // One element a byte there, two a byte here.
    if (dtype == DType::float4_e2m1fn) return std::nullopt;
  }
  NDArray facts{
      head.data, *dtype, {}, (head.flags & kWritable) != 0, (head.flags & kContiguous) != 0};
  for (int i = 0; i < head.rank; ++i) facts.shape.push_back(head.shape[i]);
  return facts;
}

Buffer from_ndarray_dlpack(nb::handle array, const NDArray& facts, std::optional<bool> copy) {
  if (!facts.contiguous) throw ValueError(kArrayNotContiguous);
  if (!facts.writable && copy == false)
    throw BufferError(
        "The NumPy array is read-only, but every kiln buffer is writable, so it can only be "
        "copied. Consider passing `copy = True` to `Buffer.from_dlpack`.");
  if (copy.value_or(false) || !facts.writable) {
    ReleaseGil release;
    return Buffer::copy_of(facts.data, num_elements(facts.shape), facts.dtype, facts.shape,
                           driver::CPU());
  }
  return alias_ndarray(array, facts);
}

/// `producer.__dlpack__` with as much of the protocol as the producer knows.
nb::object request_capsule(nb::handle producer, std::optional<bool> copy) {
  nb::object device = producer.attr("__dlpack_device__")();
  if (!PyTuple_Check(device.ptr()) || PyTuple_Size(device.ptr()) != 2)
    throw BufferError("__dlpack_device__ of " + type_text(producer) +
                      " did not return a device type and an id.");
  const auto number = [&](std::size_t i) {
    int overflow = 0;
    const nb::object given = integer_of(nb::object(device[i]));
    const long long value =
        given.is_valid() ? PyLong_AsLongLongAndOverflow(given.ptr(), &overflow) : 0;
    if (!given.is_valid() || overflow != 0 || !std::in_range<int>(value))
      throw BufferError("__dlpack_device__ of " + type_text(producer) + " returned " +
                        repr_of(device) + ", but a device type and an id are ints of 32 bits.");
    return static_cast<int>(value);
  };
  const int type = number(0);
  const int id = number(1);
  nb::dict arguments;
  if (type == 2 || type == 10 || type == 13) {
    try {
      arguments["stream"] = driver::Accelerator(id).default_queue().native_stream_handle();
    } catch (const ValueError& error) {
      throw BufferError("The tensor lies on device (" + std::to_string(type) + ", " +
                        std::to_string(id) + "), which kiln cannot open: " + error.what());
    }
  }
  nb::dict full;
  full.update(arguments);
  full["max_version"] = nb::make_tuple(1, 1);
  if (copy) full["copy"] = *copy;
  nb::object request = producer.attr("__dlpack__");
  try {
    return request(**full);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return request(**arguments);
}

Buffer from_capsule(nb::handle capsule, std::optional<bool> copy) {
  PyObject* p = capsule.ptr();
  if (!PyCapsule_CheckExact(p))
    throw BufferError("__dlpack__ returned " + type_text(capsule) + " instead of a capsule.");
  if (PyCapsule_IsValid(p, "dltensor_versioned")) {
    auto* tensor =
        static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(p, "dltensor_versioned"));
    PyCapsule_SetName(p, "used_dltensor_versioned");
    // The producer's own copy is as good as ours.
    if (copy.value_or(false) && (tensor->flags & DLPACK_FLAG_BITMASK_IS_COPIED) != 0)
      copy = std::nullopt;
    ReleaseGil release;
    return Buffer::from_dlpack(tensor, {.copy = copy});
  }
  if (PyCapsule_IsValid(p, "dltensor")) {
    auto* tensor = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(p, "dltensor"));
    PyCapsule_SetName(p, "used_dltensor");
    ReleaseGil release;
    return Buffer::from_dlpack(tensor, {.copy = copy});
  }
  const char* name = PyCapsule_GetName(p);
  throw BufferError("The capsule '" + std::string(name ? name : "") +
                    "' holds no DLPack tensor that can be taken; a capsule may be used once.");
}

template <typename Tensor>
PyObject* capsule_of(Tensor* tensor, const char* name) {
  PyObject* capsule = PyCapsule_New(tensor, name, [](PyObject* self) {
    // A consumer renames the capsule and takes over; an unused one is released here.
    const char* name = PyCapsule_GetName(self);
    if (!name || std::string_view(name).starts_with("used_")) return;
    auto* tensor = static_cast<Tensor*>(PyCapsule_GetPointer(self, name));
    if (tensor->deleter) tensor->deleter(tensor);
  });
  if (!capsule) {
    tensor->deleter(tensor);
    throw nb::python_error();
  }
  return capsule;
}

int nearest_int(nb::handle number) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  using Limits = std::numeric_limits<int>;
  if (overflow != 0) return overflow < 0 ? Limits::min() : Limits::max();
  return static_cast<int>(std::clamp<long long>(value, Limits::min(), Limits::max()));
}

/// Two ints, each as near to the given one as the type goes.
std::pair<int, int> to_pair(nb::handle object, const char* argument) {
  if (PyTuple_Check(object.ptr()) && PyTuple_Size(object.ptr()) == 2) {
    nb::object first = integer_of(PyTuple_GetItem(object.ptr(), 0));
    nb::object second = integer_of(PyTuple_GetItem(object.ptr(), 1));
    if (first.is_valid() && second.is_valid()) return {nearest_int(first), nearest_int(second)};
  }
  throw TypeError(std::string("__dlpack__: ") + argument + " must be a pair of ints, got " +
                  repr_of(object) + ".");
}

nb::object to_dlpack(const Buffer& buffer, const std::optional<Integer>& stream, Any max_version,
                     Any dl_device, std::optional<bool> copy) {
  driver::DLPackOptions options{.copy = copy};
  if (stream) options.stream = stream->get<std::int64_t>("Buffer.__dlpack__: the stream");
  if (!max_version.is_none()) options.max_version = to_pair(max_version, "max_version");
  if (!dl_device.is_none()) {
    options.dl_device = to_pair(dl_device, "dl_device");
    const auto [type, id] = *options.dl_device;
    if (!nb::make_tuple(type, id).equal(nb::tuple(dl_device)))  // beyond every device
      throw BufferError("Buffer.__dlpack__: dl_device is " + repr_of(dl_device) +
                        ", a device that kiln does not have here; (1, 0) is the host.");
  }
  if (options.max_version && options.max_version->first >= 1) {
    DLManagedTensorVersioned* tensor = nullptr;
    {
      ReleaseGil release;
      tensor = buffer.to_dlpack(options);
    }
    return nb::steal(capsule_of(tensor, "dltensor_versioned"));
  }
  DLManagedTensor* tensor = nullptr;
  {
    ReleaseGil release;
    tensor = buffer.to_dlpack_unversioned(options);
  }
  return nb::steal(capsule_of(tensor, "dltensor"));
}

nb::object to_numpy(const Buffer& buffer) {
  check_call("Buffer.to_numpy");
  if (buffer.dtype() == DType::bfloat16 || buffer.dtype() == DType::float4_e2m1fn)
    dtype_to_numpy(buffer.dtype());  // throws
  constinit static Imported from_dlpack("numpy", "from_dlpack");
  Buffer source = buffer;
  if (!buffer.is_host() && !buffer.pinned()) {
    ReleaseGil release;
    source = buffer.on_host();
  }
  if (source.dtype().is_float8()) source = source.view(DType::uint8);
  return from_dlpack.get()(make_buffer(std::move(source)));
}

/// What NumPy asks for when an array is made of a buffer.
nb::object to_array_for_numpy(const Buffer& buffer, Any dtype, std::optional<bool> copy) {
  const bool aliases = buffer.is_host() || buffer.pinned();
  nb::object array = to_numpy(buffer);
  const bool converts =
      !dtype.is_none() &&
      !nb::object(array.attr("dtype")).equal(nb::module_::import_("numpy").attr("dtype")(dtype));
  if (copy == false && (converts || !aliases))
    throw ValueError(
        "A NumPy array of this buffer needs a copy, since its dtype or its device differs, but "
        "`copy` is False.");
  if (converts) return array.attr("astype")(dtype);
  return aliases && copy == true ? nb::object(array.attr("copy")()) : array;
}

}  // namespace

bool is_ndarray(nb::handle object) {
  static PyTypeObject* ndarray = nullptr;  // NumPy is never unloaded
  if (!ndarray) {
    nb::object modules = nb::module_::import_("sys").attr("modules");
    nb::object numpy = modules.attr("get")("numpy");
    if (numpy.is_none() || !nb::hasattr(numpy, "ndarray")) return false;
    ndarray = reinterpret_cast<PyTypeObject*>(nb::object(numpy.attr("ndarray")).release().ptr());
  }
  return PyObject_TypeCheck(object.ptr(), ndarray) != 0;
}

NDArray read_ndarray(nb::handle array) {
  if (std::optional<NDArray> facts = try_read_ndarray(array)) return *facts;
  throw ValueError("unsupported NumPy dtype: " + str_of(head_of(array).dtype));
}

Buffer alias_ndarray(nb::handle array, const NDArray& facts) {
  return Buffer::adopt(facts.data, facts.dtype, facts.shape, nullptr, driver::CPU(),
                       [owner = share(array)]() mutable { owner.reset(); });
}

Buffer buffer_from_numpy(nb::handle array) {
  if (!is_ndarray(array))
    throw TypeError("Buffer.from_numpy expects a NumPy array, got " + type_text(array) + ".");
  const NDArray facts = read_ndarray(array);
  if (facts.contiguous && facts.writable) return alias_ndarray(array, facts);
  nb::object copy = array.attr("copy")("C");
  return alias_ndarray(copy, read_ndarray(copy));
}

bool is_dlpack_producer(nb::handle object) {
  return nb::hasattr(object, "__dlpack__") && nb::hasattr(object, "__dlpack_device__");
}

Buffer buffer_from_dlpack(nb::handle producer, std::optional<bool> copy) {
  if (is_buffer(producer)) {
    const Buffer& buffer = buffer_of(producer);
    if (!copy.value_or(false)) return buffer;
    ReleaseGil release;
    return buffer.copy();
  }
  if (is_ndarray(producer)) {
    // NumPy itself refuses what DLPack has no type for; what kiln has none for is refused below.
    if (const std::optional<NDArray> facts = try_read_ndarray(producer))
      return from_ndarray_dlpack(producer, *facts, copy);
    return from_capsule(request_capsule(producer, copy), copy);
  }
  if (!is_dlpack_producer(producer))
    throw TypeError(
        "Buffer.from_dlpack expects an object with __dlpack__ and __dlpack_device__, got " +
        type_text(producer) + ".");
  if (nb::object check = nb::getattr(producer, "is_contiguous", nb::none());
      PyCallable_Check(check.ptr()) && nb::object(check()).is(nb::handle(Py_False)))
    throw ValueError(kTensorNotContiguous);
  return from_capsule(request_capsule(producer, copy), copy);
}

void def_exchange(nb::class_<Buffer>& cls) {
  cls.def("to_numpy", &to_numpy, R"(
The elements as a writable NumPy array: an alias of host memory, a copy of other memory.

>>> import numpy as np
>>> from kiln.driver import Buffer
>>> Buffer.from_numpy(np.eye(2)).to_numpy()
array([[1., 0.],
       [0., 1.]]))")
      .def("__dlpack__", &to_dlpack, nb::kw_only(), nb::arg("stream") = nb::none(),
           nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(),
           nb::arg("copy") = nb::none(), "A DLPack capsule of this memory.")
      .def("__array__", &to_array_for_numpy, nb::arg("dtype") = nb::none(),
           nb::arg("copy") = nb::none(),
           "As `to_numpy`, for `numpy.asarray`; `copy` and `dtype` as NumPy has them.")
      .def("__dlpack_device__", &Buffer::dlpack_device, "Device type and id of DLPack.");
}

}  // namespace kiln::python
