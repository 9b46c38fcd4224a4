#pragma once

#include <string>
#include <vector>

#include "compiler/kernels/program.h"

namespace kiln::compiler {

/// Which tensors share memory. Temporaries whose lives do not overlap share a slot; the result of a
/// kernel takes over the slot of an operand that dies there when every access to both is to the
/// same element.
struct MemoryPlan {
  struct Slot {
    std::vector<int> tensors;
  };
  std::vector<Slot> slots;
  std::vector<int> slot_of;      // by tensor, -1 for what is no temporary
  std::vector<int> in_place_of;  // the operand whose slot a tensor took over, or -1
};

MemoryPlan plan_memory(const Program& program);

}  // namespace kiln::compiler
