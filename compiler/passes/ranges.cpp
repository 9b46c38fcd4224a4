// A range between sizes has `stop - start` elements as far as types can say, and none when that is
// negative: types have no max(0, …). Here the ranges of one such length and all that follows from
// them get a size of their own, a symbol that the ranges define when they run. Where a type cannot
// follow, because the size meets `stop - start` from elsewhere, these ranges keep their types and
// the length must not be negative.

#include <set>
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
  explicit RangeSizer(ir::Block& block) : block_(block) {}

  void run() {
    std::set<std::string> lengths;
    for (const auto& op : block_.ops) {
      for (auto& region : op->regions) RangeSizer(*region).run();
      if (!is_range(*op)) continue;
      const Dim length = op->result()->type.tensor().shape[0];
      if (is_never_negative(length) || !lengths.insert(length.to_string()).second) continue;
      working_on(*op, [&] { give_size(length); });
    }
  }

 private:
  static bool is_range(const ir::Op& op) { return op.kind == OpKind::range && op.operands.empty(); }

  void give_size(const Dim& length) {
    length_ = length;
    // The name is shown in errors; users cannot give it to a symbol of theirs.
    size_ = Dim::symbol(format("max(0, {})", length.to_string()));
    types_.clear();
    attributes_.clear();
    for (const auto& op : block_.ops) {
      if (is_range(*op) && op->result()->type.tensor().shape[0] == length_) {
        graph::TensorType type = op->result()->type.tensor();
        type.shape = {size_};
        set_type(*op->result(), type);
      } else if (!follow(*op)) {
        take_back();
        return;
      }
    }
  }

  void take_back() {
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

void size_ranges(ir::Graph& graph) { RangeSizer(*graph.body).run(); }

}  // namespace kiln::compiler
