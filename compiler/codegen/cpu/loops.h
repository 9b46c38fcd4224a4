#pragma once

#include "compiler/codegen/kernel_code.h"

namespace kiln::compiler {

/// The bodies of kernels of kind `loops` and `rows`, for every device that runs them as loop nests.
void emit_loops(FunctionBuilder& f, const Kernel& kernel, const Program& program);
void emit_rows(FunctionBuilder& f, const Kernel& kernel, const Program& program);

/// Whether a row kernel keeps intermediate rows in memory, and how many bytes for an element.
std::int64_t row_scratch_bytes_per_element(const Kernel& kernel);

/// Rough cost of the elements of a kernel, in vector instructions each.
double cost_per_element(const Kernel& kernel);

}  // namespace kiln::compiler
