#pragma once

#include "compiler/codegen/kernel_code.h"

namespace kiln::compiler {

/// Kernels of kind `matmul`, `attention` and `pack` on the CPU.
void emit_attention(FunctionBuilder& f, const Kernel& kernel, const Program& program);
void emit_matmul(FunctionBuilder& f, const Kernel& kernel, const Program& program);
void emit_packing(FunctionBuilder& f, const Kernel& kernel, const Program& program);
KernelLaunch launch_of_product(const Kernel& kernel, const Program& program, const Isa& isa);

}  // namespace kiln::compiler
