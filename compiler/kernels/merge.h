#pragma once

#include "compiler/kernels/program.h"

namespace kiln::compiler {

/// Puts kernels together that run over the same points: producers into the loops of their consumers
/// (or as the epilogue of a matrix product), so that what passes between them stays in registers.
/// Then drops tensors and kernels that nobody reads.
void merge_kernels(Program& program);

/// Joins neighbouring axes of a kernel where every access walks them as one.
void collapse_axes(Kernel& kernel, const Program& program);

}  // namespace kiln::compiler
