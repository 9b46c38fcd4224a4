// Sentences for calls whose arguments fit no signature.
//
// nanobind answers such a call with a list of signatures and C++ types. Every native function is
// reached through the pointer in its object that Python's vectorcall protocol reads, so each gets a
// pointer to a wrapper that passes the call on and rewrites that one error. There are few different
// original pointers: each has a wrapper of its own, and a call costs one jump more and no lookup.

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "bindings.h"
#include "casters.h"
#include "kiln/support/error.h"

namespace kiln::python {
namespace {

/// How nanobind's function objects begin.
struct FunctionObject {
  PyVarObject head;
  vectorcallfunc call;
};

constexpr std::size_t kOriginals = 16;
std::array<vectorcallfunc, kOriginals> originals;
/// Full names below kiln._core; leaked, since functions live as long as the process.
std::unordered_map<PyObject*, std::string>& names() {
  static auto* all = new std::unordered_map<PyObject*, std::string>();
  return *all;
}

/// Whether the current exception says that no signature fits; takes it if so.
bool take_argument_error() {
  const bool mismatch = PyErr_ExceptionMatches(PyExc_TypeError) != 0;
  if (!mismatch && !PyErr_ExceptionMatches(PyExc_RuntimeError)) return false;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  bool taken = false;
  PyObject* text = PyObject_Str(value);
  Py_ssize_t size = 0;
  if (const char* chars = text ? PyUnicode_AsUTF8AndSize(text, &size) : nullptr) {
    const std::string_view message(chars, static_cast<std::size_t>(size));
    // The second is a conversion inside of the function.
    taken = mismatch ? message.find("(): incompatible function arguments. The following") !=
                           std::string_view::npos
                     : message == "std::bad_cast";
  } else {
    PyErr_Clear();
  }
  Py_XDECREF(text);
  if (!taken) {
    PyErr_Restore(type, value, traceback);
    return false;
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return true;
}

/// An object whose class was made without its `__init__` holds nothing; no signature takes it.
void check_ready(const std::string& name, PyObject* const* arguments, std::size_t count) {
  if (name.ends_with(".__init__")) return;
  for (std::size_t i = 0; i < count; ++i)
    if (nb::inst_check(arguments[i]) && !nb::inst_ready(arguments[i]))
      throw TypeError(name + " was given an object of " + type_text(nb::handle(arguments[i])) +
                      " that was made without __init__ and so holds nothing. The __init__ of a "
                      "subclass calls super().__init__ before anything else.");
}

void explain(PyObject* function, PyObject* const* arguments, std::size_t count,
             PyObject* keywords) {
  check_ready(names()[function], arguments, count);
  nb::list positional;
  for (std::size_t i = 0; i < count; ++i) positional.append(nb::handle(arguments[i]));
  nb::dict named;
  for (Py_ssize_t i = 0; keywords && i < PyTuple_Size(keywords); ++i)
    named[nb::handle(PyTuple_GetItem(keywords, i))] =
        nb::handle(arguments[count + static_cast<std::size_t>(i)]);
  nb::object error =
      nb::module_::import_("kiln._arguments")
          .attr("explain")(names()[function], nb::handle(function), positional, named);
  PyErr_SetObject(error.type().ptr(), error.ptr());
}

template <std::size_t I>
PyObject* call(PyObject* function, PyObject* const* arguments, std::size_t flags,
               PyObject* keywords) {
  PyObject* result = originals[I](function, arguments, flags, keywords);
  if (result || !take_argument_error()) [[likely]]
    return result;
  // The highest bits are flags, Python's own and nanobind's.
  constexpr std::size_t kCount = ~std::size_t{0} >> 2;
  try {
    explain(function, arguments, flags & kCount, keywords);
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  }
  return nullptr;
}

template <std::size_t... I>
constexpr std::array<vectorcallfunc, sizeof...(I)> wrappers(std::index_sequence<I...>) {
  return {&call<I>...};
}
constexpr auto kWrappers = wrappers(std::make_index_sequence<kOriginals>());

void wrap(nb::handle function, const std::string& name) {
  if (!function.is_valid() || !nb::hasattr(function, "__nb_signature__")) return;
  if (!names().emplace(function.ptr(), name).second) return;
  auto* object = reinterpret_cast<FunctionObject*>(function.ptr());
  if (PyVectorcall_Function(function.ptr()) != object->call) return;  // another layout
  for (std::size_t i = 0; i < kOriginals; ++i) {
    if (!originals[i]) originals[i] = object->call;
    if (originals[i] != object->call) continue;
    object->call = kWrappers[i];
    return;
  }
}

void wrap_members(nb::handle scope, const std::string& path) {
  for (nb::handle entry : nb::list(nb::object(scope.attr("__dict__").attr("items")()))) {
    nb::object member = entry[1];
    const std::string name = path + nb::cast<std::string>(nb::object(entry[0]));
    if (PyModule_Check(member.ptr()) || PyType_Check(member.ptr())) {
      nb::object home = PyModule_Check(member.ptr()) ? nb::object(member.attr("__name__"))
                                                     : nb::object(member.attr("__module__"));
      if (nb::cast<std::string>(nb::str(home)).starts_with("kiln._core"))
        wrap_members(member, name + ".");
    } else {
      wrap(member, name);
      for (const char* part : {"fget", "fset", "__func__"})
        if (nb::object function = nb::getattr(member, part, nb::object()); function.is_valid())
          wrap(function, name);
    }
  }
}

}  // namespace

void bind_call_errors(nb::module_& core) { wrap_members(core, ""); }

}  // namespace kiln::python
