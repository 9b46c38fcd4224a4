#pragma once

#include <llvm/IR/PassManager.h>

namespace kiln::compiler {

/// Appends the passes that put the checks of the sanitizer this library is built with into every
/// function of a module; nothing in a plain build. They come last, so that what is checked is what
/// runs.
void add_instrumentation(llvm::ModulePassManager& pipeline);

}  // namespace kiln::compiler
