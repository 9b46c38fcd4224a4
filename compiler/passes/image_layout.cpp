// Graphs that keep images with their channels first permute the input and the result of each
// convolution, which has them last. Elementwise work and joins between two convolutions are done on
// the unpermuted values here, and the permutes go behind them, where they meet those of the next
// convolution and cancel. What is left in the end are permutes of the graph's inputs and results.

#include <set>
#include <unordered_map>

#include "compiler/diagnostics.h"
#include "compiler/kernels/op_traits.h"
#include "compiler/passes/passes.h"

namespace kiln::compiler {

namespace ir = graph::ir;

namespace {

using Ints = std::vector<std::int64_t>;

bool is_elementwise(OpKind kind) {
  // They stand side by side in op_kind.h.
  return kind >= OpKind::add && kind <= OpKind::where;
}

const Ints& dims_of(const ir::Op& permute) { return permute.attribute<Ints>("dims"); }

class PermuteSinker {
 public:
  explicit PermuteSinker(ir::Block& block) : block_(block) {}

  void run() {
    std::vector<std::unique_ptr<ir::Op>> ops = std::move(block_.ops);
    block_.ops.clear();
    for (auto& op : ops) {
      rename(*op);
      working_on(*op, [&] { visit(std::move(op)); });
    }
  }

 private:
  void rename(ir::Op& op) {
    for (ir::Value*& operand : op.operands)
      if (auto it = renamed_.find(operand); it != renamed_.end()) operand = it->second;
    for (const auto& region : op.regions)
      for (const auto& inner : region->ops) rename(*inner);
  }

  void visit(std::unique_ptr<ir::Op> op) {
    if (is_windowed(op->kind)) images_.insert(op->result());
    if (op->kind == OpKind::permute && joins(*op)) {
      retired_.push_back(std::move(op));
      return;
    }
    const ir::Op* permute =
        is_elementwise(op->kind) || op->kind == OpKind::concat ? permute_above(*op) : nullptr;
    std::vector<ir::Value*> unpermuted;
    if (permute) unpermuted = operands_below(*op, dims_of(*permute));
    if (unpermuted.empty()) {
      block_.ops.push_back(std::move(op));
      return;
    }
    const Ints dims = dims_of(*permute);
    op->operands = std::move(unpermuted);
    if (op->kind == OpKind::concat)
      op->attributes["axis"] = dims[static_cast<std::size_t>(op->attribute<std::int64_t>("axis"))];
    ir::Value* result = op->result();
    graph::TensorType type = result->type.tensor();
    for (std::size_t i = 0; i < dims.size(); ++i)
      type.shape[static_cast<std::size_t>(dims[i])] = result->type.tensor().shape[i];
    result->type = std::move(type);
    images_.insert(result);
    origin_ = op.get();
    block_.ops.push_back(std::move(op));
    renamed_[result] = add(OpKind::permute, {result}, {{"dims", dims}});
  }

  /// Whether the permute of a permuted image is the image, or has become one permute of it.
  bool joins(ir::Op& op) {
    const ir::Op* inner = image_permute(op.operand(0));
    if (!inner) return false;
    Ints dims;
    bool same = true;
    for (std::int64_t dim : dims_of(op)) {
      dims.push_back(dims_of(*inner)[static_cast<std::size_t>(dim)]);
      same = same && dims.back() == static_cast<std::int64_t>(dims.size()) - 1;
    }
    op.operands[0] = inner->operand(0);
    op.attributes["dims"] = std::move(dims);
    if (same) renamed_[op.result()] = op.operand(0);
    return same;
  }

  /// The permute of an image that makes a value, or null.
  const ir::Op* image_permute(const ir::Value* value) const {
    const ir::Op* op = value->producer;
    return op && op->kind == OpKind::permute && images_.count(op->operand(0)) ? op : nullptr;
  }

  const ir::Op* permute_above(const ir::Op& op) const {
    for (const ir::Value* operand : op.operands)
      if (const ir::Op* permute = image_permute(operand))
        if (op.kind == OpKind::concat ||
            operand->type.tensor().shape == op.result()->type.tensor().shape)
          return permute;
    return nullptr;
  }

  /// What `op` works on below permutes with `dims`; nothing when an operand has no such form that
  /// is as cheap.
  std::vector<ir::Value*> operands_below(const ir::Op& op, const Ints& dims) {
    const graph::Shape& shape = op.result()->type.tensor().shape;
    const auto is_permuted = [&](const ir::Value* operand) {
      const ir::Op* permute = image_permute(operand);
      return permute && dims_of(*permute) == dims &&
             (op.kind == OpKind::concat || operand->type.tensor().shape == shape);
    };
    const auto is_line = [](const ir::Value* operand) {
      int lines = 0;
      for (const graph::Dim& dim : operand->type.tensor().shape) lines += dim != graph::Dim(1);
      return lines <= 1;
    };
    for (const ir::Value* operand : op.operands)
      if (!is_permuted(operand) && (op.kind == OpKind::concat || !is_line(operand))) return {};
    origin_ = &op;
    Ints back(dims.size());
    for (std::size_t i = 0; i < dims.size(); ++i)
      back[static_cast<std::size_t>(dims[i])] = static_cast<std::int64_t>(i);
    std::vector<ir::Value*> below;
    for (ir::Value* operand : op.operands) {
      if (is_permuted(operand)) {
        below.push_back(operand->producer->operand(0));
        continue;
      }
      if (operand->type.tensor().rank() > 0) {
        while (operand->type.tensor().rank() < shape.rank())
          operand = add(OpKind::unsqueeze, {operand}, {{"axis", std::int64_t{0}}});
        operand = add(OpKind::permute, {operand}, {{"dims", back}});
      }
      below.push_back(operand);
    }
    return below;
  }

  ir::Value* add(OpKind kind, std::vector<ir::Value*> operands, ir::Attributes attributes) {
    ir::Op* op = ir::append_op(block_, kind, std::move(operands), std::move(attributes), {},
                               origin_->location);
    op->attributes[std::string(kExpandedFrom)] = std::string(graph::to_string(origin_->kind));
    return op->result();
  }

  ir::Block& block_;
  std::set<const ir::Value*> images_;  // that have their channels last
  std::unordered_map<const ir::Value*, ir::Value*> renamed_;
  std::vector<std::unique_ptr<ir::Op>> retired_;
  const ir::Op* origin_ = nullptr;
};

}  // namespace

void keep_channels_last(ir::Graph& graph) { PermuteSinker(*graph.body).run(); }

}  // namespace kiln::compiler
