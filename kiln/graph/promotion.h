#pragma once

// How operands of different kinds and types meet: strong operands agree on a dtype that holds all
// of them exactly; weak ones (numbers, arrays, static dims) adopt it, if it holds their value.

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kiln/graph/value.h"

namespace kiln::graph {

/// The dtype that holds every value of every input type. None: ValueError.
DType promoted_dtype(std::span<const DType> dtypes);

/// A tensor of `dtype` on `device` for a weak operand. A value that the dtype does not hold:
/// ValueError.
TensorValue promote_weak(const TensorValueLike& value, DType dtype, DeviceRef device);

/// Whether a number may stand for an element of `dtype`.
bool holds_weak(const Scalar& value, DType dtype);
/// The same as a check: ValueError.
void check_weak(const Scalar& value, DType dtype);
/// Whether the integer lies in the range that `dtype` holds exactly; false for floats.
bool holds_integer(DType dtype, const Scalar& value);
/// The integer part as an integer; a number that 64 bits do not hold comes back as a float.
Scalar whole_part(double value);
/// The digits of an integer; those of the nearest double for one beyond 64 bits.
std::string integer_text(const Scalar& value);
/// Writes an integer that `dtype` is known to hold.
void write_integer(DType dtype, const Scalar& value, std::byte* to);

/// The operands of an op with one dtype. All weak: TypeError.
std::vector<TensorValue> promote(std::span<const TensorValueLike* const> operands);
std::pair<TensorValue, TensorValue> promote(const TensorValueLike& lhs, const TensorValueLike& rhs);

/// An operand of an op that takes no numbers there. Weak: TypeError, which names `what` it is
/// unless it is the only one.
TensorValue strong(const TensorValueLike& value, std::string_view what = {});

}  // namespace kiln::graph
