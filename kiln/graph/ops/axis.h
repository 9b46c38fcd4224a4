#pragma once

// Rules for axes shared by ops. Internal to kiln/graph/ops.

#include <cstdint>

namespace kiln::graph::ops {

/// Counted from the start. Out of range: ValueError "Invalid axis={a} for input x.rank={r}".
std::int64_t checked_axis(int axis, int rank);

}  // namespace kiln::graph::ops
