#include "kiln/graph/recorded_graph.h"

#include <algorithm>
#include <unordered_set>

#include "kiln/graph/graph_state.h"
#include "kiln/graph/infer.h"
#include "kiln/graph/ir_clone.h"
#include "kiln/graph/ops/constant.h"
#include "kiln/graph/ops/shape.h"
#include "kiln/graph/symbols.h"
#include "kiln/support/format.h"

namespace kiln::graph {
namespace {

void replace_operand(ir::Block& block, const ir::Value* from, ir::Value* to) {
  for (const auto& op : block.ops) {
    for (ir::Value*& operand : op->operands)
      if (operand == from) operand = to;
    for (const auto& region : op->regions) replace_operand(*region, from, to);
  }
}

/// Everywhere in a graph, also in what an op that is being put together will get.
void replace(detail::GraphState& state, const ir::Value* from, ir::Value* to) {
  const auto in_chains = [&](std::map<DeviceRef, ir::Value*>& chains) {
    for (auto& [device, chain] : chains)
      if (chain == from) chain = to;
  };
  replace_operand(*state.graph->body, from, to);
  in_chains(state.chains);
  for (const detail::GraphState::Loose& loose : state.loose) {
    if (loose.block) replace_operand(*loose.block, from, to);
    if (loose.chains) in_chains(*loose.chains);
    if (loose.results)
      std::replace(loose.results->begin(), loose.results->end(), const_cast<ir::Value*>(from), to);
  }
}

/// Finds what a part of a graph needs, from its end to its start.
class Needs {
 public:
  Needs(const ir::Block& body, const std::vector<ir::Value*>& results, bool effects) {
    for (const ir::Value* result : results) need(*result);
    for (auto op = body.ops.rbegin(); op != body.ops.rend(); ++op)
      if (is_needed(**op, effects)) add(**op);
  }

  bool has(const ir::Op& op) const { return ops_.count(&op) != 0; }
  bool has(const ir::Value& value) const { return values_.count(&value) != 0; }

 private:
  bool is_needed(const ir::Op& op, bool effects) const {
    bool defines_needed = false;
    for (const auto& result : op.results) {
      if (values_.count(result.get()) != 0) return true;
      if (result->type.is_chain()) {
        if (effects && op.kind != OpKind::chain_create) return true;
        continue;
      }
      if (result->type.is_opaque()) continue;
      for (const std::string& symbol : result->type.shaped().parameters())
        defines_needed = defines_needed || symbols_.count(symbol) != 0;
    }
    return defines_needed && defines_symbols(op);
  }

  void add(const ir::Op& op) {
    ops_.insert(&op);
    for (const ir::Value* operand : op.operands) need(*operand);
    for (const auto& [name, attribute] : op.attributes) {
      if (const auto* dim = std::get_if<Dim>(&attribute)) note(dim->parameters());
      if (const auto* shape = std::get_if<Shape>(&attribute)) note(shape->parameters());
    }
    for (const auto& result : op.results) need(*result);
    for (const auto& region : op.regions)
      for (const auto& inner : region->ops) add(*inner);
  }

  void need(const ir::Value& value) {
    values_.insert(&value);
    if (value.type.is_tensor() || value.type.is_buffer()) note(value.type.shaped().parameters());
  }

  void note(const std::vector<std::string>& symbols) {
    symbols_.insert(symbols.begin(), symbols.end());
  }

  std::unordered_set<const ir::Op*> ops_;
  std::unordered_set<const ir::Value*> values_;
  std::set<std::string> symbols_;
};

}  // namespace

Value append_input(const Graph& graph, const Type& type) {
  detail::GraphState& state = *graph.state();
  check_size(format("Input {} of graph '{}'", state.graph->body->arguments.size(), state.name),
             type);
  state.inputs.push_back(detail::add_argument(*state.graph, type));
  for (const std::string& symbol : type.shaped().parameters()) {
    state.symbols.insert(symbol);
    state.given_symbols.insert(symbol);
  }
  return state.handle(state.inputs.back());
}

void see_symbols(const Graph& graph) {
  const auto current = detail::current_graph_or_null();
  if (!current) return;
  graph.state()->symbols.insert(current->symbols.begin(), current->symbols.end());
}

void define_symbol(const std::string& symbol, const Dim& size) {
  if (detail::current_graph()->symbols.count(symbol) != 0) return;
  // No element of it is ever made.
  const TensorValue any = ops::constant(0, DType::int64, DeviceRef::CPU());
  ops::rebind(ops::broadcast_to(any, {size}), {Dim(symbol)});
}

BufferValue make_writable(const Graph& graph, const Value& input) {
  detail::GraphState& state = *graph.state();
  ir::Value* buffer = input.ir_value();
  buffer->type = buffer->type.tensor().as_buffer();
  // Behind the loads before it, and before all other side effects.
  ir::Value* before = state.loads_done ? state.loads_done : state.always_ready;
  ir::Op* load = detail::prepend_op(state, OpKind::buffer_load, {buffer, before}, {}, {});
  state.first_loads[buffer] = load->result();
  state.loads_done = load->result(1);
  replace(state, buffer, load->result());
  replace(state, before, state.loads_done);
  load->operands = {buffer, before};
  return BufferValue(state.handle(buffer));
}

bool is_in_region(const Graph& graph) { return graph.state()->blocks.size() > 1; }

bool is_of_region(const Graph& graph, const Value& value) {
  return value.ir_value()->block != graph.ir().body.get();
}

void bake_input(const Graph& graph, const Value& input, const void* data, std::size_t size) {
  detail::GraphState& state = *graph.state();
  auto value = std::make_shared<ir::ConstantData>();
  const auto* bytes = static_cast<const std::byte*>(data);
  value->bytes.assign(bytes, bytes + size);
  ir::Value* from = input.ir_value();
  ir::Op* constant = detail::prepend_op(
      state, OpKind::constant, {},
      {{"value", std::shared_ptr<const ir::ConstantData>(std::move(value))}}, {from->type});
  replace_operand(*state.graph->body, from, constant->result());
}

TensorValue held_constant(const std::shared_ptr<const void>& owner,
                          const std::function<TensorValue()>& make) {
  detail::GraphState& graph = *detail::current_graph();
  auto& held = graph.held[owner.get()];
  const bool is_visible =
      !held.owner.expired() &&
      std::find(graph.blocks.begin(), graph.blocks.end(), held.value->block) != graph.blocks.end();
  if (!is_visible) held = {owner, make().ir_value()};
  return TensorValue(graph.handle(held.value));
}

std::vector<Value> repeat_op(const ir::Op& op, const std::vector<Value>& operands,
                             ir::Attributes attributes, DeviceRef device) {
  std::vector<Type> declared;
  if (operands.empty())
    for (const auto& result : op.results) {
      const TensorType& type = result->type.tensor();
      declared.emplace_back(TensorType(type.dtype, type.shape, device));
    }
  ir::Op* made = detail::add_op(op.kind, operands, std::move(attributes), std::move(declared));
  made->location = op.location;
  std::vector<Value> results;
  for (const auto& result : made->results)
    results.push_back(detail::current_graph()->handle(result.get()));
  return results;
}

GraphPart isolate(const ir::Op& op) {
  GraphPart part;
  part.module = std::make_unique<ir::Module>();
  part.module->graphs.push_back(std::make_unique<ir::Graph>());
  ir::Graph& graph = *part.module->graphs.back();
  graph.name = std::string(to_string(op.kind));
  graph.module = part.module.get();
  graph.body = std::make_unique<ir::Block>();
  graph.body->graph = &graph;
  std::unordered_map<const ir::Value*, ir::Value*> map;
  ir::Value* chain = nullptr;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const ir::Value* operand = op.operands[i];
    if (operand->type.is_chain() || map.count(operand) != 0) continue;
    auto argument = std::make_unique<ir::Value>(ir::Value{operand->type});
    argument->block = graph.body.get();
    argument->index = static_cast<std::uint32_t>(part.inputs.size());
    map[operand] = argument.get();
    graph.body->arguments.push_back(std::move(argument));
    graph.argument_names.push_back(format("input{}", part.inputs.size()));
    for (const std::string& symbol : operand->type.shaped().parameters())
      if (std::find(graph.parameters.begin(), graph.parameters.end(), symbol) ==
          graph.parameters.end())
        graph.parameters.push_back(symbol);
    part.inputs.push_back(i);
  }
  std::vector<ir::Value*> operands;
  for (const ir::Value* operand : op.operands) {
    if (operand->type.is_chain() && !chain)
      chain = ir::append_op(*graph.body, OpKind::chain_create, {})->result();
    operands.push_back(operand->type.is_chain() ? chain : map.at(operand));
  }
  std::vector<Type> declared;
  for (const auto& result : op.results) declared.push_back(result->type);
  ir::Op* copy = ir::append_op(*graph.body, op.kind, std::move(operands), op.attributes,
                               std::move(declared), op.location);
  std::vector<ir::Value*> outputs;
  for (const auto& result : copy->results)
    if (!result->type.is_chain()) outputs.push_back(result.get());
  for (std::size_t i = 0; i < outputs.size(); ++i)
    graph.result_names.push_back(format("output{}", i));
  ir::append_op(*graph.body, OpKind::output, std::move(outputs));
  return part;
}

GraphPart extract(const Graph& graph, const std::vector<Value>& results, bool effects) {
  const ir::Graph& whole = graph.ir();
  std::vector<ir::Value*> values;
  for (const Value& result : results) values.push_back(result.ir_value());
  const Needs needs(*whole.body, values, effects);

  GraphPart part;
  part.module = std::make_unique<ir::Module>();
  std::unordered_map<const ir::Value*, ir::Value*> map;
  const ir::CloneFilter filter{[&](const ir::Op& op) { return needs.has(op); },
                               [&](const ir::Value& argument) { return needs.has(argument); }};
  part.module->graphs.push_back(ir::clone_graph(whole, part.module.get(), &map, &filter));
  ir::Graph& copy = *part.module->graphs.back();
  for (std::size_t i = 0; i < whole.body->arguments.size(); ++i)
    if (needs.has(*whole.body->arguments[i])) part.inputs.push_back(i);
  std::vector<ir::Value*> outputs;
  for (const ir::Value* value : values) outputs.push_back(map.at(value));
  ir::append_op(*copy.body, OpKind::output, std::move(outputs));
  copy.argument_names.clear();
  for (std::size_t i = 0; i < part.inputs.size(); ++i)
    copy.argument_names.push_back(format("input{}", i));
  copy.result_names.clear();
  for (std::size_t i = 0; i < results.size(); ++i)
    copy.result_names.push_back(format("output{}", i));
  for (const ir::Graph* callee : detail::with_callees(whole))
    if (callee != &whole)
      part.module->graphs.push_back(ir::clone_graph(*callee, part.module.get()));
  return part;
}

}  // namespace kiln::graph
