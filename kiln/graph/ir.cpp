#include "kiln/graph/ir.h"

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

}  // namespace kiln::graph::ir
