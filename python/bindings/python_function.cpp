#include "python_function.h"

#include <cxxabi.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>

#include "gil.h"
#include "kiln/support/background.h"
#include "kiln/support/error.h"
#include "kiln/support/process.h"
#include "kiln/support/warning.h"

namespace kiln::python {
namespace {

std::atomic<bool> interpreter_ends = false;
std::thread::id ending_thread;  // set before interpreter_ends
std::atomic<int> running = 0;   // calls into the interpreter from threads of kiln

/// The interpreter ends and stops this thread, which it does by unwinding it. Code that does not
/// expect that would end the process with an abort, so the thread sleeps until the process is gone.
[[noreturn]] void sleep_until_the_end() {
  for (;;) pause();
}

void call(PyObject* function) {
  std::exception_ptr failure;
  ++running;
  if (interpreter_ends.load()) {
    --running;
    return;
  }
  try {
    // No object with a destructor may be on the stack while Python runs: it would be unwound, too.
    const PyGILState_STATE gil = PyGILState_Ensure();
    if (!interpreter_ends.load()) {
      PyObject* result = PyObject_CallNoArgs(function);
      if (result != nullptr) {
        Py_DECREF(result);
      } else {
        nb::python_error error;
        failure = std::make_exception_ptr(FunctionError(error));
      }
    }
    PyGILState_Release(gil);
  } catch (abi::__forced_unwind&) {
    sleep_until_the_end();
  }
  --running;
  if (failure) std::rethrow_exception(failure);
}

/// Drops a reference on any thread. When the interpreter ends, other threads than its own leak it:
/// there is nobody to drop it.
void drop(PyObject* object) {
  ++running;
  if (!interpreter_ends.load() ||
      (std::this_thread::get_id() == ending_thread && Py_IsInitialized())) {
    try {
      const PyGILState_STATE gil = PyGILState_Ensure();
      Py_XDECREF(object);
      PyGILState_Release(gil);
    } catch (abi::__forced_unwind&) {
      sleep_until_the_end();
    }
  }
  --running;
}

void end_of_interpreter() {
  ending_thread = std::this_thread::get_id();
  interpreter_ends = true;
  set_warning_handler(nullptr);    // warnings that come later go to standard error
  if (forked_after_use()) return;  // the threads that it would wait for are the parent's
  ReleaseGil release;
  end_background();
  const auto deadline = end_deadline();
  while (running.load() > 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

ReleaseGil::~ReleaseGil() {
  try {
    PyEval_RestoreThread(state_);
  } catch (abi::__forced_unwind&) {
    sleep_until_the_end();
  }
}

std::shared_ptr<PyObject> share(nb::handle object) {
  Py_XINCREF(object.ptr());
  return {object.ptr(), &drop};
}

FunctionError::FunctionError(nb::python_error& error)
    : exception_(share(error.value())), text_(error.what()) {
  if (nb::object traceback = nb::steal(PyException_GetTraceback(error.value().ptr()));
      traceback.is_valid())
    traceback_ = share(traceback);
}

namespace {

/// The first of Python's own classes that a class is made from.
PyObject* built_in_base(PyObject* mro) {
  for (Py_ssize_t i = 0; mro && i < PyTuple_Size(mro); ++i) {
    PyObject* base = PyTuple_GetItem(mro, i);
    if ((PyType_GetFlags(reinterpret_cast<PyTypeObject*>(base)) & Py_TPFLAGS_HEAPTYPE) == 0)
      return base;
  }
  return nullptr;
}

/// An exception of the same class with the same arguments and attributes; null when its class does
/// not make one. Code of the class's own does not run. Needs the GIL. No object with a destructor
/// is here: see `call`.
PyObject* copy_exception(PyObject* exception) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(exception));
  PyObject* mro = PyObject_GetAttrString(type, "__mro__");
  PyObject* base = built_in_base(mro);
  PyObject* arguments = PyObject_GetAttrString(exception, "args");
  PyObject* make = base ? PyObject_GetAttrString(base, "__new__") : nullptr;
  PyObject* init = base ? PyObject_GetAttrString(base, "__init__") : nullptr;
  PyObject* own = PyTuple_Pack(1, type);
  PyObject* all = arguments && own ? PySequence_Concat(own, arguments) : nullptr;
  PyObject* copy = make && all ? PyObject_Call(make, all, nullptr) : nullptr;
  PyObject* self = copy ? PyTuple_Pack(1, copy) : nullptr;
  PyObject* given = self && arguments ? PySequence_Concat(self, arguments) : nullptr;
  PyObject* done = init && given ? PyObject_Call(init, given, nullptr) : nullptr;
  if (!done) Py_CLEAR(copy);
  PyObject* from = PyObject_GetAttrString(exception, "__dict__");
  PyObject* to = copy ? PyObject_GetAttrString(copy, "__dict__") : nullptr;
  if (from && to && PyDict_Check(to)) PyDict_Update(to, from);
  for (PyObject* object : {mro, arguments, make, init, own, all, self, given, done, from, to})
    Py_XDECREF(object);
  PyErr_Clear();
  return copy;
}

}  // namespace

std::exception_ptr FunctionError::lighter() const {
  if (is_pattern_) return std::make_exception_ptr(*this);
  PyObject* copy = nullptr;
  ++running;
  if (!interpreter_ends.load()) {
    try {
      const PyGILState_STATE gil = PyGILState_Ensure();
      copy = copy_exception(exception_.get());
      PyGILState_Release(gil);
    } catch (abi::__forced_unwind&) {
      sleep_until_the_end();
    }
  }
  --running;
  if (!copy) return std::make_exception_ptr(RuntimeError(text_));
  return std::make_exception_ptr(FunctionError({copy, &drop}, text_));
}

void FunctionError::restore() const {
  if (is_pattern_) {
    if (PyObject* copy = copy_exception(exception_.get())) {
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(copy)), copy);
      Py_DECREF(copy);
    } else {
      PyErr_SetString(PyExc_RuntimeError, text_.c_str());
    }
    return;
  }
  // Python appends the frames that it leaves, so each time the exception starts as it was first.
  PyException_SetTraceback(exception_.get(), traceback_ ? traceback_.get() : Py_None);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception_.get())), exception_.get());
}

std::function<void()> callback_of(nb::callable function) {
  return [shared = share(function)] { call(shared.get()); };
}

void bind_callbacks(nb::module_& core) {
  core.def("_end_of_interpreter", &end_of_interpreter);
  nb::module_::import_("atexit").attr("register")(core.attr("_end_of_interpreter"));
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const FunctionError& error) {
      error.restore();
    }
  });
}

}  // namespace kiln::python
