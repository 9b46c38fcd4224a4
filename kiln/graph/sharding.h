#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kiln/graph/value.h"
#include "kiln/support/ref.h"

namespace kiln::graph {

class Weight;

/// A part of the axis of a `segmented` strategy.
struct Segment {
  /// Split like any range.
  static Segment even(std::int64_t size);
  /// Split by whole heads.
  static Segment head_aware(std::int64_t num_heads, std::int64_t head_dim);

  std::int64_t size;
  std::int64_t unit;  // rows that stay together
};

/// The elements [begin, end) of `n` that part `i` of `parts` gets: the first `n mod parts` get one
/// more.
std::pair<std::int64_t, std::int64_t> part_of_range(std::int64_t n, int i, int parts);

/// How the parts of a weight are cut for several devices.
class ShardingStrategy {
 public:
  /// Gives the tensor of part `i`.
  using Function = std::function<TensorValue(const Weight& weight, int i)>;

  ShardingStrategy(int num_devices, Function shard);

  static ShardingStrategy rowwise(int num_devices);
  static ShardingStrategy columnwise(int num_devices);
  static ShardingStrategy axiswise(int axis, int num_devices);
  static ShardingStrategy replicate(int num_devices);
  static ShardingStrategy head_aware_columnwise(int num_devices, std::int64_t num_heads,
                                                std::int64_t head_dim);
  static ShardingStrategy stacked_qkv(int num_devices, std::int64_t num_heads,
                                      std::int64_t head_dim);
  static ShardingStrategy gate_up(int num_devices, int axis = 2);
  static ShardingStrategy segmented(int num_devices, int axis, std::vector<Segment> segments);
  /// Placeholders for modules that shard themselves; calling one: NotImplementedError.
  static ShardingStrategy tensor_parallel(int num_devices);
  static ShardingStrategy expert_parallel(int num_devices);

  int num_devices() const { return num_devices_; }
  /// The tensor of part `i`, in the current graph.
  TensorValue operator()(const Weight& weight, int i) const { return (*shard_)(weight, i); }

  bool is_rowwise() const { return kind_ == Kind::rowwise; }
  bool is_colwise() const { return kind_ == Kind::columnwise; }
  bool is_axiswise() const { return kind_ == Kind::axiswise; }
  bool is_replicate() const { return kind_ == Kind::replicate; }
  bool is_head_aware_colwise() const { return kind_ == Kind::head_aware; }
  bool is_stacked_qkv() const { return kind_ == Kind::stacked_qkv; }
  bool is_gate_up() const { return kind_ == Kind::gate_up; }
  bool is_segmented() const { return kind_ == Kind::segmented; }
  bool is_tensor_parallel() const { return kind_ == Kind::tensor_parallel; }
  bool is_expert_parallel() const { return kind_ == Kind::expert_parallel; }
  /// The axis that is cut; none for replicate, the placeholders and strategies of one's own.
  std::optional<int> sharded_axis() const { return axis_; }

 private:
  enum class Kind : std::uint8_t {
    custom,
    rowwise,
    columnwise,
    axiswise,
    replicate,
    head_aware,
    stacked_qkv,
    gate_up,
    segmented,
    tensor_parallel,
    expert_parallel,
  };
  ShardingStrategy(Kind kind, std::optional<int> axis, int num_devices, Function shard);

  Kind kind_;
  std::optional<int> axis_;
  int num_devices_;
  Shared<const Function> shard_;
};

}  // namespace kiln::graph
