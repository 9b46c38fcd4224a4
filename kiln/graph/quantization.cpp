#include "kiln/graph/quantization.h"

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph {
namespace {

using E = QuantizationEncoding;

struct Row {
  E encoding;
  std::string_view upper, lower;
  BlockParameters block;
};

constexpr Row kRows[] = {
    {E::Q4_0, "Q4_0", "q4_0", {32, 18}},   {E::Q4_K, "Q4_K", "q4_k", {256, 144}},
    {E::Q5_K, "Q5_K", "q5_k", {256, 176}}, {E::Q6_K, "Q6_K", "q6_k", {256, 210}},
    {E::Q8_0, "Q8_0", "q8_0", {32, 34}},   {E::GPTQ, "GPTQ", "gptq", {0, 0}},
};

const Row& row(E encoding) { return kRows[static_cast<std::size_t>(encoding)]; }

}  // namespace

BlockParameters block_parameters(E encoding) {
  if (encoding == E::GPTQ)
    throw KeyError("GPTQ has no block parameters; its layout follows from the QuantizationConfig.");
  return row(encoding).block;
}

std::int64_t elements_per_block(E encoding) {
  return block_parameters(encoding).elements_per_block;
}
std::int64_t block_size(E encoding) { return block_parameters(encoding).block_size; }
std::string_view name(E encoding) { return row(encoding).lower; }
std::string_view to_string(E encoding) { return row(encoding).upper; }
bool is_gguf(E encoding) { return encoding != E::GPTQ; }

E quantization_encoding_from_string(std::string_view text) {
  for (const Row& r : kRows)
    if (r.upper == text || r.lower == text) return r.encoding;
  throw ValueError(format(
      "Unknown quantization encoding '{}'; expected Q4_0, Q4_K, Q5_K, Q6_K, Q8_0 or GPTQ.", text));
}

}  // namespace kiln::graph
