#pragma once

#include <functional>
#include <map>
#include <string>

#include "kiln/driver/buffer.h"
#include "kiln/runtime/artifact.h"
#include "kiln/weights/safetensors.h"

namespace kiln::engine {

/// Data of weights by name. Models keep what they use alive.
class WeightsRegistry : public std::map<std::string, driver::Buffer, std::less<>> {
 public:
  using map::map;
  WeightsRegistry(const weights::Safetensors& tensors) {  // NOLINT: files serve as a registry
    for (const auto& [name, buffer] : tensors) emplace(name, buffer);
  }
};

/// The entry for each weight of an artifact, in its order; an empty handle where the artifact
/// carries the weight and the registry does not name it. What the declaration does not allow:
/// ValueError.
std::vector<driver::Buffer> bind_weights(const runtime::Artifact& artifact,
                                         const WeightsRegistry& registry);

/// "[(2, 3), f32]".
std::string type_text(DType dtype, const Shape& shape);

}  // namespace kiln::engine
