#pragma once

#include <string>
#include <string_view>

#include "kiln/engine/compiled_model.h"

namespace kiln::engine {

/// What an artifact holds, as JSON: signatures, weights, targets, sections, whether it fits this
/// machine, and the compiler's plan of kernels and memory.
std::string describe(const CompiledModel& compiled);

/// An HTML page that shows it: the ops, the kernels that they became, with shapes, bytes and flops,
/// and the memory plan over time. It needs nothing but itself. `name` is what the page is about.
std::string explain(const CompiledModel& compiled, std::string_view name);

}  // namespace kiln::engine
