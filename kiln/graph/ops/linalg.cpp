#include "kiln/graph/ops/linalg.h"

#include "kiln/graph/graph_state.h"
#include "kiln/graph/infer.h"
#include "kiln/graph/ops/elementwise.h"
#include "kiln/graph/ops/shape.h"
#include "kiln/graph/promotion.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph::ops {

TensorValue matmul(const TensorValueLike& lhs, const TensorValueLike& rhs) {
  LocationScope at(lhs.is_weak() ? rhs.location() : lhs.location());
  auto [x, y] = promote(lhs, rhs);
  if (x.rank() == 0 || y.rank() == 0)
    throw ValueError(format("matmul takes tensors of rank at least 1, got shapes {} and {}.",
                            x.shape().repr(), y.shape().repr()));
  const bool row = x.rank() == 1, column = y.rank() == 1;
  if (row) x = unsqueeze(x, 0);
  if (column) y = unsqueeze(y, 1);
  TensorValue z = graph::detail::add_tensor_op(OpKind::matmul, {x, y});
  if (column) z = squeeze(z, -1);
  if (row) z = squeeze(z, column ? -1 : -2);
  return z;
}

TensorValue outer(const TensorValueLike& lhs, const TensorValueLike& rhs) {
  LocationScope at(lhs.is_weak() ? rhs.location() : lhs.location());
  auto [x, y] = promote(lhs, rhs);
  if (x.rank() != 1 || y.rank() != 1) throw ValueError("outer expected 1d-tensors as inputs");
  check_dtype("outer", DTypeFamily::arithmetic, x.dtype());
  return mul(unsqueeze(x, 1), unsqueeze(y, 0));
}

}  // namespace kiln::graph::ops
