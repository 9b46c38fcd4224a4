// Kernels of a CPU: what runs them and which code they have.

#include <algorithm>
#include <cmath>

#include "compiler/codegen/cpu/loops.h"
#include "compiler/codegen/cpu/products.h"
#include "compiler/codegen/cpu/transpose.h"
#include "compiler/codegen/cpu/vector_plan.h"
#include "compiler/codegen/cpu/windows.h"
#include "compiler/codegen/expression.h"
#include "compiler/codegen/kernel_code.h"

namespace kiln::compiler {

void split_unit(ExpressionEmitter& e, const Kernel& kernel, std::size_t outer, llvm::Value* unit) {
  FunctionBuilder& f = e.f;
  for (std::size_t k = outer; k-- > 0;) {
    if (k == 0) {
      e.set_axis(kernel.axes[k], unit);
      break;
    }
    llvm::Value* extent = e.arguments.dim(kernel.extent(k));
    e.set_axis(kernel.axes[k], f.b.CreateURem(unit, extent));
    unit = f.b.CreateUDiv(unit, extent);
  }
}

KernelLaunch launch_of(const Kernel& kernel, const Program& program, const Isa& isa) {
  if (kernel.kind == Kernel::Kind::windows) return launch_of_windows(kernel, program, isa);
  if (kernel.kind != Kernel::Kind::loops && kernel.kind != Kernel::Kind::rows)
    return launch_of_product(kernel, program, isa);
  if (const auto axis = transposed_axis(kernel, program))
    return launch_of_transposed(kernel, *axis);
  KernelLaunch launch;
  if (kernel.axes.empty()) return launch;
  launch.sequential = kernel.sequential;
  VectorPlan plan = plan_vectors(kernel, program, isa, kernel.axes.back());
  launch.unit_cost = cost_per_element(kernel) / std::max(plan.lanes / 4, 1);
  if (kernel.kind == Kernel::Kind::loops && kernel.axes.size() == 1) {
    launch.units = {kernel.extent(0)};
    launch.grain = plan.lanes;
    return launch;
  }
  for (std::size_t k = 0; k + 1 < kernel.axes.size(); ++k) launch.units.push_back(kernel.extent(k));
  launch.unit_length = kernel.extent(kernel.axes.size() - 1);
  if (kernel.kind == Kernel::Kind::rows) {
    if (std::int64_t bytes = row_scratch_bytes_per_element(kernel)) {
      launch.has_scratch = true;
      launch.scratch_bytes = (launch.unit_length + 63).floor_div(64) * (64 * bytes);
    }
  }
  return launch;
}

void emit_kernel(llvm::Module& module, const Isa& isa, const Kernel& kernel, const Program& program,
                 const std::string& symbol) {
  llvm::LLVMContext& context = module.getContext();
  llvm::Type* pointer = llvm::PointerType::get(context, 0);
  llvm::Type* i64 = llvm::Type::getInt64Ty(context);
  FunctionBuilder f(module, isa, symbol, llvm::Type::getVoidTy(context), {pointer, i64, i64, i64},
                    FunctionBuilder::Linkage::kernel);
  switch (kernel.kind) {
    case Kernel::Kind::loops:
      if (const auto axis = transposed_axis(kernel, program))
        emit_transposed(f, kernel, program, *axis);
      else
        emit_loops(f, kernel, program);
      break;
    case Kernel::Kind::rows:
      emit_rows(f, kernel, program);
      break;
    case Kernel::Kind::matmul:
      emit_matmul(f, kernel, program);
      break;
    case Kernel::Kind::windows:
      emit_windows(f, kernel, program);
      break;
    case Kernel::Kind::pack:
      emit_packing(f, kernel, program);
      break;
    case Kernel::Kind::attention:
      emit_attention(f, kernel, program);
      break;
  }
  f.b.CreateRetVoid();
  f.finish();
}

}  // namespace kiln::compiler
