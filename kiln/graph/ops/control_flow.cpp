#include "kiln/graph/ops/control_flow.h"

#include "kiln/graph/current_graph.h"
#include "kiln/graph/infer.h"
#include "kiln/graph/location.h"
#include "kiln/graph/op_info.h"
#include "kiln/graph/ops/random.h"
#include "kiln/graph/promotion.h"
#include "kiln/graph/symbols.h"
#include "kiln/graph/weight.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

// Regions are recorded into blocks of their own before their op exists, since its chain results
// depend on which devices the regions touched. A region starts from the chains that are live
// outside; where a region moved one, every region of the op yields it and the op returns it. A
// chain that a region was the first to need is folded into the host's before the region ends.

namespace kiln::graph::ops {
namespace {

namespace d = graph::detail;

using Chains = std::map<DeviceRef, ir::Value*>;

struct Region {
  explicit Region(d::GraphState& graph) : graph(&graph) {}
  Region(Region&&) = default;
  ~Region() {
    if (block) graph->abandoned.push_back(std::move(block));
  }

  d::GraphState* graph;
  std::unique_ptr<ir::Block> block = std::make_unique<ir::Block>();
  std::vector<ir::Value*> results;
  Chains chains;  // at its end
};

/// Makes `block` the one that ops are added to. Symbols that its ops define end with it, and so
/// does a seed that is set in it; what it draws from the one before stays drawn.
class BlockScope {
 public:
  BlockScope(d::GraphState& graph, ir::Block* block) : graph_(graph), symbols_(graph.symbols) {
    block->graph = graph.graph;
    graph.blocks.push_back(block);
  }
  ~BlockScope() {
    graph_.blocks.pop_back();
    graph_.symbols = std::move(symbols_);
    if (graph_.seeds.size() > graph_.blocks.size()) graph_.seeds.resize(graph_.blocks.size());
  }

 private:
  d::GraphState& graph_;
  std::set<std::string> symbols_;
};

/// Puts the chains back, also when a region's function throws.
class ChainsScope {
 public:
  explicit ChainsScope(d::GraphState& graph) : graph_(graph), saved_(graph.chains) {
    graph.loose.push_back({.chains = &saved_});
  }
  ~ChainsScope() {
    graph_.loose.pop_back();
    graph_.chains = saved_;
  }

 private:
  d::GraphState& graph_;
  Chains saved_;
};

/// The regions of an op that is being put together, known to the graph until the op has them.
class Regions {
 public:
  Regions(d::GraphState& graph, std::size_t count) : graph_(graph) {
    for (std::size_t i = 0; i < count; ++i) all_.emplace_back(graph);
    for (Region& region : all_)
      graph.loose.push_back({region.block.get(), &region.chains, &region.results});
  }
  Regions(const Regions&) = delete;
  Regions& operator=(const Regions&) = delete;
  ~Regions() { graph_.loose.resize(graph_.loose.size() - all_.size()); }
  Region& operator[](std::size_t i) { return all_[i]; }
  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }

 private:
  d::GraphState& graph_;
  std::vector<Region> all_;
};

/// A tensor for an op behind its regions, which may have made a buffer of it.
Value as_before(d::GraphState& graph, const Value& value) {
  const auto load = graph.first_loads.find(value.ir_value());
  return load == graph.first_loads.end() ? value : graph.handle(load->second);
}

void fold_new_chains(d::GraphState& graph, const Chains& before) {
  std::vector<ir::Value*> merged = {graph.chains.at(DeviceRef::CPU())};
  for (const auto& [device, chain] : graph.chains)
    if (!before.count(device)) merged.push_back(chain);
  if (merged.size() == 1) return;
  ir::Op* op =
      ir::append_op(graph.block(), OpKind::chain_create, merged, {}, {}, current_location());
  graph.chains = [&] {
    Chains kept;
    for (const auto& [device, chain] : graph.chains)
      if (before.count(device)) kept[device] = chain;
    kept[DeviceRef::CPU()] = op->result();
    return kept;
  }();
}

std::string types_text(const std::vector<Type>& types) {
  std::vector<std::string> texts;
  for (const Type& type : types) texts.push_back(type.repr());
  return format("[{}]", join(texts, ", "));
}

void check_results(const std::vector<ir::Value*>& results, const std::vector<Type>& expected) {
  std::vector<Type> types;
  for (const ir::Value* value : results) types.push_back(value->type);
  if (types != expected)
    throw TypeError(
        format("Results don't match expected types: the function returned {}, expected {}",
               types_text(types), types_text(expected)));
}

/// Runs `function` with `arguments` inside `region`.
void record(d::GraphState& graph, Region& region, const RegionFunction& function,
            const std::vector<Value>& arguments) {
  const Chains before = graph.chains;
  BlockScope scope(graph, region.block.get());
  std::vector<Value> values;
  {
    const UserCodeScope user_code;
    values = function(arguments);
  }
  for (const Value& value : values) region.results.push_back(d::operand_of(graph, value));
  fold_new_chains(graph, before);
  region.chains = graph.chains;
}

ir::Value* add_argument(ir::Block& block, const Type& type) {
  auto value = std::make_unique<ir::Value>(ir::Value{type});
  value->block = &block;
  value->index = static_cast<std::uint32_t>(block.arguments.size());
  block.arguments.push_back(std::move(value));
  return block.arguments.back().get();
}

void end_region(Region& region, OpKind terminator, const std::vector<DeviceRef>& moved) {
  std::vector<ir::Value*> operands = region.results;
  for (DeviceRef device : moved) operands.push_back(region.chains.at(device));
  ir::append_op(*region.block, terminator, std::move(operands), {}, {}, current_location());
}

std::vector<Value> finish(d::GraphState& graph, ir::Op* op, Regions& regions,
                          const std::vector<DeviceRef>& moved) {
  for (Region& region : regions) {
    region.block->parent = op;
    op->regions.push_back(std::move(region.block));
  }
  const std::size_t count = op->results.size() - moved.size();
  for (std::size_t i = 0; i < moved.size(); ++i) graph.chains[moved[i]] = op->result(count + i);
  std::vector<Value> results;
  for (std::size_t i = 0; i < count; ++i) results.push_back(graph.handle(op->result(i)));
  return results;
}

}  // namespace

namespace {

void check_depth(const d::GraphState& graph) {
  if (graph.blocks.size() > kDeepestRegions)
    throw ValueError(
        format("Control flow in graph '{}' lies more than {} levels deep; move inner parts to "
               "subgraphs or write a loop.",
               graph.name, kDeepestRegions));
}

}  // namespace

std::vector<Value> cond(const TensorValueLike& pred, const std::vector<Type>& out_types,
                        const RegionFunction& then_fn, const RegionFunction& else_fn) {
  LocationScope at(pred.location());
  TensorValue predicate = strong(pred, "The predicate of ops.cond");
  auto& graph = *d::current_graph();
  check_depth(graph);
  // Checked first, since a function that records a region may have effects of its own.
  ir::infer_types(OpKind::cond, {d::operand_of(graph, predicate)}, {}, {});
  Regions regions(graph, 2);
  for (std::size_t i = 0; i < 2; ++i) {
    ChainsScope chains(graph);
    record(graph, regions[i], i == 0 ? then_fn : else_fn, {});
    check_results(regions[i].results, out_types);
  }
  std::vector<DeviceRef> moved;
  std::vector<Type> types = out_types;
  for (const auto& [device, chain] : graph.chains) {
    if (regions[0].chains.at(device) == chain && regions[1].chains.at(device) == chain) continue;
    moved.push_back(device);
    types.push_back(ChainType{});
  }
  for (Region& region : regions) end_region(region, OpKind::yield, moved);
  ir::Op* op = d::add_op(OpKind::cond, {as_before(graph, predicate)}, {}, types);
  return finish(graph, op, regions, moved);
}

std::vector<Value> while_loop(const std::vector<TensorValueLike>& initial_values,
                              const RegionFunction& predicate, const RegionFunction& body,
                              Location location) {
  LocationScope at(location);
  if (initial_values.empty())
    throw ValueError("While loops must have at least one iteration value.");
  std::vector<Value> operands;
  std::vector<Type> types;
  for (const TensorValueLike& value : initial_values) {
    operands.push_back(strong(value, "An iteration value of ops.while_loop"));
    types.push_back(operands.back().type());
  }
  auto& graph = *d::current_graph();
  check_depth(graph);
  Regions regions(graph, 2);
  std::vector<Chains> arguments(2);  // the chain arguments of each region
  for (std::size_t i = 0; i < 2; ++i) {
    Region& region = regions[i];
    ChainsScope chains(graph);
    std::vector<Value> values;
    for (const Type& type : types)
      values.push_back(graph.handle(add_argument(*region.block, type)));
    for (auto& [device, chain] : graph.chains) {
      chain = add_argument(*region.block, ChainType{});
      arguments[i][device] = chain;
    }
    ++graph.loops;
    try {
      record(graph, region, i == 0 ? predicate : body, values);
    } catch (...) {
      --graph.loops;
      throw;
    }
    --graph.loops;
    if (i == 1) {
      check_results(region.results, types);
    } else {
      if (region.results.size() != 1)
        throw TypeError(
            format("Results don't match expected types: the predicate of ops.while_loop "
                   "must return one bool scalar, it returned {} values",
                   region.results.size()));
      ir::infer_types(OpKind::condition, region.results, {}, {});
    }
  }
  // Chains that nothing moved leave the loop again, with their arguments.
  std::vector<DeviceRef> moved;
  std::size_t position = types.size();
  for (const auto& [device, chain] : graph.chains) {
    if (regions[0].chains.at(device) != arguments[0].at(device) ||
        regions[1].chains.at(device) != arguments[1].at(device)) {
      moved.push_back(device);
      operands.push_back(graph.handle(chain));
      ++position;
      continue;
    }
    for (Region& region : regions) {
      auto& list = region.block->arguments;
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(position));
      for (std::size_t i = position; i < list.size(); ++i)
        list[i]->index = static_cast<std::uint32_t>(i);
    }
  }
  for (std::size_t i = 0; i < types.size(); ++i) operands[i] = as_before(graph, operands[i]);
  end_region(regions[0], OpKind::condition, moved);
  end_region(regions[1], OpKind::yield, moved);
  ir::Op* op = d::add_op(OpKind::while_loop, operands);
  return finish(graph, op, regions, moved);
}

// ---- Calls ----

namespace {

std::string signature(const Graph& callee) {
  std::vector<std::string> inputs, outputs;
  for (const Value& input : callee.inputs()) inputs.push_back(input.type().repr());
  for (const Type& type : callee.output_types()) outputs.push_back(type.repr());
  return format("{}({}) -> ({})", callee.name(), join(inputs, ", "), join(outputs, ", "));
}

/// Sizes that only running the callee tells are others at each call, so each call has names of its
/// own for them.
void name_own_symbols(const d::GraphState& graph, const d::GraphState& callee,
                      const std::vector<Type>& outputs, Substitution& symbols) {
  std::set<std::string> taken = graph.symbols;
  for (const auto& [symbol, dim] : symbols)
    for (std::string& used : dim.parameters()) taken.insert(std::move(used));
  for (const Type& type : outputs) {
    if (type.is_opaque()) continue;
    for (const std::string& symbol : type.shaped().shape.parameters()) {
      if (callee.given_symbols.count(symbol) || symbols.count(symbol)) continue;
      std::string name = symbol;
      for (int i = 1; taken.count(name); ++i) name = format("{}_{}", symbol, i);
      taken.insert(name);
      symbols.emplace(symbol, Dim(name));
    }
  }
}

}  // namespace

std::vector<Value> call(const Graph& callee, const std::vector<Value>& args,
                        const CallOptions& options, Location location) {
  LocationScope at(location);
  auto& graph = *d::current_graph_for(args);
  const auto& target = callee.state();
  if (!callee.is_subgraph() || target->module != graph.module)
    throw ValueError(
        format("Graph '{}' is not a subgraph in the module of graph '{}'; make it with "
               "add_subgraph.",
               callee.name(), graph.name));
  const std::vector<Type> outputs = callee.output_types();
  if (args.size() != callee.inputs().size())
    throw ValueError(format("Expected {} args to call to {}, got {}.\n    {}",
                            callee.inputs().size(), callee.name(), args.size(), signature(callee)));
  // The callee's symbols are solved from dims that are a lone symbol; all dims must then agree.
  Substitution symbols;
  for (std::size_t i = 0; i < args.size(); ++i)
    bind_symbols(callee.inputs()[i].type(), args[i].type(), symbols);
  for (std::size_t i = 0; i < args.size(); ++i) {
    const Type expected = substitute(callee.inputs()[i].type(), symbols);
    if (expected != args[i].type())
      throw ValueError(
          format("Argument {} of the call to {} has the wrong type: expected {}, got {}.\n"
                 "    {}",
                 i, callee.name(), expected.repr(), args[i].type().repr(), signature(callee)));
  }
  std::vector<Value> operands = args;
  name_own_symbols(graph, *target, outputs, symbols);
  std::vector<Type> types;
  for (const Type& type : outputs) types.push_back(substitute(type, symbols));
  for (DeviceRef device : target->chain_devices) {
    operands.push_back(d::chain_of(device));
    types.push_back(ChainType{});
  }
  if (target->caller_seed) {
    operands.push_back(random::detail::take_seed(DeviceRef::CPU(), target->caller_draws));
  }
  ir::Op* op = d::add_op(OpKind::call, operands,
                         {{"callee", target->graph->name}, {"prefix", options.prefix}}, types);
  for (std::size_t i = 0; i < target->chain_devices.size(); ++i)
    d::advance_chain(target->chain_devices[i], graph.handle(op->result(outputs.size() + i)));
  std::vector<Value> results;
  for (std::size_t i = 0; i < outputs.size(); ++i) results.push_back(graph.handle(op->result(i)));
  return results;
}

}  // namespace kiln::graph::ops
