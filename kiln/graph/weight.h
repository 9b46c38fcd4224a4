#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kiln/graph/quantization.h"
#include "kiln/graph/sharding.h"
#include "kiln/graph/value.h"

namespace kiln::graph {

/// Options of `Weight`.
struct WeightOptions {
  std::optional<QuantizationEncoding> quantization_encoding = std::nullopt;
  /// Bytes; by default the alignment of the dtype.
  std::optional<std::int64_t> align = std::nullopt;
  std::optional<ShardingStrategy> sharding_strategy = std::nullopt;
};

/// A named tensor whose data is supplied when a model is made. It can be made outside of any graph;
/// on first use inside a graph it becomes one external constant there. A handle.
/// Use without an active graph: ValueError.
class Weight : public TensorValue {
 public:
  Weight(std::string name, DType dtype, graph::Shape shape, DeviceRef device,
         WeightOptions options = {});

  const std::string& name() const;
  std::int64_t align() const;
  std::optional<QuantizationEncoding> quantization_encoding() const;
  /// As declared, also when an encoding stores the weight as uint8.
  std::pair<DType, graph::Shape> original_dtype_and_shape() const;

  std::optional<ShardingStrategy> sharding_strategy() const;
  /// Moves the host weight to cpu:0.
  void set_sharding_strategy(ShardingStrategy strategy) const;
  /// One weight per device, named "{name}[{i}]". No strategy, or a shard itself: ValueError.
  std::vector<Weight> shard(const std::vector<DeviceRef>& devices) const;
  /// Which shard of which weight it is.
  std::optional<int> shard_index() const;

  /// "Weight(w, DType.float32, [Dim(3), Dim(2)], cpu:0)".
  std::string repr() const;
  friend bool operator==(const Weight& a, const Weight& b) { return a.weight_ == b.weight_; }

  explicit Weight(std::shared_ptr<detail::WeightState> state);
};

}  // namespace kiln::graph
