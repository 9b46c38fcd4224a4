#pragma once

// The interpreter's lock, as calls that wait take and give it.

#include <nanobind/nanobind.h>

#include <cstdint>

namespace kiln::python {

/// Calls of programs on fewer elements keep the lock: to give it away would cost them more than
/// their work.
constexpr std::int64_t kSmallCall = 16384;

/// Gives the lock away while it lives. A thread that wants it back when the interpreter has ended
/// sleeps until the process is gone: Python would unwind it through code that cannot be unwound.
class ReleaseGil {
 public:
  ReleaseGil() : state_(PyEval_SaveThread()) {}
  ReleaseGil(const ReleaseGil&) = delete;
  ReleaseGil& operator=(const ReleaseGil&) = delete;
  ~ReleaseGil();

 private:
  PyThreadState* state_;
};

}  // namespace kiln::python
