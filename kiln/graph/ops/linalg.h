#pragma once

#include "kiln/graph/value.h"

namespace kiln::graph::ops {

/// Products of the matrices in the last two axes; the others broadcast. A rank-1 lhs is a row, a
/// rank-1 rhs a column, and the added axis is removed.
TensorValue matmul(const TensorValueLike& lhs, const TensorValueLike& rhs);
/// All products of two vectors.
TensorValue outer(const TensorValueLike& lhs, const TensorValueLike& rhs);

}  // namespace kiln::graph::ops
