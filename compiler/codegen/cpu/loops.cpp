#include "compiler/codegen/cpu/loops.h"

#include "compiler/codegen/cpu/vector_plan.h"
#include "compiler/codegen/expression.h"

namespace kiln::compiler {

namespace {

/// Evaluates and stores everything at one place of the innermost axis.
void emit_point(ExpressionEmitter& e, const Kernel& kernel) {
  // All values before all stores: a kernel may write what it reads.
  std::vector<llvm::Value*> values;
  for (const Store& store : kernel.stores) values.push_back(e.prepare(store));
  for (std::size_t i = 0; i < values.size(); ++i) e.store_prepared(kernel.stores[i], values[i]);
}

/// The innermost axis from `begin` to `end`.
void emit_line(ExpressionEmitter& e, const Kernel& kernel, const VectorPlan& plan,
               llvm::Value* begin, llvm::Value* end) {
  FunctionBuilder& f = e.f;
  for (const Store& store : kernel.stores) e.hoist(store.value, plan.axis);
  llvm::Value* rest = begin;
  if (plan.lanes > 1) {
    llvm::Value* whole = f.b.CreateAnd(f.b.CreateSub(end, begin), f.i64(-plan.lanes));
    rest = f.b.CreateAdd(begin, whole);
    f.loop(begin, rest, f.i64(plan.lanes), [&](llvm::Value* i) {
      ExpressionEmitter::Scope scope(e);
      e.set_axis(plan.axis, i);
      e.set_vector(plan.axis, plan.lanes);
      emit_point(e, kernel);
    });
    if (plan.masked_tail) {
      f.when(f.b.CreateICmpSLT(rest, end), [&] {
        ExpressionEmitter::Scope scope(e);
        e.set_axis(plan.axis, rest);
        e.set_vector(plan.axis, plan.lanes, lane_mask(f, plan.lanes, f.b.CreateSub(end, rest)));
        emit_point(e, kernel);
      });
      return;
    }
  }
  f.loop(rest, end, f.i64(1), [&](llvm::Value* i) {
    ExpressionEmitter::Scope scope(e);
    e.set_axis(plan.axis, i);
    e.set_vector(plan.axis, 1);
    emit_point(e, kernel);
  });
}

}  // namespace

void emit_loops(FunctionBuilder& f, const Kernel& kernel, const Program& program) {
  KernelArguments arguments(f, kernel, program);
  ExpressionEmitter e(f, arguments, program);
  llvm::Value* begin = f.argument(1);
  llvm::Value* end = f.argument(2);
  if (kernel.axes.empty()) {
    emit_point(e, kernel);
    return;
  }
  VectorPlan plan = plan_vectors(kernel, program, f.isa, kernel.axes.back());
  if (kernel.axes.size() == 1) {
    emit_line(e, kernel, plan, begin, end);
    return;
  }
  f.loop(begin, end, f.i64(1), [&](llvm::Value* unit) {
    ExpressionEmitter::Scope scope(e);
    split_unit(e, kernel, kernel.axes.size() - 1, unit);
    emit_line(e, kernel, plan, f.i64(0), arguments.dim(kernel.arena->extent(plan.axis)));
  });
}

}  // namespace kiln::compiler
