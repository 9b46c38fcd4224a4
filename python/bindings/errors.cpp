#include <nanobind/stl/string.h>

#include "bindings.h"
#include "kiln/support/error.h"

namespace kiln::python {
namespace {

PyObject* internal_error = nullptr;  // leaked: used until the process ends

// Derived classes come before their bases.
void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const ValueError& e) {
    PyErr_SetString(PyExc_ValueError, e.what());
  } catch (const TypeError& e) {
    PyErr_SetString(PyExc_TypeError, e.what());
  } catch (const IndexError& e) {
    PyErr_SetString(PyExc_IndexError, e.what());
  } catch (const KeyError& e) {
    PyErr_SetString(PyExc_KeyError, e.what());
  } catch (const LookupError& e) {
    PyErr_SetString(PyExc_LookupError, e.what());
  } catch (const BufferError& e) {
    PyErr_SetString(PyExc_BufferError, e.what());
  } catch (const FileNotFoundError& e) {
    PyErr_SetString(PyExc_FileNotFoundError, e.what());
  } catch (const ZeroDivisionError& e) {
    PyErr_SetString(PyExc_ZeroDivisionError, e.what());
  } catch (const NotImplementedError& e) {
    PyErr_SetString(PyExc_NotImplementedError, e.what());
  } catch (const InternalError& e) {
    PyErr_SetString(internal_error, e.what());
  } catch (const Error& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
}

}  // namespace

PyObject* add_exception(nb::module_& scope, const char* name, PyObject* base, const char* doc) {
  const std::string full_name = nb::cast<std::string>(scope.attr("__name__")) + "." + name;
  PyObject* type = PyErr_NewExceptionWithDoc(full_name.c_str(), doc, base, nullptr);
  if (!type) throw nb::python_error();
  scope.attr(name) = nb::borrow(type);
  return type;
}

PyObject* raise_current_exception() {
  static PyObject* rethrow = nullptr;
  static thread_local std::exception_ptr pending;
  pending = std::current_exception();
  if (!rethrow)
    rethrow = nb::cpp_function([] { std::rethrow_exception(std::exchange(pending, nullptr)); })
                  .release()
                  .ptr();
  return PyObject_CallNoArgs(rethrow);
}

void bind_errors(nb::module_& core) {
  internal_error = add_exception(core, "InternalError", PyExc_RuntimeError,
                                 "A broken invariant of kiln itself; please report it.");
  nb::register_exception_translator(translate);
}

}  // namespace kiln::python
