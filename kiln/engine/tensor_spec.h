#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kiln/dtype/dtype.h"
#include "kiln/graph/type.h"

namespace kiln::engine {

/// What a model takes or gives at one position. A value that outlives its model.
struct TensorSpec {
  DType dtype = DType::float32;
  std::string name;
  /// A number, or nothing for a symbolic dim; nothing at all for any rank.
  std::optional<std::vector<std::optional<std::int64_t>>> shape;
  graph::DeviceRef device;

  /// "5x-1xfloat32"; unranked "None x float32".
  std::string to_string() const;
  /// "TensorSpec(shape=[5, None], dtype=DType.float32, name=input0)".
  std::string repr() const;
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// Names, inputs and outputs of one graph.
struct ModelMetadata {
  std::string name;
  std::vector<TensorSpec> input_metadata;
  std::vector<TensorSpec> output_metadata;
};

}  // namespace kiln::engine
