#include "kiln/dtype/dtype.h"

#include <array>
#include <optional>
#include <string>

#include "bindings.h"
#include "casters.h"
#include "kiln/dtype/finfo.h"
#include "kiln/support/error.h"

namespace kiln::python {
namespace {

constexpr std::array kMembers = {
    DType::bool_,           DType::int8,           DType::int16,
    DType::int32,           DType::int64,          DType::uint8,
    DType::uint16,          DType::uint32,         DType::uint64,
    DType::float16,         DType::bfloat16,       DType::float32,
    DType::float64,         DType::float8_e8m0fnu, DType::float8_e4m3fn,
    DType::float8_e4m3fnuz, DType::float8_e5m2,    DType::float8_e5m2fnuz,
    DType::float4_e2m1fn};

// One reference each for the life of the process: attributes of the class may be replaced.
std::array<PyObject*, 256> members = {};
PyObject* dtype_class = nullptr;

bool has_numpy_type(DType d) {
  return d != DType::bfloat16 && !d.is_float8() && d != DType::float4_e2m1fn;
}

std::optional<DType> find_member(std::string_view name) {
  for (DType d : kMembers)
    if (d.name() == name) return d;
  return std::nullopt;
}

nb::object to_ml_dtypes(DType d) {
  if (has_numpy_type(d)) return dtype_to_numpy(d);
  nb::object module;
  try {
    module = nb::module_::import_("ml_dtypes");
  } catch (nb::python_error& e) {
    if (!e.matches(PyExc_ImportError)) throw;
    throw ValueError(d.to_string() +
                     " has no NumPy type of its own and the package ml_dtypes is "
                     "not installed.");
  }
  nb::object scalar = nb::getattr(module, std::string(d.name()).c_str(), nb::none());
  if (scalar.is_none())
    throw ValueError("The installed ml_dtypes has no type for " + d.to_string() + ".");
  return nb::module_::import_("numpy").attr("dtype")(scalar);
}

nb::object to_torch(DType d) {
  nb::object torch;
  try {
    torch = nb::module_::import_("torch");
  } catch (nb::python_error& e) {
    if (!e.matches(PyExc_ImportError)) throw;
    throw ValueError(d.to_string() +
                     " cannot be converted to a torch dtype: the package torch is not installed.");
  }
  nb::object found = nb::getattr(torch, std::string(d.name()).c_str(), nb::none());
  if (found.is_none()) throw ValueError("unsupported DType to convert to torch: " + d.to_string());
  return found;
}

DType from_torch(nb::handle dtype) {
  std::string name = str_of(dtype);
  if (name.starts_with("torch."))
    if (auto d = find_member(std::string_view(name).substr(6))) return *d;
  throw ValueError("unsupported torch dtype: " + name);
}

void bind_finfo(nb::module_& m) {
  nb::class_<FloatInfo>(m, "finfo", R"(
The numeric limits of a floating-point type.

>>> from kiln.dtype import DType, finfo
>>> finfo(DType.float32).bits, finfo(DType.float8_e4m3fn).max
(32, 448.0))")
      .def(
          "__init__", [](FloatInfo* self, DType dtype) { new (self) FloatInfo(finfo(dtype)); },
          nb::arg("dtype"))
      .def_ro("dtype", &FloatInfo::dtype, "The type.")
      .def_ro("bits", &FloatInfo::bits, "Its bits.")
      .def_ro("eps", &FloatInfo::eps, "The gap between 1 and the next value.")
      .def_ro("max", &FloatInfo::max, "The largest finite value.")
      .def_ro("min", &FloatInfo::min, "The smallest finite value.")
      .def_ro("tiny", &FloatInfo::tiny, "The smallest positive normal value.")
      .def_ro("smallest_normal", &FloatInfo::smallest_normal, "As `tiny`.")
      .def("__repr__", &FloatInfo::to_string);
}

}  // namespace

std::string path_of(nb::handle object) {
  if (!PyUnicode_Check(object.ptr()) && !PyBytes_Check(object.ptr()) &&
      !nb::hasattr(object, "__fspath__"))
    throw TypeError("A path is a str, bytes or an os.PathLike object, not " + repr_of(object) +
                    " of " + type_text(object) + ".");
  nb::object bytes = nb::module_::import_("os").attr("fsencode")(object);
  return {PyBytes_AsString(bytes.ptr()), static_cast<std::size_t>(PyBytes_Size(bytes.ptr()))};
}

nb::object integer_of(nb::handle object) {
  nb::object number;
  if (PyIndex_Check(object.ptr())) {
    number = nb::steal(PyNumber_Index(object.ptr()));
    if (!number.is_valid()) PyErr_Clear();  // an array
  }
  return number;
}

void refuse_integer(nb::handle value, std::string_view what, nb::object low, nb::object high) {
  throw ValueError(std::string(what) + " is " + str_of(value) + ", but must be between " +
                   str_of(low) + " and " + str_of(high) + ".");
}

namespace {

/// The text as UTF-8; a lone surrogate, which UTF-8 has no bytes for, is escaped.
std::string utf8_of(nb::handle text) {
  Py_ssize_t size = 0;
  if (const char* chars = PyUnicode_AsUTF8AndSize(text.ptr(), &size))
    return {chars, static_cast<std::size_t>(size)};
  PyErr_Clear();
  nb::object bytes = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  if (!bytes.is_valid()) throw nb::python_error();
  return {PyBytes_AsString(bytes.ptr()), static_cast<std::size_t>(PyBytes_Size(bytes.ptr()))};
}

}  // namespace

std::string str_of(nb::handle object) { return utf8_of(nb::str(object)); }
std::string repr_of(nb::handle object) { return utf8_of(nb::repr(object)); }
std::string type_text(nb::handle object) { return repr_of(object.type()); }

PyObject* dtype_object(DType dtype) { return members[dtype.code()]; }

bool is_dtype(nb::handle object) {
  return reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())) == dtype_class &&
         nb::inst_ready(object);
}

nb::object dtype_to_numpy(DType d) {
  std::string name(d.name());
  if (d.is_float8())
    name = "uint8";
  else if (!has_numpy_type(d))
    throw ValueError("unsupported DType to convert to NumPy: " + d.to_string());
  return nb::module_::import_("numpy").attr("dtype")(name);
}

DType dtype_from_numpy(nb::handle dtype) {
  nb::module_ numpy = nb::module_::import_("numpy");
  nb::object d = nb::borrow(dtype);
  if (!nb::isinstance(d, numpy.attr("dtype"))) {
    const bool is_scalar_type =
        PyType_Check(d.ptr()) &&
        PyObject_IsSubclass(d.ptr(), nb::object(numpy.attr("generic")).ptr()) == 1;
    if (!is_scalar_type)
      throw ValueError("unsupported NumPy dtype: " + repr_of(dtype) + " of " + type_text(dtype) +
                       "; expected a numpy.dtype or a NumPy scalar type such as numpy.float32.");
    try {
      d = numpy.attr("dtype")(d);
    } catch (nb::python_error&) {  // an abstract type, such as numpy.floating
      throw ValueError("unsupported NumPy dtype: " + repr_of(dtype) +
                       "; it stands for several types.");
    }
  }
  if (nb::cast<bool>(d.attr("isnative")))
    if (auto found = find_member(nb::cast<std::string>(d.attr("name")))) return *found;
  throw ValueError("unsupported NumPy dtype: " + str_of(d));
}

void bind_dtype(nb::module_& core) {
  nb::module_ m = core.def_submodule("dtype", "Element types.");
  nb::class_<DTypeObject> cls(m, "DType", nb::is_final(), nb::is_weak_referenceable(), R"(
The type of one tensor element.

>>> from kiln.dtype import DType
>>> DType.float32.size_in_bytes, DType("bf16") is DType.bfloat16, DType(81)
(4, True, float32))");
  dtype_class = cls.ptr();
  bind_finfo(m);
  const auto define = [&](DType d) {
    nb::object member = nb::cast(DTypeObject{d});
    cls.attr(std::string(d.name()).c_str()) = member;
    members[d.code()] = member.inc_ref().ptr();
  };
  for (DType d : kMembers) define(d);

  cls.def(nb::new_([](DTypeObject& d) { return nb::borrow(dtype_object(d.dtype)); }),
          nb::arg("dtype"))
      .def(nb::new_([](const Integer& code) {
             return nb::borrow(dtype_object(
                 DType::from_code(code.get("DType: the code of an element type", 0, 255))));
           }),
           nb::arg("code"))
      .def(nb::new_([](std::string_view name) {
             return nb::borrow(dtype_object(DType::from_name(name)));
           }),
           nb::arg("name"));

  const auto property = [&](const char* name, auto getter, const char* doc) {
    cls.def_prop_ro(name, [getter](const DTypeObject& d) { return getter(d.dtype); }, doc);
  };
  property("name", [](DType d) { return d.name(); }, "The member's name, such as 'float32'.");
  property(
      "text_name", [](DType d) { return d.text_name(); },
      "The name in IR text and files, such as 'f32'.");
  property("code", [](DType d) { return int(d.code()); }, "The number stored in files.");
  property("size_in_bits", [](DType d) { return d.size_in_bits(); }, "Bits of one element.");
  property(
      "size_in_bytes", [](DType d) { return d.size_in_bytes(); },
      "Bits rounded up to whole bytes.");
  property("align", [](DType d) { return d.align(); }, "Alignment of one element in bytes.");

  const auto method = [&](const char* name, auto function, const char* doc) {
    cls.def(name, [function](const DTypeObject& d) { return function(d.dtype); }, doc);
  };
  method(
      "is_integral", [](DType d) { return d.is_integral(); },
      "Whether this is one of the eight integer members; bool is not.");
  method(
      "is_signed_integral", [](DType d) { return d.is_signed_integral(); },
      "Whether this is a signed integer.");
  method(
      "is_unsigned_integral", [](DType d) { return d.is_unsigned_integral(); },
      "Whether this is an unsigned integer.");
  method(
      "is_float", [](DType d) { return d.is_float(); },
      "Whether this is one of the ten floating members.");
  method("is_float8", [](DType d) { return d.is_float8(); }, "Whether this is a float8 type.");
  method("is_half", [](DType d) { return d.is_half(); }, "Whether this is float16 or bfloat16.");
  method("to_numpy", [](DType d) { return dtype_to_numpy(d); }, R"(
The NumPy dtype of the same elements; float8 types give uint8. ValueError where there is none.

>>> from kiln.dtype import DType
>>> DType.float32.to_numpy()
dtype('float32'))");
  method("to_ml_dtypes", to_ml_dtypes,
         "The dtype of package ml_dtypes for bfloat16, float8 and float4, else as to_numpy.");
  method(
      "finfo", [](DType d) { return finfo(d); },
      "The limits of a float type; TypeError for others.");
  method("to_torch", to_torch, "The torch dtype of the same name.");
  cls.def("__str__", [](const DTypeObject& d) { return d.dtype.to_string(); });
  cls.def("__repr__", [](const DTypeObject& d) { return d.dtype.name(); });
  cls.def("__hash__", [](const DTypeObject& d) { return Py_hash_t(d.dtype.code()); });
  cls.def("__reduce__", [](nb::handle_t<DTypeObject> self) {
    const int code = nb::inst_ptr<DTypeObject>(self)->dtype.code();
    return nb::make_tuple(self.type(), nb::make_tuple(code));
  });

  cls.def_static(
      "from_numpy", [](Any dtype) { return dtype_from_numpy(dtype); }, nb::arg("dtype"), R"(
The member for a NumPy dtype or scalar type, those of ml_dtypes included.

>>> import numpy as np
>>> from kiln.dtype import DType
>>> DType.from_numpy(np.dtype("int16")), DType.from_numpy(np.float64)
(int16, float64))");
  cls.def_static("from_torch", &from_torch, nb::arg("dtype"), "The member for a torch dtype.");
}

}  // namespace kiln::python
