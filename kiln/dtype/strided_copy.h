#pragma once

#include <cstdint>
#include <span>

#include "kiln/dtype/dtype.h"

namespace kiln {

/// A strided window for copies: steps in elements, the first element at `index` elements behind
/// `base` (only float4 needs an index: two elements share a byte).
struct StridedElements {
  void* base;
  std::int64_t index;
  std::span<const std::int64_t> strides;
};

/// Copies the elements of `source` to `destination`, both of the extents `shape`. They must not
/// overlap. Addresses need no alignment. Dense runs are copied as blocks.
void copy_elements(DType dtype, std::span<const std::int64_t> shape,
                   const StridedElements& destination, const StridedElements& source);

}  // namespace kiln
