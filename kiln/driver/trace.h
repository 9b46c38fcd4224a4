#pragma once

#include "kiln/support/trace.h"

namespace kiln::driver {

// The recorder records what runs on every device: one track a queue and one a calling thread.
using kiln::start_trace;
using kiln::stop_trace;
using kiln::Trace;

}  // namespace kiln::driver
