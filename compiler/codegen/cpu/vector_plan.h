#pragma once

#include "compiler/codegen/function_builder.h"
#include "compiler/kernels/program.h"

namespace kiln::compiler {

/// How the innermost axis of a kernel is walked.
struct VectorPlan {
  int axis = -1;
  int lanes = 1;             // elements a step
  bool masked_tail = false;  // the rest in one step under a mask, else one by one
};

VectorPlan plan_vectors(const Kernel& kernel, const Program& program, const Isa& isa, int axis);

/// The mask of the lanes below `count` (an i64 value).
llvm::Value* lane_mask(FunctionBuilder& f, int lanes, llvm::Value* count);

}  // namespace kiln::compiler
