#include "python_function.h"

#include <cxxabi.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "kiln/engine/background.h"
#include "kiln/support/warning.h"

namespace kiln::python {
namespace {

std::atomic<bool> interpreter_ends = false;
std::atomic<int> running = 0;

void call(PyObject* function) {
  if (interpreter_ends.load()) return;
  ++running;
  struct Done {
    ~Done() { --running; }
  } done;
  try {
    nb::gil_scoped_acquire gil;
    if (!gil || interpreter_ends.load()) return;
    try {
      nb::borrow<nb::callable>(function)();
    } catch (nb::python_error& error) {
      throw FunctionError(error);
    }
  } catch (abi::__forced_unwind&) {
    // The interpreter ends and stops this thread. Unwinding on through code that does not expect
    // it would end the process with an abort, so the thread sleeps until the process is gone.
    for (;;) pause();
  }
}

void end_of_interpreter() {
  interpreter_ends = true;
  set_warning_handler(nullptr);  // warnings that come later go to standard error
  nb::gil_scoped_release release;
  engine::end_background();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (running.load() > 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

std::shared_ptr<PyObject> share(nb::handle object) {
  Py_XINCREF(object.ptr());
  return {object.ptr(), [](PyObject* p) {
            // At the end of the process the reference is leaked: there is nobody to drop it.
            if (interpreter_ends.load() && !PyGILState_Check()) return;
            if (nb::detail::cleanup_guard guard{}) Py_XDECREF(p);
          }};
}

FunctionError::FunctionError(nb::python_error& error)
    : exception_(share(error.value())), text_(error.what()) {}

void FunctionError::restore() const {
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
