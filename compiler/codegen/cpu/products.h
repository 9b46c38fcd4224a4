#pragma once

#include "compiler/codegen/cpu/matmul.h"
#include "compiler/codegen/expression.h"

namespace kiln::compiler {

/// Kernels of kind `matmul`, `attention` and `pack` on the CPU.
void emit_attention(FunctionBuilder& f, const Kernel& kernel, const Program& program);
void emit_matmul(FunctionBuilder& f, const Kernel& kernel, const Program& program);
/// A matmul with windows.
void emit_convolution(FunctionBuilder& f, const Kernel& kernel, const Program& program);
void emit_packing(FunctionBuilder& f, const Kernel& kernel, const Program& program);

/// The memory of element `index` of a tensor.
llvm::Value* address(ExpressionEmitter& e, const Program& program, int tensor, const Index& index);

/// Stores what the kernel makes of a finished part of a row, on its last two axes.
Epilogue epilogue_of(ExpressionEmitter& e, const Kernel& kernel);

/// What the product behind this one reads, when it is known.
std::optional<MatmulOperands::Next> next_product(FunctionBuilder& f,
                                                 const KernelArguments& arguments);

/// Runs `body` for each matrix that the units of this call touch, with its part of them; matrices
/// differ in the first `batch_axes` axes and have `units` units each.
void for_each_matrix(
    ExpressionEmitter& e, const Kernel& kernel, std::size_t batch_axes, llvm::Value* units,
    const std::function<void(llvm::Value* unit_begin, llvm::Value* unit_end)>& body);

KernelLaunch launch_of_convolution(const Kernel& kernel, const Isa& isa);
KernelLaunch launch_of_product(const Kernel& kernel, const Program& program, const Isa& isa);

}  // namespace kiln::compiler
