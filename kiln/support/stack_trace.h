#pragma once

#include <string>

namespace kiln {

/// The native frames of the calling thread, innermost first, one a line as "  function in library",
/// without the `skip` innermost ones of the caller.
std::string stack_trace(int skip = 0);

/// Whether SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT write the native frames of their thread to
/// standard error before what they did otherwise happens.
void trace_crashes(bool on);

}  // namespace kiln
