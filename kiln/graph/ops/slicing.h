#pragma once

// Indices of slice_tensor and buffer_store_slice, resolved against a shape. Internal.

#include <vector>

#include "kiln/graph/ir.h"
#include "kiln/graph/slice_index.h"

namespace kiln::graph::ops {

struct ResolvedSlice {
  ir::Attributes attributes;   // of the slice op
  std::vector<Value> tensors;  // its run-time bounds, in the order the op wants
  std::vector<int> dropped;    // axes picked by an integer, ascending
  std::vector<int> new_axes;   // positions of new axes in the final result, ascending
  Shape out_shape;             // of the slice op, with the dropped axes
  bool whole = false;          // nothing is cut
};

/// Checks and texts: as `slice_tensor`.
ResolvedSlice resolve_slice(const Shape& shape, const std::vector<SliceIndex>& indices);

}  // namespace kiln::graph::ops
