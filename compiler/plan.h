#pragma once

// What a compile decided, as JSON for tools: nothing that runs reads it.

#include <nlohmann/json.hpp>
#include <string>

#include "compiler/codegen/host.h"
#include "compiler/codegen/memory_plan.h"
#include "compiler/kernels/program.h"

namespace kiln::compiler {

/// The kernels of a graph in the order in which they run, those of init first; `run_symbol` is the
/// host function, which is listed when it alone runs some op. The kernels of a run are numbered.
nlohmann::json describe_kernels(const Program& program, const KernelSymbols& symbols,
                                const std::string& run_symbol);

/// Where the values of a graph lie that are neither inputs nor results: the pieces of the one block
/// that a call works in, and what init prepares. Sizes are bytes, as formulas of the graph's
/// symbols.
nlohmann::json describe_memory(const Program& program, const MemoryPlan& plan, const Isa& isa);

}  // namespace kiln::compiler
