#include "kiln/graph/graph.h"

#include "kiln/graph/graph_state.h"
#include "kiln/graph/infer.h"
#include "kiln/graph/ir_clone.h"
#include "kiln/graph/symbols.h"
#include "kiln/support/error.h"
#include "kiln/support/file.h"
#include "kiln/support/format.h"

namespace kiln::graph {
namespace detail {
namespace {

/// Names of the policies in the IR text.
std::string_view policy_text(DevicePlacementPolicy policy) {
  switch (policy) {
    case DevicePlacementPolicy::Ignore:
      return "ignore";
    case DevicePlacementPolicy::Warn:
      return "warn";
    case DevicePlacementPolicy::Error:
      return "error";
  }
  return "warn";
}

std::shared_ptr<GraphState> make_state(std::shared_ptr<ModuleState> module, std::string name,
                                       std::string ir_name) {
  auto graph = std::make_unique<ir::Graph>();
  graph->name = std::move(ir_name);
  graph->module = &module->ir;
  graph->body = std::make_unique<ir::Block>();
  graph->body->graph = graph.get();
  auto state = std::make_shared<GraphState>();
  state->graph = graph.get();
  state->name = std::move(name);
  state->blocks = {graph->body.get()};
  module->ir.graphs.push_back(std::move(graph));
  state->module = std::move(module);
  return state;
}

void add_inputs(GraphState& state, const std::vector<Type>& types, bool algebraic_allowed) {
  Shape dims;
  for (const Type& type : types) {
    if (type.is_chain()) throw TypeError("A graph's chains are made by kiln; they are no inputs.");
    if (!type.is_opaque()) {
      for (const Dim& dim : type.shaped().shape) {
        if (dim.is_algebraic() && !algebraic_allowed)
          throw ValueError(
              format("Input type {} of graph '{}' has the algebraic dim {}, whose symbols "
                     "cannot be solved for; name the dim with a symbol of its own.",
                     type.repr(), state.name, dim.repr()));
        dims.push_back(dim);
      }
    }
    check_size(format("Input {} of graph '{}'", state.graph->body->arguments.size(), state.name),
               type);
    state.inputs.push_back(add_argument(*state.graph, type));
  }
  state.graph->parameters = dims.parameters();
  state.symbols.insert(state.graph->parameters.begin(), state.graph->parameters.end());
  state.given_symbols = state.symbols;
}

void start_chains(GraphState& state) {
  ir::Op* op = ir::append_op(state.block(), OpKind::chain_create, {});
  state.always_ready = op->result();
  if (state.chains.empty()) state.chains[DeviceRef::CPU()] = op->result();
  state.weights_end = state.block().ops.size();
}

/// A graph state around a graph that was read or copied.
std::shared_ptr<GraphState> adopt(std::shared_ptr<ModuleState> module, ir::Graph* graph) {
  auto state = std::make_shared<GraphState>();
  state->module = std::move(module);
  state->graph = graph;
  state->name = graph->name;
  state->blocks = {graph->body.get()};
  state->kernel_libraries = graph->kernel_libraries;
  for (DevicePlacementPolicy policy :
       {DevicePlacementPolicy::Ignore, DevicePlacementPolicy::Warn, DevicePlacementPolicy::Error})
    if (policy_text(policy) == graph->strict_device_placement) state->placement = policy;
  for (const auto& argument : graph->body->arguments)
    if (!argument->type.is_chain()) state->inputs.push_back(argument.get());
  state->symbols.insert(graph->parameters.begin(), graph->parameters.end());
  state->given_symbols = state->symbols;
  // Where a half-built graph goes on: behind its last side effect.
  for (const auto& op : graph->body->ops) {
    note_symbols(*op, state->symbols);
    if (op->results.empty() || !op->results.back()->type.is_chain()) continue;
    state->chains[DeviceRef::CPU()] = op->results.back().get();
    if (!state->always_ready) state->always_ready = op->results.back().get();
  }
  return state;
}

void collect_callees(const ir::Block& block, const ir::Module& module,
                     std::vector<const ir::Graph*>& out) {
  for (const auto& op : block.ops) {
    if (op->kind == OpKind::call) {
      const ir::Graph* callee = module.find(op->attribute<std::string>("callee"));
      if (callee && std::find(out.begin(), out.end(), callee) == out.end()) {
        out.push_back(callee);
        collect_callees(*callee->body, module, out);
      }
    }
    for (const auto& region : op->regions) collect_callees(*region, module, out);
  }
}

std::string unused_name(const ir::Module& module, const std::string& name) {
  if (!module.find(name)) return name;
  for (int i = 1;; ++i)
    if (std::string next = format("{}.{}", name, i); !module.find(next)) return next;
}

}  // namespace

std::vector<const ir::Graph*> with_callees(const ir::Graph& graph) {
  std::vector<const ir::Graph*> graphs = {&graph};
  collect_callees(*graph.body, *graph.module, graphs);
  return graphs;
}

}  // namespace detail

using detail::GraphState;

std::string_view to_string(DevicePlacementPolicy policy) {
  switch (policy) {
    case DevicePlacementPolicy::Ignore:
      return "Ignore";
    case DevicePlacementPolicy::Warn:
      return "Warn";
    case DevicePlacementPolicy::Error:
      return "Error";
  }
  return "?";
}

Graph::Graph(std::string name, GraphOptions options) {
  check_name("graph", name);
  auto module = options.module ? options.module->state() : std::make_shared<detail::ModuleState>();
  state_ = detail::make_state(module, name, name);
  try {
    detail::add_inputs(*state_, options.input_types, false);
  } catch (...) {
    module->ir.graphs.pop_back();
    throw;
  }
  state_->placement = options.strict_device_placement;
  state_->graph->strict_device_placement = detail::policy_text(options.strict_device_placement);
  state_->kernel_libraries = state_->graph->kernel_libraries = options.custom_extensions;
  state_->graph->is_device_graph = options.is_device_graph;
  detail::start_chains(*state_);
}

Graph Graph::parse(std::string_view text, std::string_view file_name) {
  std::unique_ptr<ir::Module> parsed = ir::parse(text, file_name);
  if (parsed->graphs.empty()) throw ValueError(format("{} holds no graph.", file_name));
  auto module = std::make_shared<detail::ModuleState>();
  module->ir.graphs = std::move(parsed->graphs);
  for (auto& graph : module->ir.graphs) graph->module = &module->ir;
  ir::Graph* first = module->ir.graphs[0].get();
  return Graph(detail::adopt(module, first));
}

Graph Graph::load(const std::string& path) { return parse(read_file(path), path); }

Graph::Scope::Scope(const Graph& graph) : state_(graph.state()) { detail::push_graph(state_); }
Graph::Scope::~Scope() { detail::pop_graph(state_.get()); }

Graph Graph::current() { return Graph(detail::current_graph()); }
bool Graph::has_current() noexcept { return detail::has_current_graph(); }

const std::string& Graph::name() const { return state_->name; }
Module Graph::module() const { return Module(state_->module); }
std::vector<Value> Graph::inputs() const {
  std::vector<Value> handles;
  for (ir::Value* input : state_->inputs) handles.push_back(state_->handle(input));
  return handles;
}
bool Graph::is_subgraph() const { return state_->graph->is_subgraph; }
bool Graph::has_output() const { return state_->graph->terminator() != nullptr; }
std::vector<std::string> Graph::kernel_libraries_paths() const { return state_->kernel_libraries; }
DevicePlacementPolicy Graph::strict_device_placement() const { return state_->placement; }
const ir::Graph& Graph::ir() const { return *state_->graph; }

void Graph::output(std::initializer_list<TensorValueLike> values, Location location) const {
  output(std::vector<TensorValueLike>(values), location);
}

void Graph::output(const TensorValueLike& value) const { output({value}, value.location()); }

void Graph::output(const std::vector<TensorValueLike>& values, Location location) const {
  LocationScope at(location);
  std::vector<Value> tensors;
  {
    // Dims and shapes become ops of this graph, whether or not it is the current one.
    Scope scope(*this);
    for (const TensorValueLike& value : values) tensors.push_back(detail::strong_tensor(value));
  }
  output_values(tensors, location);
}

void Graph::output_values(const std::vector<Value>& values, Location location) const {
  LocationScope at(location);
  if (has_output()) throw ValueError(format("graph '{}' already has an output", name()));
  if (state_->blocks.size() > 1)
    throw ValueError(format("graph '{}' cannot end inside a region of control flow", name()));
  Scope scope(*this);
  std::vector<ir::Value*> operands;
  for (const Value& value : values) {
    if (value.type().is_buffer())
      throw TypeError(
          format("A BufferValue cannot be an output of graph '{}': load it first with "
                 "ops.buffer_load.",
                 name()));
    operands.push_back(detail::operand_of(*state_, value));
  }
  ir::Graph& graph = *state_->graph;
  if (graph.is_subgraph)
    for (DeviceRef device : state_->chain_devices) operands.push_back(state_->chain(device));
  ir::append_op(*graph.body, OpKind::output, std::move(operands), {}, {}, current_location());
  int inputs = 0, chains = 0;
  for (const auto& argument : graph.body->arguments)
    graph.argument_names.push_back(argument->type.is_chain() ? format("chain{}", chains++)
                                                             : format("input{}", inputs++));
  for (std::size_t i = 0; i < values.size(); ++i)
    graph.result_names.push_back(format("output{}", i));
  ir::verify(graph);
}

std::vector<Type> Graph::output_types() const {
  const ir::Op* end = state_->graph->terminator();
  if (!end) throw TypeError("Graph not yet terminated by a call to output");
  std::vector<Type> types;
  for (const ir::Value* value : end->operands)
    if (!value->type.is_chain()) types.push_back(value->type);
  return types;
}

Graph Graph::add_subgraph(std::string name, SubgraphOptions options) const {
  check_name("graph", name);
  if (name == this->name())
    throw ValueError(format(
        "'{}' is the name of the graph itself; choose another one for a subgraph of it.", name));
  if (state_->subgraphs.count(name))
    throw ValueError(format("Graph '{}' already has a subgraph named '{}'; choose another name.",
                            this->name(), name));
  std::string ir_name = detail::unused_name(state_->module->ir, name);
  auto sub = detail::make_state(state_->module, name, ir_name);
  ir::Graph& graph = *sub->graph;
  graph.is_subgraph = true;
  sub->symbols = state_->symbols;
  detail::add_inputs(*sub, options.input_types, true);
  sub->placement = state_->placement;
  graph.strict_device_placement = state_->graph->strict_device_placement;
  sub->kernel_libraries = state_->kernel_libraries;
  sub->kernel_libraries.insert(sub->kernel_libraries.end(), options.custom_extensions.begin(),
                               options.custom_extensions.end());
  graph.kernel_libraries = sub->kernel_libraries;
  sub->chain_devices = {DeviceRef::CPU()};
  for (DeviceRef device : options.devices)
    if (device.is_gpu()) sub->chain_devices.push_back(device);
  for (DeviceRef device : sub->chain_devices) {
    sub->chains[device] = detail::add_argument(graph, ChainType{});
  }
  detail::start_chains(*sub);
  state_->subgraphs[name] = ir_name;
  return Graph(sub);
}

TensorValue Graph::add_weight(const Weight& weight, const AddWeightOptions& options) const {
  ir::Value* value =
      detail::weight_value(*state_, weight.weight_state(), options.force_initial_weight_on_host);
  return TensorValue(state_->handle(value));
}

std::unique_ptr<ir::Module> Graph::extract() const {
  auto module = std::make_unique<ir::Module>();
  for (const ir::Graph* graph : detail::with_callees(*state_->graph))
    module->graphs.push_back(ir::clone_graph(*graph, module.get()));
  return module;
}

std::string Graph::to_text(const ir::TextOptions& options) const {
  return ir::to_text(*extract(), options);
}

Graph Graph::copy() const {
  if (state_->blocks.size() > 1)
    throw RuntimeError(
        format("Graph '{}' cannot be copied while one of its regions is being built.", name()));
  auto module = std::make_shared<detail::ModuleState>();
  std::unordered_map<const ir::Value*, ir::Value*> map;
  for (const ir::Graph* graph : detail::with_callees(*state_->graph))
    module->ir.graphs.push_back(
        ir::clone_graph(*graph, &module->ir, graph == state_->graph ? &map : nullptr));
  std::shared_ptr<GraphState> copy = detail::adopt(module, module->ir.graphs[0].get());
  copy->name = state_->name;
  copy->subgraphs = state_->subgraphs;
  copy->symbols = state_->symbols;
  copy->given_symbols = state_->given_symbols;
  copy->chain_devices = state_->chain_devices;
  copy->weights_end = state_->weights_end;
  if (auto it = map.find(state_->always_ready); it != map.end()) copy->always_ready = it->second;
  copy->chains.clear();
  for (auto [device, chain] : state_->chains) copy->chains[device] = map.at(chain);
  copy->seeds = state_->seeds;
  for (detail::RandomSeed& seed : copy->seeds)
    if (seed.value) seed.value = map.at(seed.value);
  if (state_->caller_seed) copy->caller_seed = map.at(state_->caller_seed);
  copy->caller_draws = state_->caller_draws;
  for (const auto& [weight, known] : state_->weights)
    copy->weights[weight] = {known.state, map.at(known.value)};
  return Graph(copy);
}

Value Graph::device_chain(DeviceRef device) const {
  Scope scope(*this);
  return state_->handle(state_->chain(device));
}

Value Graph::always_ready_chain() const { return state_->handle(state_->always_ready); }

// ---- Module ----

Module::Module() : state_(std::make_shared<detail::ModuleState>()) {}

std::vector<std::string> Module::top_level_graph_names() const {
  std::vector<std::string> names;
  for (const auto& graph : state_->ir.graphs)
    if (!graph->is_subgraph) names.push_back(graph->name);
  return names;
}

std::string Module::to_string() const { return to_text({}); }
std::string Module::to_text(const ir::TextOptions& options) const {
  return ir::to_text(state_->ir, options);
}
const ir::Module& Module::ir() const { return state_->ir; }

}  // namespace kiln::graph
