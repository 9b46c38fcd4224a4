#include "kiln/graph/ops/quantized.h"

#include "kiln/graph/graph_state.h"
#include "kiln/graph/promotion.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph::ops {
namespace {

std::string name_of(QuantizationEncoding encoding) { return std::string(to_string(encoding)); }

/// Encodings whose blocks kiln can read.
void check_encoding(QuantizationEncoding encoding) {
  if (encoding == QuantizationEncoding::Q5_K || encoding == QuantizationEncoding::GPTQ)
    throw ValueError(format("unsupported quantization encoding {}", to_string(encoding)));
}

}  // namespace

TensorValue dequantize(QuantizationEncoding encoding, const TensorValueLike& quantized) {
  LocationScope at(quantized.location());
  const TensorValue x = strong(quantized);
  check_encoding(encoding);
  const Shape shape = x.shape();
  if (shape.empty() || !shape.back().is_static())
    throw TypeError("dequantize only supported with static last dimension");
  return graph::detail::add_tensor_op(OpKind::dequantize, {x}, {{"encoding", name_of(encoding)}});
}

TensorValue qmatmul(QuantizationEncoding encoding, const std::optional<QuantizationConfig>& config,
                    const TensorValueLike& lhs, const std::vector<TensorValueLike>& rhs) {
  LocationScope at(lhs.location());
  const TensorValue x = strong(lhs, "The left-hand side");
  if (encoding == QuantizationEncoding::GPTQ) {
    if (!config || config->bits != 4 || (config->group_size != 128 && config->group_size != 32))
      throw ValueError("qmatmul: GPTQ needs a config with 4 bits and a group size of 128 or 32.");
    throw ValueError(
        "qmatmul: GPTQ runs on accelerators only, and this build has no kernel for it.");
  }
  check_encoding(encoding);
  if (rhs.size() != 1)
    throw ValueError(
        format("qmatmul: {} takes one right-hand side, got {}.", to_string(encoding), rhs.size()));
  const TensorValue weight = strong(rhs[0], "The right-hand side");
  if (weight.dtype() != DType::uint8)
    throw TypeError(
        format("Right-hand side must be uint8, but got {}", weight.dtype().to_string()));
  if (x.dtype() != DType::float32)
    throw TypeError(format("Left-hand side must be {}, but got {}",
                           DType(DType::float32).to_string(), x.dtype().to_string()));
  if (weight.rank() != 2)
    throw TypeError(
        format("Right-hand side must be a matrix, but got shape {}", weight.shape().repr()));
  return graph::detail::add_tensor_op(OpKind::qmatmul, {x, weight},
                                      {{"encoding", name_of(encoding)}});
}

TensorValue quantized::repack_gguf_quantized_weights(const TensorValueLike& weight,
                                                     QuantizationEncoding encoding) {
  LocationScope at(weight.location());
  const TensorValue x = strong(weight);
  check_encoding(encoding);
  if (x.dtype() != DType::uint8)
    throw TypeError(format("Quantized weights must be uint8, but got {}", x.dtype().to_string()));
  return x;
}

}  // namespace kiln::graph::ops
