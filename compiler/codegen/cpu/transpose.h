#pragma once

#include <optional>

#include "compiler/codegen/kernel_code.h"

namespace kiln::compiler {

/// Of a kernel of kind `loops` that copies a tensor and stores along its last axis: the number of
/// the axis along which it reads, when that is another one. Such a copy goes in squares.
std::optional<std::size_t> transposed_axis(const Kernel& kernel, const Program& program);

/// Emits and launches such a kernel.
void emit_transposed(FunctionBuilder& f, const Kernel& kernel, const Program& program,
                     std::size_t axis);
KernelLaunch launch_of_transposed(const Kernel& kernel, std::size_t axis);

}  // namespace kiln::compiler
