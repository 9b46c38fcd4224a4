#pragma once

#include <functional>
#include <memory>

#include "kiln/graph/ir.h"
#include "kiln/runtime/artifact.h"
#include "kiln/runtime/compiler_interface.h"

namespace kiln::engine {

/// The artifact of a module: from the cache, else from the compiler, which then fills the cache.
/// The debug settings and the virtual CPU target of the process apply. Failures: RuntimeError.
std::shared_ptr<const runtime::Artifact> compile_module(
    const graph::ir::Module& module, int num_threads,
    const std::function<bool(const runtime::CompileProgress&)>& progress);

}  // namespace kiln::engine
