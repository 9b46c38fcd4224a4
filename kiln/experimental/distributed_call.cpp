#include "kiln/experimental/distributed_call.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "kiln/experimental/placement_rules.h"
#include "kiln/experimental/redistribution.h"
#include "kiln/graph/location.h"
#include "kiln/graph/op_info.h"
#include "kiln/graph/recorded_graph.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/warning.h"

namespace kiln::experimental {
namespace {

using graph::Shape;
namespace ir = graph::ir;

thread_local DistributedCall* innermost = nullptr;

/// How many elements a symbolic size counts for when moves are compared.
constexpr double kUsualSize = 1024;

double bytes_of(const graph::TensorType& type) {
  double bytes = type.dtype.size_in_bits() / 8.0;
  for (const graph::Dim& dim : type.shape)
    bytes *= dim.is_static() ? static_cast<double>(dim.value()) : kUsualSize;
  return bytes;
}

bool has_chain(const ir::Op& op) {
  return std::any_of(op.results.begin(), op.results.end(),
                     [](const auto& result) { return result->type.is_chain(); });
}

}  // namespace

/// Chooses what every value of the op's graph holds.
class PlacementSolver {
 public:
  struct Input {
    const ir::Value* value;
    std::string what;  // for reports
    DeviceMapping now;
    bool is_constant;
  };
  using Placements = std::unordered_map<const ir::Value*, std::vector<Placement>>;

  PlacementSolver(const char* name, const DeviceMesh& mesh, const ir::Block& body,
                  std::vector<Input> inputs)
      : name_(name), mesh_(mesh), body_(body), inputs_(std::move(inputs)) {
    if (const AutoReshard::Settings* settings = AutoReshard::current()) settings_ = *settings;
    for (int axis = 0; axis < mesh_.ndim(); ++axis) solve(axis);
    report();
  }

  DeviceMapping mapping(const ir::Value* value) const { return {mesh_, placements_.at(value)}; }

 private:
  using Choice = std::vector<Placement>;
  using Marks = std::unordered_map<const ir::Value*, Placement>;

  void solve(int axis) {
    axis_ = axis;
    best_.reset();
    std::vector<std::vector<Placement>> candidates;
    double combinations = 1;
    for (const Input& input : inputs_) {
      candidates.push_back(reachable(input));
      combinations *= static_cast<double>(candidates.back().size());
    }
    // Copies come first, so they win ties: slices of copies are free and of no use by themselves.
    if (combinations <= kMostCombinations) {
      Choice choice(inputs_.size());
      enumerate(candidates, choice, 0);
    } else {
      try_aligned(candidates);
    }
    if (!best_) throw_no_plan();
    for (const auto& [value, placement] : best_->marks) placements_[value].push_back(placement);
    moves_.push_back(std::move(best_->moves));
  }

  const Placement& now(const Input& input) const {
    return input.now.placements()[static_cast<std::size_t>(axis_)];
  }

  std::vector<Placement> reachable(const Input& input) const {
    std::vector<Placement> all{Replicated{}};
    // An axis that is too short for every device to get some of it is not split anew.
    const Shape& shape = input.value->type.shaped().shape;
    for (int i = 0; i < shape.rank(); ++i) {
      const graph::Dim& dim = shape[static_cast<std::size_t>(i)];
      const bool is_short = dim.is_static() && dim.value() < mesh_.axis_size(axis_);
      if (!is_short || now(input) == Placement(Sharded{i})) all.emplace_back(Sharded{i});
    }
    if (kind_of(now(input)) == PlacementKind::partial) all.push_back(now(input));
    std::erase_if(all, [&](const Placement& to) {
      return !(now(input) == to) &&
             (settings_.allowed.count({kind_of(now(input)), kind_of(to)}) == 0 ||
              !move_to(input, to));
    });
    return all;
  }

  std::optional<detail::Move> move_to(const Input& input, const Placement& to) const {
    double bytes = bytes_of(input.value->type.tensor());
    for (int axis = 0; axis < mesh_.ndim(); ++axis)
      if (axis != axis_ &&
          kind_of(input.now.placements()[static_cast<std::size_t>(axis)]) == PlacementKind::sharded)
        bytes /= mesh_.axis_size(axis);
    return detail::move_between(now(input), to, mesh_.axis_size(axis_), bytes);
  }

  void enumerate(const std::vector<std::vector<Placement>>& candidates, Choice& choice,
                 std::size_t input) {
    if (input == candidates.size()) return consider(choice);
    for (const Placement& placement : candidates[input]) {
      choice[input] = placement;
      enumerate(candidates, choice, input + 1);
    }
  }

  /// For many inputs: as they are, and each placement for all of them that may have it.
  void try_aligned(const std::vector<std::vector<Placement>>& candidates) {
    std::vector<Placement> distinct;
    for (const auto& list : candidates)
      for (const Placement& placement : list)
        if (std::find(distinct.begin(), distinct.end(), placement) == distinct.end())
          distinct.push_back(placement);
    Choice as_they_are;
    for (const Input& input : inputs_) as_they_are.push_back(now(input));
    for (const Placement& placement : distinct) {
      Choice choice;
      for (const auto& list : candidates) {
        const bool may = std::find(list.begin(), list.end(), placement) != list.end();
        if (!may && list.empty()) return;
        choice.push_back(may ? placement : list.front());
      }
      consider(choice);
    }
    consider(as_they_are);
  }

  void consider(const Choice& choice) {
    double cost = 0;
    std::vector<detail::Move> moves;
    for (std::size_t i = 0; i < choice.size(); ++i) {
      const auto move = move_to(inputs_[i], choice[i]);
      if (!move) return;
      moves.push_back(*move);
      cost += move->bytes;
    }
    if (best_ && cost >= best_->cost) return;
    if (auto marks = propagate(choice)) best_ = Best{cost, std::move(*marks), std::move(moves)};
  }

  std::optional<Marks> propagate(const Choice& choice) const {
    Marks marks;
    for (std::size_t i = 0; i < choice.size(); ++i) marks.emplace(inputs_[i].value, choice[i]);
    for (const auto& op : body_.ops) {
      if (has_chain(*op) || marks.count(op->result()) != 0) continue;
      std::vector<Placement> operands;
      for (const ir::Value* operand : op->operands) operands.push_back(marks.at(operand));
      const auto results = result_placements(*op, operands, mesh_.num_devices());
      if (!results) return std::nullopt;
      for (std::size_t i = 0; i < results->size(); ++i)
        marks.emplace(op->results[i].get(), (*results)[i]);
    }
    return marks;
  }

  std::string layout_of(const Input& input, const DeviceMapping& mapping) const {
    const graph::TensorType& type = input.value->type.tensor();
    return TensorLayout(type.dtype, type.shape, mapping).to_string();
  }

  [[noreturn]] void throw_no_plan() const {
    std::vector<std::string> layouts, allowed;
    for (const Input& input : inputs_)
      if (!input.is_constant) layouts.push_back(layout_of(input, input.now));
    for (const auto& [from, to] : settings_.allowed)
      allowed.push_back(format("{} to {}", to_string(from), to_string(to)));
    if (allowed.empty()) allowed.emplace_back("nothing");
    throw ShardingError(
        format("'{}' accepts no placement along the mesh axis '{}' that its inputs {} can reach. "
               "Allowed without being asked for: {}. Move an input with F.transfer_to first.",
               name_, mesh_.axis_names()[static_cast<std::size_t>(axis_)], join(layouts, ", "),
               join(allowed, ", ")));
  }

  void report() const {
    if (settings_.mode == ReshardMode::silent) return;
    std::string text;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      std::vector<std::string> done;
      for (std::size_t axis = 0; axis < moves_.size(); ++axis)
        if (moves_[axis][i].bytes > 0)
          done.push_back(format("{} over '{}' of {:.0f} bytes for each device",
                                moves_[axis][i].name, mesh_.axis_names()[axis],
                                moves_[axis][i].bytes));
      if (done.empty()) continue;
      const Input& input = inputs_[i];
      const DeviceMapping wanted = mapping(input.value);
      text += format("\n{} {}: needs {}; F.transfer_to(…, {}) makes it explicit.", input.what,
                     layout_of(input, input.now), join(done, " and "), wanted.to_string());
    }
    if (text.empty()) return;
    text = format("'{}' has to move distributed inputs:{}", name_, text);
    if (settings_.mode == ReshardMode::raise) throw ShardingError(text);
    warn(text);
  }

  struct Best {
    double cost;
    Marks marks;
    std::vector<detail::Move> moves;
  };
  static constexpr double kMostCombinations = 4096;

  const char* name_;
  const DeviceMesh& mesh_;
  const ir::Block& body_;
  std::vector<Input> inputs_;
  AutoReshard::Settings settings_{default_transitions(), ReshardMode::silent};
  int axis_ = 0;
  std::optional<Best> best_;
  Placements placements_;
  std::vector<std::vector<detail::Move>> moves_;  // by mesh axis and input
};

DistributedCall::DistributedCall(const char* name) : name_(name), graph_(name), outer_(innermost) {
  graph::see_symbols(graph_);
  scope_.emplace(graph_);
  innermost = this;
}

DistributedCall::~DistributedCall() { innermost = outer_; }

DistributedCall* DistributedCall::current() noexcept {
  return innermost && graph::Graph::has_current() && graph::Graph::current() == innermost->graph_
             ? innermost
             : nullptr;
}

graph::TensorValue DistributedCall::input(const detail::StatePtr& tensor) {
  for (const Source& source : sources_)
    if (source.tensor == tensor) return source.value.tensor();
  const Tensor handle(tensor);
  // All on one device, so that the op finds its operands together.
  const graph::DeviceRef device = handle.mapping().mesh().devices()[0];
  const graph::Value value =
      graph::append_input(graph_, graph::TensorType(handle.dtype(), handle.shape(), device));
  sources_.push_back({.value = value, .tensor = tensor});
  return value.tensor();
}

graph::TensorValue DistributedCall::number(graph::NumberSource& source, DType dtype,
                                           graph::DeviceRef device) {
  const graph::Value value = graph::append_input(graph_, graph::TensorType(dtype, {}, device));
  sources_.push_back({.value = value, .number = &source, .dtype = dtype});
  return value.tensor();
}

namespace {

/// The attributes of `op` for one device's part: sizes of the whole become those of the part.
ir::Attributes local_attributes(const ir::Op& op, const std::vector<graph::Value>& operands,
                                const Shape& local_result) {
  ir::Attributes attributes = op.attributes;
  switch (op.kind) {
    case graph::OpKind::reshape:
    case graph::OpKind::broadcast_to:
    case graph::OpKind::rebind:
      attributes["shape"] = local_result;
      break;
    case graph::OpKind::slice: {
      auto& stops = std::get<Shape>(attributes["stops"]);
      const Shape& whole = op.operands[0]->type.shaped().shape;
      const Shape part = operands[0].type().shaped().shape;
      for (std::size_t i = 0; i < stops.size(); ++i)
        if (stops[i] == whole[i]) stops[i] = part[i];
      if (op.has_attribute("out_dims")) attributes["out_dims"] = local_result;
      break;
    }
    default:
      break;
  }
  return attributes;
}

}  // namespace

std::vector<DistributedCall::Result> DistributedCall::end(
    const std::vector<graph::Value>& results) {
  const ir::Block& body = *graph_.ir().body;
  std::optional<DeviceMesh> mesh;
  std::string where;
  for (const Source& source : sources_) {
    if (!source.tensor || !source.tensor->placed) continue;
    const DeviceMapping& mapping = source.tensor->placed->mapping;
    if (mesh && !(*mesh == mapping.mesh()))
      throw ValueError(
          format("'{}' got tensors on {} and on {}. Bring them to one mesh with F.transfer_to "
                 "first.",
                 name_, mesh->to_string(), mapping.mesh().to_string()));
    mesh = mapping.mesh();
    where = mapping.to_string();
  }
  for (const auto& op : body.ops)
    if (!op->regions.empty() || op->kind == graph::OpKind::call ||
        (graph::op_info(op->kind).effects && op->kind != graph::OpKind::chain_create))
      throw ValueError(
          format("Cannot call '{}' on a sharded tensor distributed over {}. Use per-shard access "
                 "or transfer_to first.",
                 name_, where));

  const DeviceMapping copies = DeviceMapping::replicated(*mesh);
  std::vector<PlacementSolver::Input> inputs;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const Source& source = sources_[i];
    DeviceMapping now = copies;
    if (source.tensor && source.tensor->placed) {
      now = source.tensor->placed->mapping;
    } else if (source.tensor) {
      const driver::Device device = Tensor(source.tensor).device();
      const auto& devices = mesh->devices();
      if (std::any_of(devices.begin(), devices.end(), [&](const auto& d) { return d != device; }))
        throw ValueError(
            format("'{}' got a tensor on {} beside one that is distributed over {}. Bring it to "
                   "the mesh with F.transfer_to first.",
                   name_, device.to_string(), where));
    }
    inputs.push_back({source.value.ir_value(), format("input {}", i), std::move(now), false});
  }
  const std::size_t constants = sources_.size();
  for (const auto& op : body.ops)
    if (op->kind == graph::OpKind::constant && op->result()->type.shaped().rank() > 0)
      inputs.push_back({op->result(), "constant", copies, true});

  const PlacementSolver solver(name_, *mesh, body, inputs);
  leave();
  // What moves inputs belongs to the line of the op that asks for it.
  const auto with_place = std::find_if(body.ops.begin(), body.ops.end(),
                                       [](const auto& op) { return op->location != nullptr; });
  const graph::LocationScope at(with_place == body.ops.end() ? nullptr : (*with_place)->location);
  const auto count = static_cast<std::size_t>(mesh->num_devices());
  std::unordered_map<const ir::Value*, std::vector<graph::Value>> values;
  const auto move = [&](const PlacementSolver::Input& input,
                        const std::vector<graph::TensorValue>& parts) {
    const auto moved = detail::redistribute(parts, input.now, solver.mapping(input.value),
                                            input.value->type.shaped().shape);
    values[input.value].assign(moved.begin(), moved.end());
  };
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const Source& source = sources_[i];
    std::vector<graph::TensorValue> parts;
    for (std::size_t device = 0; device < count; ++device) {
      if (!source.tensor)
        parts.push_back(device > 0 && mesh->is_simulated()
                            ? parts[0]
                            : source.number->tensor(source.dtype, mesh->devices()[device]));
      else
        parts.push_back(
            Tensor(source.tensor->placed ? source.tensor->placed->shards[device] : source.tensor)
                .tensorvalue());
    }
    move(inputs[i], parts);
  }
  std::size_t next_constant = constants;
  for (const auto& op : body.ops) {
    if (has_chain(*op)) continue;
    std::vector<std::vector<Shape>> local;
    for (const auto& result : op->results)
      local.push_back(solver.mapping(result.get()).local_shapes(result->type.shaped().shape));
    const bool is_input =
        op->kind == graph::OpKind::constant && op->result()->type.shaped().rank() > 0;
    std::vector<graph::TensorValue> parts;
    for (std::size_t device = 0; device < count; ++device) {
      std::vector<graph::Value> operands;
      for (const ir::Value* operand : op->operands) operands.push_back(values.at(operand)[device]);
      ir::Attributes attributes = local_attributes(*op, operands, local[0][device]);
      const auto made =
          graph::repeat_op(*op, operands, std::move(attributes), mesh->devices()[device]);
      if (is_input) {
        parts.push_back(made[0].tensor());
        continue;
      }
      for (std::size_t i = 0; i < made.size(); ++i) values[op->results[i].get()].push_back(made[i]);
    }
    if (is_input) move(inputs[next_constant++], parts);
  }
  std::vector<Result> spread;
  for (const graph::Value& result : results) {
    const ir::Value* value = result.ir_value();
    spread.push_back({values.at(value), solver.mapping(value), value->type.shaped().shape});
    for (std::size_t i = 0; i < sources_.size(); ++i)
      if (inputs[i].value == value && sources_[i].tensor && sources_[i].tensor->placed &&
          inputs[i].now == spread.back().mapping)
        spread.back().same = sources_[i].tensor;
  }
  return spread;
}

}  // namespace kiln::experimental
