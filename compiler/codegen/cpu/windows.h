#pragma once

#include "compiler/codegen/expression.h"

namespace kiln::compiler {

/// The taps of a window that lie inside the input, at one position of the result.
struct Taps {
  llvm::Value* first;   // tap
  llvm::Value* count;   // of taps, never negative
  llvm::Value* offset;  // of the input that the first one reads, in elements
};
Taps taps_at(FunctionBuilder& f, const KernelArguments& arguments, const Window& window,
             llvm::Value* position);

/// The input that the first tap would read at a position, be it inside or not.
llvm::Value* start_of_window(FunctionBuilder& f, const KernelArguments& arguments,
                             const Window& window, llvm::Value* position);

/// Kernels of kind `windows` on the CPU.
void emit_windows(FunctionBuilder& f, const Kernel& kernel, const Program& program);
KernelLaunch launch_of_windows(const Kernel& kernel, const Program& program, const Isa& isa);

}  // namespace kiln::compiler
