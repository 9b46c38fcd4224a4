#pragma once

#include <optional>
#include <vector>

#include "kiln/graph/quantization.h"
#include "kiln/graph/value.h"

namespace kiln::graph::ops {

/// The float32 elements of quantised blocks: `[…, bytes]`, uint8, as
/// `[…, bytes / block_size · elements_per_block]`. A symbolic last dim: TypeError; one that holds
/// no whole blocks, Q5_K and GPTQ: ValueError.
TensorValue dequantize(QuantizationEncoding encoding, const TensorValueLike& quantized);

/// `lhs @ dequantize(rhs[0])ᵀ`: `lhs` float32 `[…, K]`, `rhs[0]` uint8 `[N, bytes of K]`, result
/// float32 `[…, N]`. The weights stay quantised in memory. Another dtype or rank: TypeError; other
/// encodings: ValueError. GPTQ, which takes a config, runs on accelerators only.
TensorValue qmatmul(QuantizationEncoding encoding, const std::optional<QuantizationConfig>& config,
                    const TensorValueLike& lhs, const std::vector<TensorValueLike>& rhs);

namespace quantized {
/// The blocks of a GGUF weight in the order that `qmatmul` reads best; the shape stays. They are in
/// that order already.
TensorValue repack_gguf_quantized_weights(const TensorValueLike& weight,
                                          QuantizationEncoding encoding);
}  // namespace quantized

}  // namespace kiln::graph::ops
