#include "kiln/graph/graph_state.h"

#include "kiln/graph/current_graph.h"
#include "kiln/graph/infer.h"
#include "kiln/graph/layout.h"
#include "kiln/graph/symbols.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph::detail {
namespace {

thread_local std::vector<std::shared_ptr<GraphState>> active;

std::string attribute_repr(const ir::Attribute& attribute) {
  struct Visitor {
    std::string operator()(bool v) const { return v ? "True" : "False"; }
    std::string operator()(std::int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return format("{}", v); }
    std::string operator()(const std::string& v) const { return format("'{}'", v); }
    std::string operator()(DType v) const { return v.to_string(); }
    std::string operator()(const DeviceRef& v) const { return v.to_string(); }
    std::string operator()(const Dim& v) const { return v.repr(); }
    std::string operator()(const Shape& v) const { return v.repr(); }
    std::string operator()(FilterLayout v) const { return std::string(graph::to_string(v)); }
    std::string operator()(const std::vector<std::int64_t>& v) const {
      return format("[{}]", join(v, ", "));
    }
    std::string operator()(const std::vector<std::string>& v) const {
      return format("[{}]", join(v, ", "));
    }
    std::string operator()(const std::shared_ptr<const ir::ConstantData>& v) const {
      return format("{} bytes", v ? v->bytes.size() : 0);
    }
  };
  return std::visit(Visitor{}, attribute);
}

std::string failed_op(OpKind kind, const std::vector<Value>& operands,
                      const std::vector<ir::Value*>& values, const ir::Attributes& attributes,
                      const std::string& reason) {
  std::string text = format("Failed to create op '{}':\nInputs:\n", graph::to_string(kind));
  Inference names{kind, values, attributes, {}};
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (!values[i]->type.is_chain())
      text += format("    {} = {}\n", names.operand_name(i), operands[i].repr());
  for (const auto& [name, value] : attributes)
    text += format("    {} = {}\n", name, attribute_repr(value));
  return text + "\n" + reason;
}

/// A symbol that the op, the last of its block, uses but nobody defines: ValueError, and the op is
/// taken back.
void check_symbols(GraphState& graph, const ir::Op& op) {
  const std::optional<std::string> undefined = note_symbols(op, graph.symbols);
  if (!undefined) return;
  graph.block().ops.pop_back();
  throw ValueError(undefined_symbol_text(*undefined, graph.name));
}

void check_open(const GraphState& graph) {
  if (graph.graph->terminator())
    throw ValueError(
        format("graph '{}' already has an output; no op can be added behind it", graph.name));
}

}  // namespace

ir::Value* add_argument(ir::Graph& graph, Type type) {
  auto value = std::make_unique<ir::Value>(ir::Value{std::move(type)});
  value->block = graph.body.get();
  value->index = static_cast<std::uint32_t>(graph.body->arguments.size());
  graph.body->arguments.push_back(std::move(value));
  return graph.body->arguments.back().get();
}

std::shared_ptr<GraphState> current_graph_or_null() {
  return active.empty() ? nullptr : active.back();
}

bool has_current_graph() noexcept { return !active.empty(); }

const std::shared_ptr<GraphState>& current_graph() {
  if (active.empty()) throw LookupError("No graph found");
  return active.back();
}

const std::shared_ptr<GraphState>& current_graph_for(std::span<const Value> operands) {
  if (active.empty())
    for (const Value& operand : operands)
      if (operand.weight_state())
        throw ValueError("Cannot operate on a kiln.graph.Weight when there is no parent graph.");
  return current_graph();
}

void push_graph(const std::shared_ptr<GraphState>& graph) {
  std::thread::id nobody;
  const std::thread::id self = std::this_thread::get_id();
  if (!graph->owner.compare_exchange_strong(nobody, self) && nobody != self)
    throw RuntimeError(format(
        "Graph '{}' is being built by another thread; one thread builds a graph.", graph->name));
  active.push_back(graph);
  ++graph->depth;
}

void pop_graph(GraphState* graph) noexcept {
  // Scopes normally end in reverse order; a binding's may not, so the last one of this graph goes.
  for (auto it = active.rbegin(); it != active.rend(); ++it) {
    if (it->get() != graph) continue;
    if (--graph->depth == 0) graph->owner = std::thread::id();
    active.erase(std::next(it).base());
    return;
  }
}

ir::Value*& GraphState::chain(DeviceRef device) {
  auto it = chains.find(device);
  if (it != chains.end()) return it->second;
  auto host = chains.find(DeviceRef::CPU());
  KILN_CHECK(host != chains.end(), format("graph '{}' has no host chain", name));
  ir::Op* op =
      ir::append_op(block(), OpKind::chain_create, {host->second}, {}, {}, current_location());
  return chains[device] = op->result();
}

ir::Value* operand_of(GraphState& graph, const Value& value) {
  if (const auto& weight = value.weight_state()) return weight_value(graph, weight);
  if (!value) throw ValueError("An empty value handle cannot be an operand.");
  if (value.graph_state().get() != &graph)
    throw ValueError(
        format("value belongs to graph '{}', not to '{}'", value.graph_state()->name, graph.name));
  ir::Value* operand = value.ir_value();
  if (std::find(graph.blocks.begin(), graph.blocks.end(), operand->block) == graph.blocks.end())
    throw ValueError(
        format("value {} of graph '{}' was made inside a region of control flow that has "
               "ended; return it from the region to use it outside",
               value.repr(), graph.name));
  return operand;
}

ir::Op* add_op(OpKind kind, const std::vector<Value>& operands, ir::Attributes attributes,
               std::vector<Type> declared) {
  GraphState& graph = *current_graph_for(operands);
  check_open(graph);
  std::vector<ir::Value*> values;
  values.reserve(operands.size());
  for (const Value& operand : operands) values.push_back(operand_of(graph, operand));
  try {
    ir::Op* op =
        ir::append_op(graph.block(), kind, values, attributes, declared, current_location());
    check_symbols(graph, *op);
    return op;
  } catch (const ValueError& e) {
    throw ValueError(failed_op(kind, operands, values, attributes, e.message()));
  }
}

TensorValue add_tensor_op(OpKind kind, const std::vector<Value>& operands,
                          ir::Attributes attributes, std::vector<Type> declared) {
  ir::Op* op = add_op(kind, operands, std::move(attributes), std::move(declared));
  return TensorValue(current_graph()->handle(op->result()));
}

Value chain_of(DeviceRef device) {
  GraphState& graph = *current_graph();
  check_open(graph);
  return graph.handle(graph.chain(device));
}

void advance_chain(DeviceRef device, const Value& chain) {
  current_graph()->chain(device) = chain.ir_value();
}

ir::Op* prepend_op(GraphState& graph, OpKind kind, std::vector<ir::Value*> operands,
                   ir::Attributes attributes, std::vector<Type> types) {
  ir::Block& body = *graph.blocks.front();
  ir::Op* op = ir::append_op(body, kind, std::move(operands), std::move(attributes),
                             std::move(types), current_location());
  auto first = body.ops.begin() + static_cast<std::ptrdiff_t>(graph.weights_end);
  std::rotate(first, body.ops.end() - 1, body.ops.end());
  ++graph.weights_end;
  return op;
}

ir::Value* external_constant(GraphState& graph, const std::string& name, const TensorType& type,
                             std::int64_t align, bool placeholder) {
  check_open(graph);
  return prepend_op(graph, OpKind::constant_external, {},
                    {{"name", name},
                     {"align", align},
                     {"device", type.device},
                     {"placeholder", placeholder}},
                    {type})
      ->result();
}

ir::Value* weight_value(GraphState& graph, const std::shared_ptr<WeightState>& weight,
                        bool on_host) {
  auto [it, fresh] = graph.weights.try_emplace(weight->name);
  if (!fresh) {
    if (it->second.state != weight)
      throw ValueError(
          format("Weight '{}' already exists in Graph '{}'; weights of one graph need "
                 "different names.",
                 weight->name, graph.name));
    return it->second.value;
  }
  try {
    ir::Value* value = nullptr;
    if (weight->whole) {
      // A shard is computed where it is first used; inside a region others could not see it.
      if (graph.blocks.size() > 1) {
        graph.weights.erase(it);
        return shard_value(graph, *weight);
      }
      value = shard_value(graph, *weight);
    } else {
      TensorType type = weight->type();
      if (on_host && type.device.is_gpu()) type.device = DeviceRef::CPU();
      value = external_constant(graph, weight->name, type, weight->align, graph.graph->is_subgraph);
      if (type.device != weight->device)
        value = prepend_op(graph, OpKind::transfer_to, {value}, {{"device", weight->device}}, {})
                    ->result();
    }
    it = graph.weights.find(weight->name);
    it->second = {weight, value};
    return value;
  } catch (...) {
    graph.weights.erase(weight->name);
    throw;
  }
}

}  // namespace kiln::graph::detail
