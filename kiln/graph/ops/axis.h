#pragma once

// Rules for axes shared by ops. Internal to kiln/graph/ops.

#include <cstdint>

namespace kiln::graph::ops {

/// Counted from the start when it is in range. Others stay as they are, for the op to refuse with
/// its name and operands.
inline std::int64_t normalized_axis(int axis, int rank) {
  return axis < 0 && axis >= -rank ? axis + rank : axis;
}

}  // namespace kiln::graph::ops
