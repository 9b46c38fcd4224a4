#include "kiln/graph/sharding.h"

#include "kiln/graph/graph_state.h"
#include "kiln/graph/ops/movement.h"
#include "kiln/graph/weight.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph {
namespace {

TensorValue cut(const TensorValue& value, int axis, std::int64_t begin, std::int64_t end) {
  std::vector<SliceIndex> indices(static_cast<std::size_t>(axis), SliceIndex(all));
  indices.push_back(slice(begin, end));
  return ops::slice_tensor(value, indices);
}

/// The static size of an axis of a weight. A symbolic size or a missing axis: ValueError.
std::int64_t size_of(const Weight& weight, int axis) {
  const Shape shape = weight.shape();
  if (axis < 0 || axis >= shape.rank() || !shape[axis].is_static())
    throw ValueError(format("Weight {} of shape {} cannot be sharded along axis {}.", weight.name(),
                            shape.repr(), axis));
  return shape[axis].value();
}

TensorValue cut_part(const Weight& weight, int axis, int i, int parts) {
  auto [begin, end] = part_of_range(size_of(weight, axis), i, parts);
  return cut(weight, axis, begin, end);
}

ShardingStrategy::Function placeholder(std::string name) {
  return [name](const Weight& weight, int) -> TensorValue {
    throw NotImplementedError(
        format("The sharding strategy {} is a placeholder for modules that shard "
               "themselves; it cannot cut weight {}.",
               name, weight.name()));
  };
}

void check_devices(int num_devices) {
  if (num_devices < 1)
    throw ValueError(format("A sharding strategy needs at least one device, got {}.", num_devices));
}

}  // namespace

Segment Segment::even(std::int64_t size) { return {size, 1}; }
Segment Segment::head_aware(std::int64_t num_heads, std::int64_t head_dim) {
  return {num_heads * head_dim, head_dim};
}

std::pair<std::int64_t, std::int64_t> part_of_range(std::int64_t n, int i, int parts) {
  const std::int64_t each = n / parts, extra = n % parts;
  const std::int64_t begin = i * each + std::min<std::int64_t>(i, extra);
  return {begin, begin + each + (i < extra ? 1 : 0)};
}

ShardingStrategy::ShardingStrategy(int num_devices, Function shard)
    : ShardingStrategy(Kind::custom, std::nullopt, num_devices, std::move(shard)) {}

ShardingStrategy::ShardingStrategy(Kind kind, std::optional<int> axis, int num_devices,
                                   Function shard)
    : kind_(kind),
      axis_(axis),
      num_devices_(num_devices),
      shard_(std::make_shared<Function>(std::move(shard))) {
  check_devices(num_devices);
}

using S = ShardingStrategy;

S S::rowwise(int k) {
  return S(Kind::rowwise, 0, k, [k](const Weight& w, int i) { return cut_part(w, 0, i, k); });
}

S S::columnwise(int k) {
  return S(Kind::columnwise, 1, k, [k](const Weight& w, int i) { return cut_part(w, 1, i, k); });
}

S S::axiswise(int axis, int k) {
  return S(Kind::axiswise, axis, k,
           [axis, k](const Weight& w, int i) { return cut_part(w, axis, i, k); });
}

S S::replicate(int k) {
  return S(Kind::replicate, std::nullopt, k,
           [](const Weight& w, int) { return TensorValue(static_cast<const Value&>(w)); });
}

S S::head_aware_columnwise(int k, std::int64_t num_heads, std::int64_t head_dim) {
  return S(Kind::head_aware, 1, k, [=](const Weight& w, int i) {
    auto [begin, end] = part_of_range(num_heads, i, k);
    begin *= head_dim;
    end *= head_dim;
    // Two 4-bit values in a byte: half as many columns.
    if (2 * size_of(w, 1) == num_heads * head_dim) begin /= 2, end /= 2;
    return cut(w, 1, begin, end);
  });
}

S S::stacked_qkv(int k, std::int64_t num_heads, std::int64_t head_dim) {
  return S(Kind::stacked_qkv, 0, k, [=](const Weight& w, int i) {
    const std::int64_t rows = num_heads * head_dim;
    if (size_of(w, 0) != 3 * rows)
      throw ValueError(
          format("Weight {} has {} rows, but stacked Q, K and V of {} heads of size {} have "
                 "{}.",
                 w.name(), size_of(w, 0), num_heads, head_dim, 3 * rows));
    auto [begin, end] = part_of_range(num_heads, i, k);
    std::vector<TensorValueLike> parts;
    for (std::int64_t m = 0; m < 3; ++m)
      parts.push_back(cut(w, 0, m * rows + begin * head_dim, m * rows + end * head_dim));
    return ops::concat(parts, 0);
  });
}

S S::gate_up(int k, int axis) {
  return S(Kind::gate_up, axis, k, [=](const Weight& w, int i) {
    const std::int64_t n = size_of(w, axis);
    if (n % 2 != 0)
      throw ValueError(format("Dimension {} must be even for gate_up sharding, got {}", axis, n));
    auto [begin, end] = part_of_range(n / 2, i, k);
    return ops::concat({cut(w, axis, begin, end), cut(w, axis, n / 2 + begin, n / 2 + end)}, axis);
  });
}

S S::segmented(int k, int axis, std::vector<Segment> segments) {
  return S(Kind::segmented, axis, k, [=](const Weight& w, int i) {
    const std::int64_t n = size_of(w, axis);
    std::int64_t total = 0;
    for (const Segment& segment : segments) total += segment.size;
    if (total != n && total != 2 * n)
      throw ValueError(
          format("The segments cover {} elements, but axis {} of weight {} has {}; they must "
                 "cover it exactly, or twice when two values share a byte.",
                 total, axis, w.name(), n));
    const std::int64_t packed = total == n ? 1 : 2;
    std::vector<TensorValueLike> parts;
    std::int64_t offset = 0;
    for (const Segment& segment : segments) {
      auto [begin, end] = part_of_range(segment.size / segment.unit, i, k);
      parts.push_back(cut(w, axis, (offset + begin * segment.unit) / packed,
                          (offset + end * segment.unit) / packed));
      offset += segment.size;
    }
    return ops::concat(parts, axis);
  });
}

S S::tensor_parallel(int k) {
  return S(Kind::tensor_parallel, std::nullopt, k, placeholder("tensor_parallel"));
}

S S::expert_parallel(int k) {
  return S(Kind::expert_parallel, std::nullopt, k, placeholder("expert_parallel"));
}

}  // namespace kiln::graph
