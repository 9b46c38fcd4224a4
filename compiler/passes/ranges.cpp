// A range between sizes has `stop - start` elements as far as types can say, and none when that is
// negative: types have no max(0, …). Here such a range and all that follows from it get a size of
// their own, a symbol that the range defines when it runs. Where a type cannot follow, because the
// size meets `stop - start` from elsewhere, the range keeps its type and must not be negative.

#include <unordered_map>

#include "compiler/diagnostics.h"
#include "compiler/passes/passes.h"
#include "kiln/graph/op_info.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

namespace ir = graph::ir;
using graph::Dim;
using graph::OpKind;

namespace {

class RangeSizer {
 public:
  RangeSizer(ir::Block& block, int& ranges) : block_(block), ranges_(ranges) {}

  void run() {
    for (std::size_t i = 0; i < block_.ops.size(); ++i) {
      ir::Op& op = *block_.ops[i];
      for (auto& region : op.regions) RangeSizer(*region, ranges_).run();
      if (op.kind != OpKind::range || !op.operands.empty()) continue;
      const Dim length = op.result()->type.tensor().shape[0];
      if (is_never_negative(length)) continue;
      working_on(op, [&] { give_size(i, length); });
    }
  }

 private:
  void give_size(std::size_t at, const Dim& length) {
    length_ = length;
    size_ = Dim(format("kiln_range_{}", ranges_++));
    types_.clear();
    attributes_.clear();
    ir::Value* result = block_.ops[at]->result();
    graph::TensorType type = result->type.tensor();
    type.shape = {size_};
    set_type(*result, type);
    bool followed = true;
    for (std::size_t i = at + 1; followed && i < block_.ops.size(); ++i)
      followed = follow(*block_.ops[i]);
    if (followed) return;
    for (auto& [value, before] : types_) value->type = before;
    for (auto& [op, before] : attributes_) op->attributes = before;
  }

  void set_type(ir::Value& value, graph::Type type) {
    types_.try_emplace(&value, value.type);
    value.type = std::move(type);
  }

  bool is_new(const ir::Value* value) const {
    return types_.count(const_cast<ir::Value*>(value)) != 0;
  }

  bool reads_new(const ir::Op& op) const {
    for (const ir::Value* operand : op.operands)
      if (is_new(operand)) return true;
    for (const auto& region : op.regions)
      for (const auto& inner : region->ops)
        if (reads_new(*inner)) return true;
    return false;
  }

  /// Infers the types of an op anew; false when there are none.
  bool follow(ir::Op& op) {
    if (!reads_new(op)) return true;
    if (!op.regions.empty() || graph::op_info(op.kind).free_types) return false;
    if (op.results.empty()) return op.kind == OpKind::output;
    attributes_.emplace(&op, op.attributes);
    for (auto& [name, value] : op.attributes) {
      if (auto* dim = std::get_if<Dim>(&value)) rename(*dim);
      if (auto* shape = std::get_if<graph::Shape>(&value))
        for (Dim& dim : *shape) rename(dim);
    }
    try {
      std::vector<graph::Type> types = ir::infer_types(op.kind, op.operands, op.attributes, {});
      for (std::size_t i = 0; i < types.size(); ++i)
        if (types[i] != op.result(i)->type) set_type(*op.result(i), std::move(types[i]));
    } catch (const ValueError&) {
      return false;
    }
    return true;
  }

  void rename(Dim& dim) const {
    if (dim == length_) dim = size_;
  }

  ir::Block& block_;
  Dim length_, size_;
  int& ranges_;
  std::unordered_map<ir::Value*, graph::Type> types_;  // as they were
  std::unordered_map<ir::Op*, ir::Attributes> attributes_;
};

}  // namespace

bool is_never_negative(const Dim& dim) {
  for (const graph::DimTerm& term : dim.terms()) {
    if (term.coefficient < 0) return false;
    for (const graph::DimAtom& atom : term.atoms)
      if (!atom.is_symbol() && (!is_never_negative(atom.numerator) ||
                                !atom.denominator.is_static() || atom.denominator.value() < 0))
        return false;
  }
  return true;
}

void size_ranges(ir::Graph& graph) {
  int ranges = 0;
  RangeSizer(*graph.body, ranges).run();
}

}  // namespace kiln::compiler
