#include "kiln/graph/ir_clone.h"

#include <unordered_set>

#include "kiln/graph/op_info.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph::ir {
namespace {

class Cloner {
 public:
  std::unique_ptr<Block> block(const Block& from, Op* parent, Graph* graph,
                               const CloneFilter* filter = nullptr) {
    auto to = std::make_unique<Block>();
    to->parent = parent;
    to->graph = graph;
    for (const auto& argument : from.arguments) {
      if (filter && !filter->argument(*argument)) continue;
      to->arguments.push_back(value(*argument, *to));
      to->arguments.back()->index = static_cast<std::uint32_t>(to->arguments.size() - 1);
    }
    for (const auto& op : from.ops)
      if (!filter || filter->op(*op)) to->ops.push_back(clone_op(*op, *to));
    return to;
  }

  std::unordered_map<const Value*, Value*> map;

 private:
  std::unique_ptr<Value> value(const Value& from, Block& block) {
    auto to = std::make_unique<Value>(Value{from.type});
    to->block = &block;
    to->index = from.index;
    map[&from] = to.get();
    return to;
  }

  std::unique_ptr<Op> clone_op(const Op& from, Block& block) {
    auto to = std::make_unique<Op>();
    to->kind = from.kind;
    to->attributes = from.attributes;
    to->location = from.location;
    to->block = &block;
    for (const Value* operand : from.operands) {
      auto it = map.find(operand);
      KILN_CHECK(it != map.end(), "an operand is defined after its use");
      to->operands.push_back(it->second);
    }
    for (const auto& region : from.regions)
      to->regions.push_back(this->block(*region, to.get(), block.graph));
    for (const auto& result : from.results) {
      to->results.push_back(value(*result, block));
      to->results.back()->producer = to.get();
    }
    return to;
  }
};

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) { block(*graph.body); }

 private:
  void block(const Block& block) {
    std::vector<const Value*> defined;
    auto define = [&](const Value* value) {
      visible_.insert(value);
      defined.push_back(value);
    };
    for (const auto& argument : block.arguments) define(argument.get());
    for (const auto& op : block.ops) {
      check(*op);
      for (const auto& region : op->regions) this->block(*region);
      for (const auto& result : op->results) define(result.get());
    }
    for (const Value* value : defined) visible_.erase(value);
  }

  void check(const Op& op) {
    std::string place = format("'{}' in graph '{}'", to_string(op.kind), graph_.name);
    for (const Value* operand : op.operands)
      KILN_CHECK(visible_.count(operand), place + " uses a value that is not defined before it");
    std::vector<Type> declared;
    for (const auto& result : op.results) declared.push_back(result->type);
    std::vector<Type> types;
    try {
      types = infer_types(op.kind, op.operands, op.attributes, declared);
    } catch (const Error& e) {
      throw_internal_error("infer_types", __FILE__, __LINE__, place + ": " + e.message());
    }
    KILN_CHECK(types.size() == declared.size(), place + " has a wrong number of results");
    KILN_CHECK(static_cast<int>(op.regions.size()) == op_info(op.kind).regions,
               place + " has a wrong number of regions");
  }

  const Graph& graph_;
  std::unordered_set<const Value*> visible_;
};

}  // namespace

std::unique_ptr<Graph> clone_graph(const Graph& from, Module* module,
                                   std::unordered_map<const Value*, Value*>* map,
                                   const CloneFilter* filter) {
  auto to = std::make_unique<Graph>();
  to->name = from.name;
  to->module = module;
  to->is_subgraph = from.is_subgraph;
  to->parameters = from.parameters;
  to->argument_names = from.argument_names;
  to->result_names = from.result_names;
  to->strict_device_placement = from.strict_device_placement;
  to->kernel_libraries = from.kernel_libraries;
  to->is_device_graph = from.is_device_graph;
  Cloner cloner;
  to->body = cloner.block(*from.body, nullptr, to.get(), filter);
  if (map) *map = std::move(cloner.map);
  return to;
}

std::unique_ptr<Module> clone(const Module& module) {
  auto result = std::make_unique<Module>();
  for (const auto& graph : module.graphs)
    result->graphs.push_back(clone_graph(*graph, result.get()));
  return result;
}

void verify(const Graph& graph) { Verifier verifier(graph); }

}  // namespace kiln::graph::ir
