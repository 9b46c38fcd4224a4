#include "compiler/kernels/constants.h"

#include <bit>
#include <cstring>

#include "kiln/dtype/element.h"

namespace kiln::compiler {

std::optional<std::int64_t> uniform_value(const graph::ir::ConstantData& data, DType dtype) {
  auto size = static_cast<std::size_t>(dtype.size_in_bytes());
  if (data.bytes.size() < size || dtype == DType::float4_e2m1fn) return std::nullopt;
  for (std::size_t i = size; i < data.bytes.size(); i += size)
    if (std::memcmp(data.bytes.data(), data.bytes.data() + i, size) != 0) return std::nullopt;
  Scalar value = load_element(dtype, data.bytes.data(), 0);
  if (dtype.is_float()) return std::bit_cast<std::int64_t>(value.to<double>());
  return value.to<std::int64_t>();
}

}  // namespace kiln::compiler
