#pragma once

// What ops do to placements: one rule for each kind of op, along one axis of a mesh. Internal to
// kiln/experimental.

#include <optional>
#include <span>
#include <vector>

#include "kiln/experimental/placement.h"
#include "kiln/graph/ir.h"

namespace kiln::experimental {

/// What the results of an op hold along a mesh axis when its operands hold these and each device
/// applies the op to its own parts alone. None: that gives no placement of the whole result. Copies
/// give copies for any op. Reshapes that regroup a split axis need parts of equal size, for which
/// `devices`, the number of devices of the mesh, must divide it.
std::optional<std::vector<Placement>> result_placements(const graph::ir::Op& op,
                                                        std::span<const Placement> operands,
                                                        int devices);

}  // namespace kiln::experimental
