#pragma once

// How values that many signatures use cross the border: dtypes are the nineteen objects of
// kiln.dtype.DType, one each, so that they compare by identity as fast as ints.

#include <nanobind/nanobind.h>

#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "kiln/dtype/dtype.h"

namespace nb = nanobind;

namespace kiln::python {

/// What a Python DType holds.
struct DTypeObject {
  DType dtype;
};

/// The Python object of `dtype`, borrowed.
PyObject* dtype_object(DType dtype);
/// Whether `object` is a Python DType.
bool is_dtype(nb::handle object);
/// The DType of a NumPy dtype object, as DType.from_numpy.
DType dtype_from_numpy(nb::handle numpy_dtype);
/// The NumPy dtype of an element, as DType.to_numpy.
nb::object dtype_to_numpy(DType dtype);

/// "<class 'str'>", as the messages about wrong arguments spell types.
std::string type_text(nb::handle object);
/// The bytes of a path: a str, bytes or an object with `__fspath__`. Others: TypeError.
std::string path_of(nb::handle object);
std::string str_of(nb::handle object);
std::string repr_of(nb::handle object);

/// An attribute of a module, imported on first use and kept for the life of the process; the GIL
/// guards it. A `static` whose initialiser imports would not do: an import lets other threads run,
/// and one that then waits for the initialiser does so with the GIL. To import twice is harmless.
class Imported {
 public:
  constexpr Imported(const char* module, const char* attribute)
      : module_(module), attribute_(attribute) {}
  nb::handle get() {
    if (!object_) {
      nb::object found = nb::module_::import_(module_).attr(attribute_);
      if (!object_) object_ = found.release().ptr();
    }
    return object_;
  }

 private:
  const char* module_;
  const char* attribute_;
  PyObject* object_ = nullptr;
};

/// `object` as a Python int, when it has `__index__`; else an invalid object. Sets no error.
nb::object integer_of(nb::handle object);
/// ValueError: `what` has a value that does not lie between `low` and `high`.
[[noreturn]] void refuse_integer(nb::handle value, std::string_view what, nb::object low,
                                 nb::object high);

/// The value of a Python int from `low` to `high`; others: ValueError that starts with `what`.
template <typename T>
T checked_integer(nb::handle value, std::string_view what, T low = std::numeric_limits<T>::min(),
                  T high = std::numeric_limits<T>::max()) {
  int overflow = 0;
  const long long small = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  bool fits = overflow == 0 && std::in_range<T>(small);
  T result = fits ? static_cast<T>(small) : T{0};
  if constexpr (std::is_unsigned_v<T> && sizeof(T) == sizeof(unsigned long long)) {
    if (overflow > 0) {
      result = PyLong_AsUnsignedLongLong(value.ptr());
      fits = PyErr_Occurred() == nullptr;
      PyErr_Clear();
    }
  }
  if (!fits || result < low || result > high)
    refuse_integer(value, what, nb::cast(low), nb::cast(high));
  return result;
}

/// An argument that is an integer of any size. Which of them will do is told inside the bound
/// function, where the error can be a sentence.
struct Integer {
  nb::object number;

  template <typename T>
  T get(std::string_view what, T low = std::numeric_limits<T>::min(),
        T high = std::numeric_limits<T>::max()) const {
    return checked_integer<T>(number, what, low, high);
  }
};

/// Any object, None included, which plain handles refuse.
struct Any : nb::handle {
  using nb::handle::handle;
  Any(nb::handle h) : nb::handle(h) {}  // NOLINT
};

/// Caster of a struct that holds a handle as `object`: takes anything, since conversions that
/// explain themselves must run inside the bound function.
#define KILN_ANY_OBJECT_CASTER(Type, text)                           \
  template <>                                                        \
  struct type_caster<Type> {                                         \
    NB_TYPE_CASTER(Type, const_name(text))                           \
    bool from_python(handle src, uint32_t, cleanup_list*) noexcept { \
      value.object = src;                                            \
      return true;                                                   \
    }                                                                \
  };

}  // namespace kiln::python

namespace nanobind::detail {

template <>
struct type_caster<kiln::python::Any> {
  NB_TYPE_CASTER(kiln::python::Any, const_name("object"))
  bool from_python(handle src, uint32_t, cleanup_list*) noexcept {
    value = src;
    return true;
  }
};
template <>
struct has_arg_defaults<kiln::python::Any> : std::true_type {};

template <>
struct type_caster<kiln::python::Integer> {
  NB_TYPE_CASTER(kiln::python::Integer, const_name("int"))
  bool from_python(handle src, uint32_t, cleanup_list*) noexcept {
    value.number = kiln::python::integer_of(src);
    return value.number.is_valid();
  }
};

template <>
struct type_caster<kiln::DType> {
  using Value = kiln::DType;
  static constexpr auto Name = const_name("kiln._core.dtype.DType");
  template <typename T_>
  using Cast = movable_cast_t<T_>;
  template <typename T_>
  static constexpr bool can_cast() {
    return true;
  }
  bool from_python(handle src, uint32_t, cleanup_list*) noexcept {
    if (!kiln::python::is_dtype(src)) return false;
    value = inst_ptr<kiln::python::DTypeObject>(src)->dtype;
    return true;
  }
  static handle from_cpp(kiln::DType src, rv_policy, cleanup_list*) noexcept {
    return handle(kiln::python::dtype_object(src)).inc_ref();
  }
  explicit operator Value*() { return &value; }
  explicit operator Value&() { return value; }
  explicit operator Value&&() { return (Value&&)value; }
  Value value = kiln::DType::bool_;
};

}  // namespace nanobind::detail
