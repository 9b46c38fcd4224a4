#pragma once

// An op on tensors that are spread over a mesh. Internal to kiln/experimental.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kiln/experimental/recording.h"
#include "kiln/graph/graph.h"
#include "kiln/graph/promotion.h"

namespace kiln::experimental {

/// While it lives, an op is applied to stand-ins of the whole tensors in a graph of its own. `end`
/// then chooses placements by the rules of the ops that turned up there, moves the inputs, and
/// repeats these ops for each device on its parts, in the graph around.
class DistributedCall {
 public:
  explicit DistributedCall(const char* name);
  ~DistributedCall();
  DistributedCall(const DistributedCall&) = delete;
  DistributedCall& operator=(const DistributedCall&) = delete;

  /// The one whose graph is the current one of this thread, or null.
  static DistributedCall* current() noexcept;

  /// The stand-in for a tensor, which may live on one device.
  graph::TensorValue input(const detail::StatePtr& tensor);
  /// The stand-in for a number.
  graph::TensorValue number(graph::NumberSource& source, DType dtype, graph::DeviceRef device);

  /// A result of the op: one value for each device of a mapping.
  struct Result {
    std::vector<graph::Value> parts;
    DeviceMapping mapping;
    graph::Shape shape;
    detail::StatePtr same = nullptr;  // the tensor that it is, if it is one that was given
  };
  /// Ends it. No placement that the op accepts or may reach: ShardingError. An op that works on one
  /// device alone: ValueError.
  std::vector<Result> end(const std::vector<graph::Value>& results);

  /// Leaves the graph; done by `end`.
  void leave() { scope_.reset(); }

 private:
  struct Source {
    graph::Value value;
    detail::StatePtr tensor;                // null: a number
    graph::NumberSource* number = nullptr;  // null for both: a constant
    DType dtype = DType::bool_;
  };

  friend class PlacementSolver;

  const char* name_;
  graph::Graph graph_;
  std::optional<graph::Graph::Scope> scope_;
  DistributedCall* outer_;
  std::vector<Source> sources_;
};

}  // namespace kiln::experimental
