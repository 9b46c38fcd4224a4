#pragma once

#include <cstdint>

#include "kiln/dtype/dtype.h"

namespace kiln::runtime {

/// The `k` largest of each row of a dense tensor of extents [outer, n, inner], rows lying along
/// `n`, in descending order, or the `k` smallest in ascending order, with their positions, into
/// dense tensors of extents [outer, k, inner].
/// NaN counts as the largest number, and of equal elements the first comes first. `k` ≤ `n`.
/// Rows are shared by up to `threads` threads.
void top_k(DType dtype, const void* source, void* values, std::int64_t* indices, std::int64_t outer,
           std::int64_t n, std::int64_t inner, std::int64_t k, bool largest, int threads);

}  // namespace kiln::runtime
