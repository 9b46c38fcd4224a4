#include "kiln/graph/weight.h"

#include "kiln/graph/graph_state.h"
#include "kiln/graph/infer.h"
#include "kiln/graph/ops/transfer.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph {
namespace {

/// Turns a declared type into the bytes that an encoding stores: whole blocks along the last axis.
void store_as_blocks(detail::WeightState& state, QuantizationEncoding encoding) {
  state.dtype = DType::uint8;
  if (!is_gguf(encoding)) return;  // the layout follows from the checkpoint's configuration
  const auto [elements, bytes] = block_parameters(encoding);
  if (state.shape.empty() || !state.shape.back().is_static() ||
      state.shape.back().value() % elements != 0)
    throw ValueError(
        format("Weight {} of shape {} cannot be stored as {}: its last dim must be a "
               "multiple of {} elements.",
               state.name, state.shape.repr(), to_string(encoding), elements));
  state.shape.back() = state.shape.back().value() / elements * bytes;
}

}  // namespace

Weight::Weight(std::shared_ptr<detail::WeightState> state) { weight_ = std::move(state); }

Weight::Weight(std::string name, DType dtype, graph::Shape shape, DeviceRef device,
               WeightOptions options) {
  TensorType type(dtype, shape, device);  // checks the dims
  if (name.empty()) throw ValueError("A weight needs a name.");
  check_name("weight", name);
  auto state = std::make_shared<detail::WeightState>();
  state->name = std::move(name);
  state->dtype = state->original_dtype = dtype;
  state->shape = state->original_shape = std::move(shape);
  if (options.quantization_encoding && dtype != DType::uint8)
    store_as_blocks(*state, *options.quantization_encoding);
  state->device = device;
  state->align = options.align.value_or(state->dtype.align());
  state->encoding = options.quantization_encoding;
  weight_ = std::move(state);
  if (options.sharding_strategy) set_sharding_strategy(*options.sharding_strategy);
}

const std::string& Weight::name() const { return weight_->name; }
std::int64_t Weight::align() const { return weight_->align; }
std::optional<QuantizationEncoding> Weight::quantization_encoding() const {
  return weight_->encoding;
}
std::pair<DType, Shape> Weight::original_dtype_and_shape() const {
  return {weight_->original_dtype, weight_->original_shape};
}
std::optional<ShardingStrategy> Weight::sharding_strategy() const { return weight_->strategy; }

void Weight::set_sharding_strategy(ShardingStrategy strategy) const {
  weight_->strategy = std::move(strategy);
  // Parts are cut on the host and only they travel.
  weight_->device = DeviceRef::CPU();
}

std::optional<int> Weight::shard_index() const {
  if (!weight_->whole) return std::nullopt;
  return weight_->part;
}

std::vector<Weight> Weight::shard(const std::vector<DeviceRef>& devices) const {
  if (weight_->whole)
    throw ValueError(
        format("Weight {} was already sharded. Use __getitem__ instead.", weight_->name));
  if (!weight_->strategy)
    throw ValueError(format(
        "Weight {} cannot be sharded because no sharding strategy was provided.", weight_->name));
  if (static_cast<int>(devices.size()) != weight_->strategy->num_devices())
    throw ValueError(format("Weight {} is cut for {} devices, but {} were given.", weight_->name,
                            weight_->strategy->num_devices(), devices.size()));
  std::vector<Weight> shards;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    auto state = std::make_shared<detail::WeightState>();
    state->name = format("{}[{}]", weight_->name, i);
    state->align = weight_->align;
    state->encoding = weight_->encoding;
    state->device = devices[i];
    state->whole = weight_;
    state->part = static_cast<int>(i);
    // What the strategy cuts is known only by letting it cut, so it does so in a graph of its own.
    Graph scratch("shard");
    auto scope = scratch.enter();
    TensorValue part = (*weight_->strategy)(*this, state->part);
    state->dtype = state->original_dtype = part.dtype();
    state->shape = state->original_shape = part.shape();
    shards.push_back(Weight(std::move(state)));
  }
  return shards;
}

std::string Weight::repr() const {
  std::string text = format("Weight({}, {}, {}, {}", weight_->name, weight_->dtype.to_string(),
                            weight_->shape.repr(), weight_->device.to_string());
  if (weight_->encoding) text += format(", {}", to_string(*weight_->encoding));
  return text + ")";
}

ir::Value* detail::shard_value(GraphState& graph, const WeightState& shard) {
  Graph::Scope scope((Graph(graph.shared_from_this())));
  TensorValue part = (*shard.whole->strategy)(Weight(shard.whole), shard.part);
  return operand_of(graph, ops::transfer_to(part, shard.device));
}

}  // namespace kiln::graph
