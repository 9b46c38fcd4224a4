#include "compiler/kernel_source/kernel_source.h"

#include "kiln/support/error.h"

namespace kiln::compiler {

runtime::CompiledKernel compile_kernel(const runtime::KernelSource&) {
  throw NotImplementedError("Kernel sources cannot be compiled yet.");
}

}  // namespace kiln::compiler
