#include "kiln/engine/tensor_spec.h"

#include "kiln/support/format.h"

namespace kiln::engine {

std::string TensorSpec::to_string() const {
  if (!shape) return format("None x {}", dtype.name());
  std::string text;
  for (const auto& dim : *shape) text += format("{}x", dim.value_or(-1));
  return text + std::string(dtype.name());
}

std::string TensorSpec::repr() const {
  std::string dims = "None";
  if (shape) {
    std::vector<std::string> texts;
    for (const auto& dim : *shape) texts.push_back(dim ? format("{}", *dim) : "None");
    dims = format("[{}]", join(texts, ", "));
  }
  return format("TensorSpec(shape={}, dtype={}, name={})", dims, dtype.to_string(), name);
}

}  // namespace kiln::engine
