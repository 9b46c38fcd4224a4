// Finds softmax(query · keyᵀ …) · value, so that it becomes one kernel that never stores the matrix
// of scores. What lies between the first product and the softmax (scale, mask, bias) may be any
// elementwise work.

#include <unordered_map>

#include "compiler/diagnostics.h"
#include "compiler/passes/passes.h"

namespace kiln::compiler {

namespace ir = graph::ir;
using graph::OpKind;

namespace {

bool is_score_op(OpKind kind) {
  switch (kind) {
    case OpKind::add:
    case OpKind::sub:
    case OpKind::mul:
    case OpKind::div:
    case OpKind::max:
    case OpKind::min:
    case OpKind::tanh:
    case OpKind::where:
      return true;
    default:
      return false;
  }
}

class AttentionFinder {
 public:
  explicit AttentionFinder(ir::Block& block) : block_(block) {
    for (const auto& op : block.ops)
      for (const ir::Value* operand : op->operands) ++uses_[operand];
  }

  void run() {
    for (const auto& op : block_.ops)
      if (op->kind == OpKind::matmul) working_on(*op, [&] { mark(*op); });
  }

 private:
  void mark(ir::Op& outer) {
    ir::Op* softmax = outer.operand(0)->producer;
    if (!softmax || softmax->kind != OpKind::softmax || !once(outer.operand(0))) return;
    const graph::TensorType& type = outer.operand(0)->type.tensor();
    if (type.dtype != DType::float32 || outer.result()->type.tensor().dtype != DType::float32)
      return;
    if (softmax->attribute<std::int64_t>("axis") != type.rank() - 1) return;
    // One key has weight 1: there is no row of scores to go along.
    if (type.shape.back() == graph::Dim(1)) return;
    ir::Op* inner = product_below(softmax->operand(0), type.shape);
    // The scores may be the result of an attention, which is a kernel of its own.
    if (!inner || inner->has_attribute(kAttention)) return;
    // The products must agree on the batch: a broadcast of whole score matrices is left alone.
    const graph::Shape& result = outer.result()->type.tensor().shape;
    for (std::size_t i = 0; i + 2 < result.size(); ++i)
      if (result.size() != type.shape.size() || result[i] != type.shape[i]) return;
    outer.attributes[std::string(kAttention)] = true;
    softmax->attributes[std::string(kInsideAttention)] = true;
    inner->attributes[std::string(kInsideAttention)] = true;
  }

  bool once(const ir::Value* value) const { return uses_.at(value) == 1; }

  ir::Op* product_below(const ir::Value* value, const graph::Shape& shape) const {
    ir::Op* op = value->producer;
    if (!op || !once(value) || !value->type.is_tensor() || value->type.tensor().shape != shape ||
        value->type.tensor().dtype != DType::float32)
      return nullptr;
    if (op->kind == OpKind::matmul) return op;
    if (!is_score_op(op->kind)) return nullptr;
    for (const ir::Value* operand : op->operands)
      if (ir::Op* found = product_below(operand, shape)) return found;
    return nullptr;
  }

  ir::Block& block_;
  std::unordered_map<const ir::Value*, int> uses_;
};

}  // namespace

void find_attention(ir::Graph& graph) { AttentionFinder(*graph.body).run(); }

}  // namespace kiln::compiler
