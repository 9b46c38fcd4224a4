#include "kiln/graph/ir.h"

#include <unordered_map>

#include "kiln/graph/op_info.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph::ir {

void throw_bad_attribute(const Op& op, std::string_view name) {
  throw_internal_error(
      "op.has_attribute(name)", __FILE__, __LINE__,
      format("'{}' has no attribute '{}' of the asked type", to_string(op.kind), name));
}

const Op* Graph::terminator() const {
  if (body->ops.empty() || body->ops.back()->kind != OpKind::output) return nullptr;
  return body->ops.back().get();
}

Graph* Module::find(std::string_view name) const {
  for (const auto& graph : graphs)
    if (graph->name == name) return graph.get();
  return nullptr;
}

Op* append_op(Block& block, OpKind kind, std::vector<Value*> operands, Attributes attributes,
              std::vector<Type> declared_types, SourceLocation location) {
  std::vector<Type> types = infer_types(kind, operands, attributes, declared_types);
  auto op = std::make_unique<Op>();
  op->kind = kind;
  op->operands = std::move(operands);
  op->attributes = std::move(attributes);
  op->location = std::move(location);
  op->block = &block;
  for (std::size_t i = 0; i < types.size(); ++i) {
    auto value = std::make_unique<Value>(Value{std::move(types[i])});
    value->producer = op.get();
    value->block = &block;
    value->index = static_cast<std::uint32_t>(i);
    op->results.push_back(std::move(value));
  }
  block.ops.push_back(std::move(op));
  return block.ops.back().get();
}

namespace {

class Cloner {
 public:
  std::unique_ptr<Block> block(const Block& from, Op* parent, Graph* graph) {
    auto to = std::make_unique<Block>();
    to->parent = parent;
    to->graph = graph;
    for (const auto& argument : from.arguments) to->arguments.push_back(value(*argument, *to));
    for (const auto& op : from.ops) to->ops.push_back(clone_op(*op, *to));
    return to;
  }

 private:
  std::unique_ptr<Value> value(const Value& from, Block& block) {
    auto to = std::make_unique<Value>(Value{from.type});
    to->block = &block;
    to->index = from.index;
    map_[&from] = to.get();
    return to;
  }

  std::unique_ptr<Op> clone_op(const Op& from, Block& block) {
    auto to = std::make_unique<Op>();
    to->kind = from.kind;
    to->attributes = from.attributes;
    to->location = from.location;
    to->block = &block;
    for (const Value* operand : from.operands) {
      auto it = map_.find(operand);
      KILN_CHECK(it != map_.end(), "an operand is defined after its use");
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

  std::unordered_map<const Value*, Value*> map_;
};

}  // namespace

std::unique_ptr<Module> clone(const Module& module) {
  auto result = std::make_unique<Module>();
  for (const auto& from : module.graphs) {
    auto to = std::make_unique<Graph>();
    to->name = from->name;
    to->module = result.get();
    to->is_subgraph = from->is_subgraph;
    to->parameters = from->parameters;
    to->argument_names = from->argument_names;
    to->result_names = from->result_names;
    to->strict_device_placement = from->strict_device_placement;
    to->kernel_libraries = from->kernel_libraries;
    to->is_device_graph = from->is_device_graph;
    to->body = Cloner().block(*from->body, nullptr, to.get());
    result->graphs.push_back(std::move(to));
  }
  return result;
}

}  // namespace kiln::graph::ir
