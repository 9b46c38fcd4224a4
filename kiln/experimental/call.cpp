#include "kiln/experimental/call.h"

#include <bit>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "kiln/engine/program_places.h"
#include "kiln/experimental/lift.h"
#include "kiln/experimental/redistribution.h"
#include "kiln/graph/promotion.h"
#include "kiln/graph/recorded_graph.h"
#include "kiln/support/error.h"

namespace kiln::experimental {
namespace {

// The first word of each kind of argument, so that no two of them can be taken for each other.
enum Tag : std::uint64_t { kTensor = 1, kSameTensor, kNumber, kText, kDim, kDistributed };

std::uint64_t bits_of(const Scalar& number) {
  return std::visit(
      [](auto value) -> std::uint64_t {
        if constexpr (std::is_same_v<decltype(value), double>)
          return std::bit_cast<std::uint64_t>(value);
        else
          return static_cast<std::uint64_t>(value);
      },
      static_cast<const std::variant<bool, std::int64_t, std::uint64_t, double>&>(number));
}

struct KeyHash {
  std::size_t operator()(const CallKey& key) const noexcept { return key.hash(); }
};

struct Plans {
  /// Beyond it all start anew, as programs do.
  static constexpr std::size_t kMost = 8192;
  std::mutex mutex;
  std::unordered_map<CallKey, std::shared_ptr<const CallPlan>, KeyHash> plans;
};

Plans& plans() {
  static auto* all = new Plans;  // outlives whatever runs at exit
  return *all;
}

std::shared_ptr<const CallPlan> look_up(const CallKey& key) {
  Plans& all = plans();
  const std::lock_guard lock(all.mutex);
  const auto it = all.plans.find(key);
  return it == all.plans.end() ? nullptr : it->second;
}

}  // namespace

void CallKey::add(std::string_view text) {
  add(kText);
  add(text.size());
  for (std::size_t i = 0; i < text.size() && usable_; i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, std::min(sizeof word, text.size() - i));
    add(word);
  }
}

void CallKey::add(const graph::Dim& dim) {
  if (!dim.is_static()) return spoil();
  add(kDim);
  add(static_cast<std::uint64_t>(dim.value()));
}

std::size_t CallKey::hash() const {
  // Multiply and fold, word by word.
  std::uint64_t result = size_;
  for (std::uint32_t i = 0; i < size_; ++i) {
    const auto product =
        static_cast<unsigned __int128>(result ^ words_[i]) * std::uint64_t{0x9E3779B97F4A7C15};
    result = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }
  return result;
}

void CallArguments::tensor(detail::TensorState& state) {
  if (const detail::Placed* placed = state.placed.get()) {
    is_distributed = true;
    // What ops may move by themselves is a part of the plan.
    if (AutoReshard::current()) key.spoil();
    key.add(kDistributed | placed->shards.size() << 8);
    key.add(placed->mapping_id);
    for (const detail::StatePtr& shard : placed->shards) tensor(*shard);
    return;
  }
  if (!state.real() || num_tensors == kMost) return key.spoil();
  tensors[num_tensors++] = &state;
  // Which arguments are one tensor matters, since they are one input of the program.
  for (std::uint32_t i = 0; i + 1 < num_tensors; ++i)
    if (tensors[i] == &state) {
      key.add(kSameTensor);
      return key.add(i);
    }
  const driver::Buffer& buffer = state.buffer;
  key.add(kTensor | static_cast<std::uint64_t>(buffer.dtype().code()) << 8 |
          static_cast<std::uint64_t>(buffer.rank()) << 16);
  key.add(reinterpret_cast<std::uintptr_t>(buffer.device().backend()));
  for (const std::int64_t extent : buffer.shape()) key.add(static_cast<std::uint64_t>(extent));
}

void CallArguments::number(const Scalar& number) {
  if (num_numbers == kMost || number.is_wide_integer()) return key.spoil();
  numbers[num_numbers++] = number;
  key.add(kNumber | static_cast<std::uint64_t>(number.index()) << 8);
}

void CallArguments::add_values() {
  for (std::uint32_t i = 0; i < num_numbers; ++i) key.add(bits_of(numbers[i]));
  has_values = true;
}

void detail::add_argument(CallArguments& call, const graph::SliceIndex& index) {
  call.key.add(index.index());
  if (const auto* dim = std::get_if<graph::Dim>(&index)) call.key.add(*dim);
  if (std::holds_alternative<graph::TensorValue>(index)) call.key.spoil();
  const auto* slice = std::get_if<graph::Slice>(&index);
  if (!slice) return;
  if (slice->out_dim || slice->step.is_tensor()) return call.key.spoil();
  for (const graph::SliceBound* bound : {&slice->start, &slice->stop}) {
    call.key.add(bound->index());
    if (const auto* dim = std::get_if<graph::Dim>(bound)) call.key.add(*dim);
    if (std::holds_alternative<graph::TensorValue>(*bound)) call.key.spoil();
  }
  call.key.add(static_cast<std::uint64_t>(slice->step.number()));
}

std::shared_ptr<const CallPlan> CallCache::find(CallArguments& arguments) {
  std::shared_ptr<const CallPlan> plan = look_up(arguments.key);
  if (!plan || !plan->needs_values) return plan;
  arguments.add_values();
  return arguments.key.usable() ? look_up(arguments.key) : nullptr;
}

void CallCache::insert(const CallKey& key, CallPlan plan) {
  Plans& all = plans();
  const std::lock_guard lock(all.mutex);
  if (all.plans.size() >= Plans::kMost) all.plans.clear();
  all.plans.insert_or_assign(key, std::make_shared<const CallPlan>(std::move(plan)));
}

std::shared_ptr<const CallPlan> Call::plan() {
  if (graph::Graph::has_current() || !arguments_.key.usable()) return nullptr;
  return CallCache::find(arguments_);
}

bool Call::run(const CallPlan& plan, bool brief) {
  driver::Buffer inputs[CallArguments::kMost];
  const std::size_t count = plan.inputs.size();
  for (std::size_t i = 0; i < count; ++i) {
    const CallPlan::Input& input = plan.inputs[i];
    if (input.is_number) {
      const Scalar& number = arguments_.numbers[input.argument];
      // The long way tells what is wrong with it.
      if (!graph::holds_weak(number, input.dtype)) return false;
      inputs[i] = driver::Buffer::scalar(number, input.dtype, input.device);
    } else {
      detail::TensorState& tensor = *arguments_.tensors[input.argument];
      if (!tensor.buffer.is_contiguous()) return false;
      if (input.is_written) detail::keep_for_readers(tensor);
      inputs[i] = tensor.buffer;
    }
  }
  if (plan.writes)
    separate({inputs, count}, [&](std::size_t i) { return plan.inputs[i].is_written; });
  engine::Model::Outputs outputs;
  if (plan.model) {
    const std::span<const driver::Buffer> span(inputs, count);
    try {
      if (brief) {
        if (!plan.model->try_execute(span, outputs)) return false;
      } else {
        outputs = plan.model->execute(span);
      }
    } catch (const Error& error) {
      // The long way knows where the user wrote the op.
      if (engine::has_numbered_places(error.message())) return false;
      throw;
    }
  }
  results_.reserve(plan.results.size());
  for (const CallPlan::Result& result : plan.results) {
    if (result.is_argument)
      results_.push_back(Tensor(arguments_.tensors[result.index]->shared_from_this()));
    else
      results_.push_back(Tensor(std::move(outputs[result.index])));
  }
  if (!plan.spreads.empty()) join_parts(plan);
  return true;
}

void Call::join_parts(const CallPlan& plan) {
  std::vector<Tensor> parts = std::move(results_);
  results_.clear();
  std::size_t next = 0;
  for (const auto& spread : plan.spreads) {
    if (!spread) {
      results_.push_back(std::move(parts[next++]));
      continue;
    }
    const auto count = static_cast<std::size_t>(spread->mapping.mesh().num_devices());
    std::vector<detail::StatePtr> shards;
    for (std::size_t i = 0; i < count; ++i) shards.push_back(parts[next++].state());
    results_.push_back(
        detail::placed(std::move(shards), spread->mapping, spread->shape, spread->mapping_id));
  }
}

void Call::record(bool is_store) {
  record_parts(is_store);
  if (!arguments_.is_distributed) return;
  around_ = Recording::current();
  distributed_.emplace(name_);
}

void Call::record_control_flow() {
  may_wait_ = graph::Graph::has_current();
  record(true);
}

void Call::record_parts(bool is_store) {
  const bool is_built = graph::Graph::has_current();
  const Recording* current = Recording::current();
  const bool is_delayed =
      current && current->is_delayed() && !graph::is_in_region(current->graph());
  if (!is_built || (is_store && is_delayed)) {
    recording_ = std::make_shared<Recording>(name_);
    scope_.emplace(recording_);
  }
}

graph::TensorValueLike Call::number(std::size_t index, graph::Location location) {
  const Scalar& number = arguments_.numbers[index];
  Recording* recording = distributed_ ? around_ : Recording::current();
  if (!recording) return graph::TensorValueLike(number, location);
  numbers_.push_back(std::make_unique<Number>(recording, number, index));
  if (!distributed_) return graph::TensorValueLike(number, numbers_.back().get(), location);
  traced_numbers_.push_back(std::make_unique<TracedNumber>(&*distributed_, numbers_.back().get()));
  return graph::TensorValueLike(number, traced_numbers_.back().get(), location);
}

void Call::finish(const std::vector<graph::Value>& results, std::uint32_t form) {
  if (distributed_) return finish_spread(distributed_->end(results), form);
  Recording* current = Recording::current();
  results_.clear();
  for (const graph::Value& value : results)
    results_.push_back(current ? current->wrap(value) : Tensor::from_graph_value(value));
  realize(form);
}

void Call::finish_spread(std::vector<DistributedCall::Result> results, std::uint32_t form) {
  Recording* current = Recording::current();
  results_.clear();
  for (DistributedCall::Result& result : results) {
    if (result.same) {
      results_.push_back(Tensor(std::move(result.same)));
      arguments_.key.spoil();  // a plan knows no whole arguments
      continue;
    }
    // Each part has memory of its own, so that a store to one leaves the others alone.
    std::vector<detail::StatePtr> shards;
    for (const graph::Value& part : result.parts)
      shards.push_back(
          (current ? current->wrap_own(part) : Tensor::from_graph_value(part)).state());
    results_.push_back(
        detail::placed(std::move(shards), std::move(result.mapping), std::move(result.shape)));
  }
  realize(form);
}

void Call::realize(std::uint32_t form) {
  if (!recording_) return;
  scope_.reset();
  if (may_wait_ && recording_->delay()) return;
  std::vector<detail::StatePtr> states;
  for (const Tensor& result : results_)
    for (const detail::StatePtr& part : detail::parts_of(result.state())) states.push_back(part);
  const Recording::Run run = recording_->realize(states, true);
  remember(*recording_, run, form);
}

void Call::remember(const Recording& recording, const Recording::Run& run, std::uint32_t form) {
  if (!arguments_.key.usable() || run.interpreted) return;
  CallPlan plan;
  plan.form = form;
  plan.model = run.model;
  const auto argument_of = [&](const detail::TensorState* state) -> std::optional<std::uint8_t> {
    for (std::uint32_t i = 0; i < arguments_.num_tensors; ++i)
      if (arguments_.tensors[i] == state) return static_cast<std::uint8_t>(i);
    return std::nullopt;
  };
  if (run.inputs.size() > CallArguments::kMost) return;
  for (const std::size_t index : run.inputs) {
    const Recording::Source& source = recording.sources()[index];
    const graph::Type type = source.value.type();
    CallPlan::Input input{.is_number = !source.tensor, .dtype = source.dtype};
    if (source.tensor) {
      const auto argument = argument_of(source.tensor.get());
      if (!argument) return;
      input.argument = *argument;
      input.is_written = type.is_buffer();
      plan.writes = plan.writes || input.is_written;
    } else {
      input.argument = static_cast<std::uint8_t>(source.argument);
      input.device = type.shaped().device.to_device();
    }
    plan.inputs.push_back(input);
  }
  std::uint32_t outputs = 0;
  bool is_spread = false;
  for (const Tensor& result : results_) {
    for (const detail::StatePtr& part : detail::parts_of(result.state())) {
      const auto argument = argument_of(part.get());
      plan.results.push_back({argument.has_value(), argument ? *argument : outputs});
      if (!argument) ++outputs;
    }
    const detail::Placed* placed = result.state()->placed.get();
    is_spread = is_spread || placed;
    plan.spreads.push_back(
        placed ? std::optional(CallPlan::Spread{placed->mapping, placed->shape, placed->mapping_id})
               : std::nullopt);
  }
  if (!is_spread) plan.spreads.clear();
  // A number that is no input of its own, or that became a constant, is a part of the program.
  std::vector<bool> is_input(arguments_.num_numbers);
  bool needs_values = false;
  for (const Recording::Source& source : recording.sources()) {
    if (source.tensor) continue;
    is_input[source.argument] = true;
    needs_values = needs_values || source.baked;
  }
  for (const bool is : is_input) needs_values = needs_values || !is;
  if (needs_values) {
    CallPlan family;
    family.needs_values = true;
    // `find` has added the values already where the family was known.
    if (!arguments_.has_values) {
      CallCache::insert(arguments_.key, std::move(family));
      arguments_.add_values();
      if (!arguments_.key.usable()) return;
    }
  }
  CallCache::insert(arguments_.key, std::move(plan));
}

}  // namespace kiln::experimental
