#include "kiln/graph/ops/random.h"

#include <algorithm>
#include <cstring>

#include "kiln/graph/graph_state.h"
#include "kiln/graph/infer.h"
#include "kiln/graph/ops/constant.h"
#include "kiln/graph/ops/elementwise.h"
#include "kiln/graph/ops/shape.h"
#include "kiln/graph/ops/transfer.h"
#include "kiln/graph/promotion.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph::ops::random {
namespace {

namespace d = graph::detail;

TensorValue seed_constant(std::uint64_t seed, DeviceRef device) {
  std::vector<std::byte> bytes(sizeof seed);
  std::memcpy(bytes.data(), &seed, sizeof seed);
  return ops::detail::constant_of({1}, DType::uint64, std::move(bytes), device);
}

/// The seed that each call of a subgraph passes, as a hidden input behind all others.
d::RandomSeed& seed_of_caller(d::GraphState& graph) {
  if (!graph.caller_seed) {
    graph.caller_seed = d::add_argument(*graph.graph, SeedType(DeviceRef::CPU()));
    graph.caller_draws = 0;
  }
  if (graph.seeds.empty()) graph.seeds.resize(1);
  graph.seeds.front() = {.value = graph.caller_seed};
  return graph.seeds.front();
}

/// A bound or parameter as a scalar of `dtype` on `device`.
TensorValue scalar_operand(const TensorValueLike& x, DType dtype, DeviceRef device) {
  if (x.is_weak()) {
    TensorValue value = promote_weak(x, dtype, device);
    if (value.rank() != 0) throw ValueError("Expected a scalar value");
    return value;
  }
  TensorValue value = d::strong_tensor(x);
  if (value.rank() != 0) throw ValueError("Expected a scalar value");
  return transfer_to(cast(value, dtype), device);
}

std::optional<double> number_of(const TensorValueLike& x) {
  const auto* number = std::get_if<Scalar>(&x.variant());
  if (number) return number->to<double>();
  return std::nullopt;
}

TensorValue draw(OpKind kind, const TensorType& like, const TensorValueLike& first,
                 const TensorValueLike& second, DType parameters) {
  const TensorValue a = scalar_operand(first, parameters, like.device);
  const TensorValue b = scalar_operand(second, parameters, like.device);
  return d::add_tensor_op(kind, {detail::take_seed(like.device), a, b},
                          {{"shape", like.shape}, {"dtype", like.dtype}});
}

}  // namespace

TensorValue detail::take_seed(DeviceRef device, std::uint64_t draws) {
  auto& graph = *d::current_graph();
  const auto found = std::find_if(graph.seeds.rbegin(), graph.seeds.rend(),
                                  [](const d::RandomSeed& seed) { return seed.is_set(); });
  if (found == graph.seeds.rend() && !graph.graph->is_subgraph)
    throw RuntimeError("No seed set! Set with `ops.random.set_seed`.");
  d::RandomSeed& seed = found == graph.seeds.rend() ? seed_of_caller(graph) : *found;
  const std::uint64_t before = seed.draws;
  seed.draws += draws;
  if (seed.value && seed.value == graph.caller_seed) graph.caller_draws = seed.draws;
  if (seed.number) return seed_constant(*seed.number + before, device);
  TensorValue value(graph.handle(seed.value));
  if (before > 0) value = add(value, seed_constant(before, value.device()));
  return transfer_to(value, device);
}

TensorType SeedType(DeviceRef device) { return TensorType(DType::uint64, {1}, device); }

void set_seed(const TensorValueLike& seed) {
  LocationScope at(seed.location());
  auto& graph = *d::current_graph();
  d::RandomSeed next;
  const auto* number = std::get_if<Scalar>(&seed.variant());
  if (number && number->is_integer() && holds_integer(DType::uint64, *number)) {
    next.number = number->to<std::uint64_t>();
  } else {
    TensorValue value = seed.is_weak() ? promote_weak(seed, DType::uint64, DeviceRef::CPU())
                                       : d::strong_tensor(seed);
    const Shape shape = value.shape();
    if (!shape.empty() && shape != Shape{1})
      throw ValueError(format(
          "Seed must be a scalar or rank-1 tensor with shape [1], got shape {}.", shape.repr()));
    value = cast(value, DType::uint64);
    next.value = (shape.empty() ? reshape(value, {1}) : value).ir_value();
  }
  graph.seeds.resize(graph.blocks.size());
  graph.seeds.back() = next;
}

TensorValue uniform(const TensorType& like, const UniformOptions& options, Location location) {
  LocationScope at(location);
  check_dtype("random.uniform", DTypeFamily::arithmetic, like.dtype);
  const auto lower = number_of(options.lower), upper = number_of(options.upper);
  if (lower && upper && *lower > *upper)
    throw ValueError(
        format("random.uniform: the lower bound {} is above the upper bound {}.", *lower, *upper));
  return draw(OpKind::random_uniform, like, options.lower, options.upper, like.dtype);
}

TensorValue normal(const TensorType& like, const NormalOptions& options, Location location) {
  LocationScope at(location);
  check_dtype("random.normal", DTypeFamily::arithmetic, like.dtype);
  const auto std = number_of(options.std);
  if (std && !(*std > 0))
    throw ValueError(format("random.normal: std must be positive, got {}.", *std));
  return draw(OpKind::random_normal, like, options.mean, options.std, DType::float32);
}

TensorValue gaussian(const TensorType& like, const NormalOptions& options, Location location) {
  return normal(like, options, location);
}

}  // namespace kiln::graph::ops::random
