#pragma once

#include "kiln/runtime/compiler_interface.h"

namespace kiln::compiler {

/// What runtime::Compiler::compile_kernel does.
runtime::CompiledKernel compile_kernel(const runtime::KernelSource& source);

}  // namespace kiln::compiler
