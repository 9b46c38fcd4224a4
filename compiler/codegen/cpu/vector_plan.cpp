#include "compiler/codegen/cpu/vector_plan.h"

#include <algorithm>

namespace kiln::compiler {

namespace {

bool is_transcendental(const Expr* e) {
  if (e->kind == Expr::Kind::binary)
    return e->op == OpKind::pow || e->op == OpKind::mod ||
           (e->op == OpKind::logical_xor && e->dtype != DType::bool_);  // random numbers
  if (e->kind != Expr::Kind::unary) return false;
  switch (e->op) {
    case OpKind::exp:
    case OpKind::log:
    case OpKind::log1p:
    case OpKind::sin:
    case OpKind::cos:
    case OpKind::erf:
    case OpKind::tanh:
    case OpKind::atanh:
    case OpKind::acos:
    case OpKind::sigmoid:
    case OpKind::silu:
    case OpKind::gelu:
      return true;
    default:
      return false;
  }
}

/// Whether neighbours along the axis lie beside each other, wherever their line lies.
bool takes_steps_of_one(const Index& index, int axis) {
  if (index.coefficient(axis) != Dim(1)) return false;
  return std::all_of(index.terms.begin(), index.terms.end(), [&](const Index::Term& term) {
    return term.atom->kind == Atom::Kind::axis || (term.atom->axes & axis_bit(axis)) == 0;
  });
}

}  // namespace

VectorPlan plan_vectors(const Kernel& kernel, const Program& program, const Isa& isa, int axis) {
  VectorPlan plan;
  plan.axis = axis;
  // Points that may meet at one element are visited one by one.
  if (kernel.sequential)
    for (const Store& store : kernel.stores)
      if (!takes_steps_of_one(store.index, axis)) return plan;
  plan.masked_tail = true;
  int widest = 1;
  bool scattered = false, heavy = false;
  auto regular = [&](const Index& index) {
    for (const Index::Term& term : index.terms)
      if ((term.atom->axes & axis_bit(axis)) != 0 &&
          (term.atom->kind != Atom::Kind::axis || term.coefficient != Dim(1)))
        return false;
    return true;
  };
  auto in_memory = [&](int tensor) {
    DType dtype = program.tensors[static_cast<std::size_t>(tensor)].dtype;
    plan.masked_tail = plan.masked_tail && isa.has_masked_access(dtype.size_in_bytes());
  };
  std::unordered_map<const Expr*, bool> seen;
  for (const Store& store : kernel.stores) {
    scattered = scattered || !regular(store.index);
    if (store.index.axes() & axis_bit(axis)) in_memory(store.tensor);
    walk(store.value, seen, [&](const Expr* e) {
      if ((e->axes & axis_bit(axis)) == 0) return;
      heavy = heavy || is_transcendental(e);
      if (e->kind == Expr::Kind::load) {
        scattered = scattered || !regular(e->index);
        in_memory(e->tensor);
      }
      // Positions are computed lane by lane or not at all.
      if (e->kind == Expr::Kind::index) return;
      int bytes = e->dtype == DType::bool_     ? 1
                  : e->dtype.is_integral()     ? e->dtype.size_in_bytes()
                  : e->dtype == DType::float64 ? 8
                                               : 4;
      widest = std::max(widest, bytes);
    });
  }
  // Sixteen registers hold four of everything only in simple kernels.
  int registers = scattered ? 1 : heavy && !isa.avx512 ? 2 : 4;
  plan.lanes = isa.lanes(std::max(widest, 4)) * registers;
  if (scattered) plan.masked_tail = false;
  const Dim& extent = kernel.arena->extent(axis);
  if (extent.is_static())
    while (plan.lanes > 1 && plan.lanes > extent.value()) plan.lanes /= 2;
  return plan;
}

llvm::Value* lane_mask(FunctionBuilder& f, int lanes, llvm::Value* count) {
  // Compared as 32-bit numbers: that is how many lanes a mask has to be made for.
  std::vector<llvm::Constant*> numbers;
  for (int i = 0; i < lanes; ++i) numbers.push_back(f.b.getInt32(static_cast<unsigned>(i)));
  llvm::Value* limit = f.b.CreateTrunc(count, f.b.getInt32Ty());
  return f.b.CreateICmpSLT(llvm::ConstantVector::get(numbers), f.lower.splat(limit, lanes));
}

}  // namespace kiln::compiler
