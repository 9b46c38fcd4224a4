#pragma once

#include <string>

#include "kiln/graph/value.h"

namespace kiln::graph::ops {

// Two operands: promote, broadcast, one device.

TensorValue add(const TensorValueLike& lhs, const TensorValueLike& rhs);
TensorValue sub(const TensorValueLike& lhs, const TensorValueLike& rhs);
TensorValue mul(const TensorValueLike& lhs, const TensorValueLike& rhs);
/// True division; two integral operands become float64 first.
TensorValue div(const TensorValueLike& lhs, const TensorValueLike& rhs);
/// `floor(div(lhs, rhs))`, so float64 for two integers.
TensorValue floor_div(const TensorValueLike& lhs, const TensorValueLike& rhs);
/// The remainder with the sign of the divisor.
TensorValue mod(const TensorValueLike& lhs, const TensorValueLike& rhs);
TensorValue pow(const TensorValueLike& lhs, const TensorValueLike& rhs);
/// Elementwise extremum; NaN wins.
TensorValue max(const TensorValueLike& lhs, const TensorValueLike& rhs);
TensorValue min(const TensorValueLike& lhs, const TensorValueLike& rhs);
/// bool results.
TensorValue equal(const TensorValueLike& lhs, const TensorValueLike& rhs);
TensorValue not_equal(const TensorValueLike& lhs, const TensorValueLike& rhs);
TensorValue greater(const TensorValueLike& lhs, const TensorValueLike& rhs);
TensorValue greater_equal(const TensorValueLike& lhs, const TensorValueLike& rhs);
/// bool operands.
TensorValue logical_and(const TensorValueLike& lhs, const TensorValueLike& rhs);
TensorValue logical_or(const TensorValueLike& lhs, const TensorValueLike& rhs);
TensorValue logical_xor(const TensorValueLike& lhs, const TensorValueLike& rhs);

// One operand, of a strong kind; the result has its type unless said.

/// All dtypes but bool.
TensorValue abs(const TensorValueLike& x);
TensorValue negate(const TensorValueLike& x);
TensorValue relu(const TensorValueLike& x);
/// Floating-point dtypes.
TensorValue ceil(const TensorValueLike& x);
TensorValue floor(const TensorValueLike& x);
TensorValue trunc(const TensorValueLike& x);
/// Halves to even.
TensorValue round(const TensorValueLike& x);
TensorValue exp(const TensorValueLike& x);
TensorValue log(const TensorValueLike& x);
TensorValue log1p(const TensorValueLike& x);
TensorValue sqrt(const TensorValueLike& x);
TensorValue rsqrt(const TensorValueLike& x);
TensorValue sin(const TensorValueLike& x);
TensorValue cos(const TensorValueLike& x);
TensorValue erf(const TensorValueLike& x);
TensorValue tanh(const TensorValueLike& x);
TensorValue atanh(const TensorValueLike& x);
/// The argument is clamped to [-1, 1].
TensorValue acos(const TensorValueLike& x);
TensorValue sigmoid(const TensorValueLike& x);
TensorValue silu(const TensorValueLike& x);
/// `approximate`: "none", "tanh" or "quick"; others: ValueError.
TensorValue gelu(const TensorValueLike& x, const std::string& approximate = "none");
/// bool results for any dtype; false for integers.
TensorValue is_nan(const TensorValueLike& x);
TensorValue is_inf(const TensorValueLike& x);
TensorValue logical_not(const TensorValueLike& x);

/// Conversion; the same dtype gives the same value.
TensorValue cast(const TensorValueLike& x, DType dtype);

/// Elementwise choice; x and y promote, all three broadcast.
TensorValue where(const TensorValueLike& condition, const TensorValueLike& x,
                  const TensorValueLike& y);

}  // namespace kiln::graph::ops
