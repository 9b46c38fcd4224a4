#pragma once

#include <cstdint>

#include "kiln/dtype/dtype.h"

namespace kiln::runtime {

/// The running sums along n of a dense tensor of extents [outer, n, inner], of floats in float64,
/// of integers modulo their range. `exclusive`: without the element itself;
/// `reverse`: from the end. Lines are shared by up to `threads` threads.
void cumsum(DType dtype, const void* source, void* sums, std::int64_t outer, std::int64_t n,
            std::int64_t inner, bool exclusive, bool reverse, int threads);

}  // namespace kiln::runtime
