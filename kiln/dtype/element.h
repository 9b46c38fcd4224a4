#pragma once

#include <cstddef>
#include <cstdint>

#include "kiln/dtype/dtype.h"
#include "kiln/dtype/scalar.h"

namespace kiln {

/// The element `index` elements behind `base`; float4 elements are packed two a byte, the even one
/// in the low half. No alignment is needed.
Scalar load_element(DType dtype, const void* base, std::int64_t index);

/// Converts `value` as element stores do and writes it: truth value for bool; truncation for
/// integers, where NaN, infinity and values out of range are ValueErrors; nearest-even for floats,
/// bfloat16 by cutting off the low half of a float32.
void store_element(DType dtype, void* base, std::int64_t index, const Scalar& value);

/// Bytes that hold `count` elements.
std::size_t bytes_for(DType dtype, std::int64_t count);

}  // namespace kiln
