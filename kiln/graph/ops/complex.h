#pragma once

#include "kiln/graph/value.h"

namespace kiln::graph::ops {

/// `[…, 2n]` as `[…, n, 2]`. A symbolic last dim: TypeError; an odd one: ValueError.
TensorValue as_interleaved_complex(const TensorValueLike& x);
/// The product of tensors whose last axis of size 2 is (real, imaginary); the other axes broadcast.
TensorValue complex_mul(const TensorValueLike& lhs, const TensorValueLike& rhs);

namespace complex {
/// `complex_mul`.
inline TensorValue mul(const TensorValueLike& lhs, const TensorValueLike& rhs) {
  return complex_mul(lhs, rhs);
}
}  // namespace complex

}  // namespace kiln::graph::ops
