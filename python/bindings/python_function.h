#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <memory>
#include <string>

#include "kiln/support/timeline.h"

namespace nb = nanobind;

namespace kiln::python {

/// An exception that left a Python function which ran on another thread. Unlike nb::python_error it
/// may be thrown again and again, as every queue that waits for the failed work does.
class FunctionError : public ForeignError {
 public:
  explicit FunctionError(nb::python_error& error);
  const char* what() const noexcept override { return text_.c_str(); }
  /// One whose exception was raised nowhere and so holds no frames; takes the GIL.
  std::exception_ptr lighter() const override;
  /// Raises the Python exception again; needs the GIL.
  void restore() const;

 private:
  FunctionError(std::shared_ptr<PyObject> exception, std::string text)
      : exception_(std::move(exception)), text_(std::move(text)), is_pattern_(true) {}

  std::shared_ptr<PyObject> exception_;
  std::shared_ptr<PyObject> traceback_;  // as the function left it; may be null
  std::string text_;
  bool is_pattern_ = false;  // a copy is raised each time
};

/// `function` as C++ code that other threads may run, copy and drop: it takes the GIL itself. What
/// it raises becomes FunctionError. Once the interpreter ends, calls do nothing.
std::function<void()> callback_of(nb::callable function);

/// A reference that may be dropped on any thread.
std::shared_ptr<PyObject> share(nb::handle object);

/// Drops functions that have not started when the interpreter ends, after up to two seconds for
/// those that run.
void bind_callbacks(nb::module_& core);

}  // namespace kiln::python
