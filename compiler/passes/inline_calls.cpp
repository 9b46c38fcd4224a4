// Calls of subgraphs become the ops of the callee. Equal kernels are compiled once, so a block that
// is called twelve times still costs one compilation; what grows is the host function alone.

#include <unordered_map>

#include "compiler/passes/passes.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

namespace ir = graph::ir;
using graph::Dim;
using graph::OpKind;
using graph::Shape;

namespace {

using Symbols = std::unordered_map<std::string, Dim>;

Dim substitute(const Dim& dim, const Symbols& symbols) {
  if (dim.is_static()) return dim;
  Dim sum = 0;
  for (const graph::DimTerm& term : dim.terms()) {
    Dim product = term.coefficient;
    for (const graph::DimAtom& atom : term.atoms) {
      if (!atom.is_symbol()) {
        product =
            product *
            substitute(atom.numerator, symbols).floor_div(substitute(atom.denominator, symbols));
      } else if (auto it = symbols.find(atom.symbol); it != symbols.end()) {
        product = product * it->second;
      } else {
        product = product * Dim(atom.symbol);
      }
    }
    sum = sum + product;
  }
  return sum;
}

Shape substitute(const Shape& shape, const Symbols& symbols) {
  Shape result;
  for (const Dim& dim : shape) result.push_back(substitute(dim, symbols));
  return result;
}

graph::Type substitute(const graph::Type& type, const Symbols& symbols) {
  if (type.is_tensor()) {
    graph::TensorType tensor = type.tensor();
    tensor.shape = substitute(tensor.shape, symbols);
    return tensor;
  }
  if (type.is_buffer()) {
    graph::BufferType buffer = type.buffer();
    buffer.shape = substitute(buffer.shape, symbols);
    return buffer;
  }
  return type;
}

class Inliner {
 public:
  explicit Inliner(ir::Graph& graph) : graph_(graph) {}

  void run(ir::Block& block) {
    std::vector<std::unique_ptr<ir::Op>> ops = std::move(block.ops);
    block.ops.clear();
    std::vector<std::unique_ptr<ir::Op>> retired;
    for (auto& op : ops) {
      rename_operands(*op);
      for (auto& region : op->regions) run(*region);
      if (op->kind != OpKind::call) {
        block.ops.push_back(std::move(op));
        continue;
      }
      expand(block, *op);
      retired.push_back(std::move(op));
    }
  }

 private:
  /// What a callee's values are in the caller.
  struct Frame {
    std::unordered_map<const ir::Value*, ir::Value*> values;
    Symbols symbols;
    std::string prefix;
    int number = 0;
  };

  void rename_operands(ir::Op& op) {
    for (ir::Value*& operand : op.operands)
      if (auto it = renamed_.find(operand); it != renamed_.end()) operand = it->second;
  }

  void expand(ir::Block& block, const ir::Op& call) {
    const auto& name = call.attribute<std::string>("callee");
    const ir::Graph* callee = graph_.module->find(name);
    KILN_CHECK(callee, "a call names a graph that is not in the module: " + name);
    if (++depth_ > 64)
      throw RuntimeError(
          format("Failed to compile the model. Subgraph '{}' calls itself; calls "
                 "cannot be recursive.",
                 name));
    Frame frame;
    frame.number = calls_++;
    if (call.has_attribute("prefix")) frame.prefix = call.attribute<std::string>("prefix");
    const auto& arguments = callee->body->arguments;
    for (std::size_t i = 0; i < arguments.size() && i < call.operands.size(); ++i) {
      frame.values[arguments[i].get()] = call.operands[i];
      if (!arguments[i]->type.is_tensor() && !arguments[i]->type.is_buffer()) continue;
      const Shape& formal = arguments[i]->type.shaped().shape;
      const Shape& actual = call.operands[i]->type.shaped().shape;
      for (std::size_t k = 0; k < formal.size(); ++k)
        if (formal[k].is_symbolic()) frame.symbols.emplace(formal[k].name(), actual[k]);
    }
    copy_block(*callee->body, block, frame);
    const ir::Op* output = callee->terminator();
    KILN_CHECK(output, "a subgraph has no output");
    for (std::size_t i = 0; i < call.results.size() && i < output->operands.size(); ++i)
      renamed_[call.result(i)] = frame.values.at(output->operands[i]);
    --depth_;
  }

  void copy_block(const ir::Block& from, ir::Block& to, Frame& frame) {
    for (const auto& op : from.ops) {
      if (op->kind == OpKind::output) continue;
      copy_op(*op, to, frame);
    }
  }

  void copy_op(const ir::Op& op, ir::Block& to, Frame& frame) {
    std::vector<ir::Value*> operands;
    for (ir::Value* operand : op.operands) {
      auto it = frame.values.find(operand);
      operands.push_back(it == frame.values.end() ? operand : it->second);
    }
    auto copy = std::make_unique<ir::Op>();
    copy->kind = op.kind;
    copy->operands = std::move(operands);
    copy->location = op.location;
    copy->block = &to;
    copy->attributes = op.attributes;
    if (op.kind == OpKind::constant_external && op.has_attribute("placeholder") &&
        op.attribute<bool>("placeholder"))
      copy->attributes["name"] = frame.prefix + op.attribute<std::string>("name");
    if (op.kind == OpKind::call && op.has_attribute("prefix"))
      copy->attributes["prefix"] = frame.prefix + op.attribute<std::string>("prefix");
    // Symbols that the callee defines are its own at every call.
    for (const auto& result : op.results)
      if (result->type.is_tensor() || result->type.is_buffer())
        for (const std::string& symbol : result->type.shaped().shape.parameters())
          if (!frame.symbols.count(symbol))
            frame.symbols.emplace(symbol, is_parameter(symbol)
                                              ? Dim(symbol)
                                              : Dim(format("{}_call{}", symbol, frame.number)));
    for (auto& [name, value] : copy->attributes) {
      if (auto* dim = std::get_if<Dim>(&value)) *dim = substitute(*dim, frame.symbols);
      if (auto* shape = std::get_if<Shape>(&value)) *shape = substitute(*shape, frame.symbols);
    }
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      auto value =
          std::make_unique<ir::Value>(ir::Value{substitute(op.results[i]->type, frame.symbols)});
      value->producer = copy.get();
      value->block = &to;
      value->index = static_cast<std::uint32_t>(i);
      frame.values[op.results[i].get()] = value.get();
      copy->results.push_back(std::move(value));
    }
    for (const auto& region : op.regions) {
      auto inner = std::make_unique<ir::Block>();
      inner->parent = copy.get();
      inner->graph = &graph_;
      for (const auto& argument : region->arguments) {
        auto value =
            std::make_unique<ir::Value>(ir::Value{substitute(argument->type, frame.symbols)});
        value->block = inner.get();
        value->index = argument->index;
        frame.values[argument.get()] = value.get();
        inner->arguments.push_back(std::move(value));
      }
      for (const auto& each : region->ops) copy_op(*each, *inner, frame);
      copy->regions.push_back(std::move(inner));
    }
    if (copy->kind == OpKind::call) {
      // A callee's own calls are expanded where they come to stand.
      expand(to, *copy);
      for (std::size_t i = 0; i < copy->results.size(); ++i)
        frame.values[op.results[i].get()] = renamed_.at(copy->result(i));
      kept_.push_back(std::move(copy));
      return;
    }
    to.ops.push_back(std::move(copy));
  }

  bool is_parameter(const std::string& symbol) const {
    for (const std::string& parameter : graph_.parameters)
      if (parameter == symbol) return true;
    return false;
  }

  ir::Graph& graph_;
  std::unordered_map<const ir::Value*, ir::Value*> renamed_;
  std::vector<std::unique_ptr<ir::Op>> kept_;
  int depth_ = 0;
  int calls_ = 0;
};

}  // namespace

void inline_calls(ir::Graph& graph) { Inliner(graph).run(*graph.body); }

}  // namespace kiln::compiler
