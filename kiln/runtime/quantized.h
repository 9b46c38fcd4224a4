#pragma once

#include <cstdint>

#include "kiln/graph/quantization.h"

namespace kiln::runtime {

/// Whether `dequantize` and `quantized_matmul` know an encoding.
bool can_dequantize(graph::QuantizationEncoding encoding);

/// The elements of blocks that lie back to back, in float32. Blocks are shared by up to `threads`
/// threads, as are columns below.
void dequantize(graph::QuantizationEncoding encoding, const void* blocks, std::int64_t count,
                float* elements, int threads);

/// result[r, c] = Σ_k lhs[r, k] · rhs[c, k], where rhs is made of blocks, [columns, depth]. It
/// stays so in memory: a few rows of it at a time are worked out for all rows of lhs.
void quantized_matmul(graph::QuantizationEncoding encoding, const float* lhs, const void* rhs,
                      float* result, std::int64_t rows, std::int64_t depth, std::int64_t columns,
                      int threads);

}  // namespace kiln::runtime
