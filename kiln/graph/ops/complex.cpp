#include "kiln/graph/ops/complex.h"

#include "kiln/graph/ops/elementwise.h"
#include "kiln/graph/ops/movement.h"
#include "kiln/graph/ops/shape.h"
#include "kiln/graph/promotion.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph::ops {

TensorValue as_interleaved_complex(const TensorValueLike& x) {
  LocationScope at(x.location());
  TensorValue value = strong(x);
  Shape shape = value.shape();
  if (shape.empty() || !shape.back().is_static())
    throw TypeError("The last dimension must be static.");
  const std::int64_t last = shape.back().value();
  if (last % 2 != 0) throw ValueError("The last dimension must be divisible by 2.");
  shape.back() = last / 2;
  shape.push_back(2);
  return reshape(value, shape);
}

TensorValue complex_mul(const TensorValueLike& lhs, const TensorValueLike& rhs) {
  LocationScope at(lhs.is_weak() ? rhs.location() : lhs.location());
  auto [x, y] = promote(lhs, rhs);
  for (const TensorValue& value : {x, y})
    if (value.rank() == 0 || value.shape().back() != Dim(2))
      throw ValueError(
          format("Complex-valued tensors must be 2-dimensional vectors in their last "
                 "dimension. Got shape {}.",
                 value.shape().repr()));
  const Slice real = slice(0, 1), imaginary = slice(1, 2);
  TensorValue a = slice_tensor(x, {ellipsis, real}), b = slice_tensor(x, {ellipsis, imaginary});
  TensorValue c = slice_tensor(y, {ellipsis, real}), d = slice_tensor(y, {ellipsis, imaginary});
  return concat({sub(mul(a, c), mul(b, d)), add(mul(a, d), mul(b, c))}, -1);
}

}  // namespace kiln::graph::ops
