#pragma once

// Driver values between Python and C++: devices are one Python object each; shapes, indices and
// numbers are converted inside the bound functions, where errors can be sentences.

#include <nanobind/nanobind.h>

#include <vector>

#include "casters.h"
#include "kiln/driver/buffer.h"

namespace kiln::python {

/// Runs a Python function on a thread of the driver behind the present work of the device's default
/// queue. Not a CUDA device: RuntimeError.
void enqueue_host_function(const driver::Device& device, nb::handle function);
/// Starts it on the workers of `cpu` instead, and stores `value` into `flag` when it has run.
void enqueue_host_function(const driver::DeviceQueue& queue, nb::handle function, nb::handle flag,
                           nb::handle value, nb::handle cpu);
/// RuntimeError: `__unsafe_enqueue_async_py_host_func` is there on CUDA devices only.
void refuse_host_function(const driver::Device& device);

/// What a Python Device holds; the subclasses tell the kind.
struct DeviceObject {
  driver::Device device;
};
struct CPUObject : DeviceObject {};
struct AcceleratorObject : DeviceObject {};

/// The one Python object of `device`, borrowed.
PyObject* device_object(const driver::Device& device);
bool is_device(nb::handle object);

/// A sequence of ints; one int is not a shape. Others: TypeError.
Shape to_int_shape(nb::handle sequence);
nb::tuple make_tuple_of(const Shape& shape);
/// A bool, int, float or NumPy number. Others: TypeError. An int beyond every float is infinite
/// when `any_size`, else a ValueError.
Scalar to_scalar(nb::handle number, bool any_size = false);
bool is_number(nb::handle object);
nb::object make_number(const Scalar& scalar);

/// The Python object of a new handle.
nb::object make_buffer(driver::Buffer buffer);
/// Adds the methods that exchange memory with NumPy and DLPack.
void def_exchange(nb::class_<driver::Buffer>& cls);
bool is_buffer(nb::handle object);
inline const driver::Buffer& buffer_of(nb::handle object) {
  return *nb::inst_ptr<driver::Buffer>(object);
}

/// Whether `object` is a NumPy array; does not import NumPy.
bool is_ndarray(nb::handle object);
/// What a NumPy array says about its memory.
struct NDArray {
  void* data;
  DType dtype;
  Shape shape;
  bool writable;
  bool contiguous;  // C order; arrays without elements are
};
/// Other dtypes than kiln's: ValueError.
NDArray read_ndarray(nb::handle array);
/// A CPU buffer that aliases a contiguous array and keeps it alive, whether it is writable or not.
driver::Buffer alias_ndarray(nb::handle array, const NDArray& facts);
/// As `Buffer.from_numpy`.
driver::Buffer buffer_from_numpy(nb::handle array);
/// As `Buffer.from_dlpack`; a Buffer gives itself.
driver::Buffer buffer_from_dlpack(nb::handle producer, std::optional<bool> copy);
/// Whether `object` has `__dlpack__` and `__dlpack_device__`.
bool is_dlpack_producer(nb::handle object);

/// Any object, converted by `to_int_shape`.
struct IntShape {
  nb::handle object;
  Shape get() const { return to_int_shape(object); }
};
/// Any object, converted by `to_scalar` for a store, where the element type says what is too large.
struct Number {
  nb::handle object;
  Scalar get() const { return to_scalar(object, true); }
};

}  // namespace kiln::python

namespace nanobind::detail {

template <>
struct type_caster<kiln::driver::Device> {
  using Value = kiln::driver::Device;
  static constexpr auto Name = const_name("kiln._core.driver.Device");
  template <typename T_>
  using Cast = movable_cast_t<T_>;
  template <typename T_>
  static constexpr bool can_cast() {
    return true;
  }
  bool from_python(handle src, uint32_t, cleanup_list*) noexcept {
    if (!kiln::python::is_device(src)) return false;
    value = &inst_ptr<kiln::python::DeviceObject>(src)->device;
    return true;
  }
  static handle from_cpp(const kiln::driver::Device& src, rv_policy, cleanup_list*) noexcept {
    return handle(kiln::python::device_object(src)).inc_ref();
  }
  explicit operator Value*() { return value; }
  explicit operator Value&() { return *value; }
  explicit operator Value&&() { return (Value&&)*value; }
  Value* value = nullptr;
};

KILN_ANY_OBJECT_CASTER(kiln::python::IntShape, "collections.abc.Sequence[int]")
KILN_ANY_OBJECT_CASTER(kiln::python::Number, "bool | int | float")

template <>
struct type_caster<kiln::Shape> {
  NB_TYPE_CASTER(kiln::Shape, const_name("tuple[int, ...]"))
  static handle from_cpp(const kiln::Shape& src, rv_policy, cleanup_list*) noexcept {
    return kiln::python::make_tuple_of(src).release();
  }
};

}  // namespace nanobind::detail
