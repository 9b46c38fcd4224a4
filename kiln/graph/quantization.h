#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kiln::graph {

/// How the bytes of a quantised weight are organised.
enum class QuantizationEncoding : std::uint8_t { Q4_0, Q4_K, Q5_K, Q6_K, Q8_0, GPTQ };

/// The size of one block of an encoding.
struct BlockParameters {
  std::int64_t elements_per_block;
  std::int64_t block_size;  // bytes
  friend bool operator==(const BlockParameters&, const BlockParameters&) = default;
};

/// GPTQ has no blocks: KeyError.
BlockParameters block_parameters(QuantizationEncoding encoding);
/// Shorthands of `block_parameters`.
std::int64_t elements_per_block(QuantizationEncoding encoding);
std::int64_t block_size(QuantizationEncoding encoding);
/// "q4_0", "q4_k", …, "gptq".
std::string_view name(QuantizationEncoding encoding);
/// "Q4_0", …
std::string_view to_string(QuantizationEncoding encoding);
/// By either spelling; unknown: ValueError.
QuantizationEncoding quantization_encoding_from_string(std::string_view text);
/// Whether GGUF files use it.
bool is_gguf(QuantizationEncoding encoding);

/// What a checkpoint says about its quantisation.
struct QuantizationConfig {
  std::string quant_method;
  int bits = 0;
  int group_size = 0;
  bool desc_act = false;
  bool sym = false;
  friend bool operator==(const QuantizationConfig&, const QuantizationConfig&) = default;
};

}  // namespace kiln::graph
