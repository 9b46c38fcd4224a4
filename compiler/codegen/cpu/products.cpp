// Matrix products of a program: the operands of matmul.h and pack.h from positions, and the
// expressions around the product as its epilogue.

#include "compiler/codegen/cpu/products.h"

#include <algorithm>

#include "compiler/codegen/cpu/attention.h"
#include "compiler/codegen/cpu/matmul.h"
#include "compiler/codegen/cpu/pack.h"
#include "compiler/codegen/expression.h"
#include "kiln/runtime/abi.h"
#include "kiln/support/error.h"

namespace kiln::compiler {

namespace {

const Expr* accumulator_in(const Expr* expr) {
  const Expr* found = nullptr;
  std::unordered_map<const Expr*, bool> seen;
  walk(expr, seen, [&](const Expr* e) {
    if (e->kind == Expr::Kind::accumulator) found = e;
  });
  return found;
}

}  // namespace

llvm::Value* address(ExpressionEmitter& e, const Program& program, int tensor, const Index& index) {
  DType dtype = program.tensors[static_cast<std::size_t>(tensor)].dtype;
  return e.f.element(e.f.lower.memory_type(dtype, 1), e.arguments.tensor(tensor),
                     e.position(index));
}

Epilogue epilogue_of(ExpressionEmitter& e, const Kernel& kernel) {
  const Expr* accumulator = nullptr;
  for (const Store& store : kernel.stores)
    if (const Expr* found = accumulator_in(store.value)) accumulator = found;
  const int row = kernel.axes[kernel.axes.size() - 2];
  const int column = kernel.axes.back();
  return [&e, &kernel, accumulator, row, column](FunctionBuilder& f, llvm::Value* at_row,
                                                 llvm::Value* at_column, int lanes,
                                                 llvm::Value* value, llvm::Value* mask) {
    ExpressionEmitter::Scope inner(e);
    e.set_axis(row, at_row);
    e.set_axis(column, at_column);
    // A single column has no position of its own.
    if (kernel.arena->extent(column) == Dim(1)) {
      e.set_vector(column, 1);
      e.bind(accumulator, lanes == 1 ? value : f.b.CreateExtractElement(value, std::uint64_t{0}));
    } else {
      e.set_vector(column, lanes, mask);
      e.bind_vector(accumulator, value);
      if (lanes == 1) e.bind(accumulator, value);
    }
    std::vector<llvm::Value*> values;
    for (const Store& store : kernel.stores) values.push_back(e.vector(store.value));
    for (std::size_t i = 0; i < values.size(); ++i) e.store(kernel.stores[i], values[i]);
  };
}

void for_each_matrix(
    ExpressionEmitter& e, const Kernel& kernel, std::size_t batch_axes, llvm::Value* units,
    const std::function<void(llvm::Value* unit_begin, llvm::Value* unit_end)>& body) {
  FunctionBuilder& f = e.f;
  llvm::Value* begin = f.argument(1);
  llvm::Value* end = f.argument(2);
  if (batch_axes == 0) {
    body(begin, end);
    return;
  }
  f.when(f.b.CreateICmpSLT(begin, end), [&] {
    llvm::Value* first = f.b.CreateUDiv(begin, units);
    llvm::Value* last = f.b.CreateUDiv(f.b.CreateSub(end, f.i64(1)), units);
    f.loop(first, f.b.CreateAdd(last, f.i64(1)), f.i64(1), [&](llvm::Value* matrix) {
      ExpressionEmitter::Scope scope(e);
      split_unit(e, kernel, batch_axes, matrix);
      llvm::Value* offset = f.b.CreateMul(matrix, units);
      llvm::Value* from =
          f.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, f.b.CreateSub(begin, offset), f.i64(0));
      llvm::Value* to =
          f.b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, f.b.CreateSub(end, offset), units);
      body(from, to);
    });
  });
}

std::optional<MatmulOperands::Next> next_product(FunctionBuilder& f,
                                                 const KernelArguments& arguments) {
  const std::vector<llvm::Value*>& next = arguments.next();
  if (next.empty()) return std::nullopt;
  llvm::Value* threads = f.b.CreateAlignedLoad(
      f.b.getInt64Ty(),
      f.element(f.b.getInt8Ty(), arguments.call(), f.i64(offsetof(KilnCall, num_threads))),
      llvm::Align(8));
  return MatmulOperands::Next{next[0], next[1], next[2], f.argument(3), threads};
}

void emit_matmul(FunctionBuilder& f, const Kernel& kernel, const Program& program) {
  if (!kernel.windows.empty()) return emit_convolution(f, kernel, program);
  KernelArguments arguments(f, kernel, program);
  ExpressionEmitter e(f, arguments, program);
  const DType dtype = kernel.product_dtype;
  const int row = kernel.axes[kernel.axes.size() - 2];
  const int column = kernel.axes.back();
  MatmulOperands operands{};
  operands.m = arguments.dim(kernel.arena->extent(row));
  operands.n = arguments.dim(kernel.arena->extent(column));
  operands.k = arguments.dim(kernel.arena->extent(kernel.reduced_axis));
  operands.lda = arguments.dim(kernel.operands[0].index.coefficient(row));
  operands.next = next_product(f, arguments);
  llvm::Value* units = matmul_unit_count(f, dtype, operands.m, operands.n);
  for_each_matrix(
      e, kernel, kernel.axes.size() - 2, units, [&](llvm::Value* begin, llvm::Value* end) {
        ExpressionEmitter::Scope scope(e);
        e.set_axis(row, f.i64(0));
        e.set_axis(kernel.reduced_axis, f.i64(0));
        operands.a = address(e, program, kernel.operands[0].tensor, kernel.operands[0].index);
        operands.packed = address(e, program, kernel.operands[1].tensor, kernel.operands[1].index);
        emit_matmul_block(f, dtype, operands, begin, end, epilogue_of(e, kernel));
      });
}

void emit_attention(FunctionBuilder& f, const Kernel& kernel, const Program& program) {
  KernelArguments arguments(f, kernel, program);
  ExpressionEmitter e(f, arguments, program);
  const DType dtype = kernel.product_dtype;
  const int row = kernel.axes[kernel.axes.size() - 2];
  const int column = kernel.axes.back();
  const int key = kernel.key_axis;
  AttentionOperands operands{};
  operands.rows = arguments.dim(kernel.arena->extent(row));
  operands.keys = arguments.dim(kernel.arena->extent(key));
  operands.depth = arguments.dim(kernel.arena->extent(kernel.reduced_axis));
  operands.width = arguments.dim(kernel.arena->extent(column));
  operands.query_stride = arguments.dim(kernel.operands[0].index.coefficient(row));
  operands.key_stride = arguments.dim(kernel.operands[1].index.coefficient(key));
  operands.value_stride = arguments.dim(kernel.operands[2].index.coefficient(key));
  llvm::Value* scratch =
      f.element(f.b.getInt8Ty(), arguments.scratch(),
                f.b.CreateMul(f.argument(3), attention_scratch_bytes(f, dtype, operands)));
  const Expr* product = accumulator_in(kernel.score);
  llvm::Value* units = attention_unit_count(f, dtype, operands);
  for_each_matrix(
      e, kernel, kernel.axes.size() - 2, units, [&](llvm::Value* begin, llvm::Value* end) {
        ExpressionEmitter::Scope scope(e);
        for (int axis : {row, column, key, kernel.reduced_axis}) e.set_axis(axis, f.i64(0));
        operands.query = address(e, program, kernel.operands[0].tensor, kernel.operands[0].index);
        operands.key = address(e, program, kernel.operands[1].tensor, kernel.operands[1].index);
        operands.value = address(e, program, kernel.operands[2].tensor, kernel.operands[2].index);
        Score score = [&](FunctionBuilder&, llvm::Value* at_row, llvm::Value* at_key, int lanes,
                          llvm::Value* value, llvm::Value* mask) {
          ExpressionEmitter::Scope inner(e);
          e.set_axis(row, at_row);
          e.set_axis(key, at_key);
          e.set_vector(key, lanes, mask);
          lanes == 1 ? e.bind(product, value) : e.bind_vector(product, value);
          return e.vector(kernel.score);
        };
        emit_attention_block(f, dtype, operands, scratch, begin, end, score,
                             epilogue_of(e, kernel));
      });
}

void emit_packing(FunctionBuilder& f, const Kernel& kernel, const Program& program) {
  KernelArguments arguments(f, kernel, program);
  ExpressionEmitter e(f, arguments, program);
  const DType dtype = kernel.product_dtype;
  const int reduced = kernel.axes[kernel.axes.size() - 2];
  const int column = kernel.axes.back();
  const Store& store = kernel.stores.front();
  llvm::Value* k = arguments.dim(kernel.arena->extent(reduced));
  llvm::Value* n = arguments.dim(kernel.arena->extent(column));
  // Blocks are transposed in registers when the source runs along k.
  bool along_reduced = false, along_column = true;
  std::unordered_map<const Expr*, bool> seen;
  walk(store.value, seen, [&](const Expr* expr) {
    if (expr->kind != Expr::Kind::load) return;
    along_reduced = along_reduced || expr->index.coefficient(reduced) == Dim(1);
    AxisSet others = 0;
    for (const Index::Term& term : expr->index.terms)
      if (term.atom->kind != Atom::Kind::axis || term.coefficient != Dim(1))
        others |= term.atom->axes;
    along_column = along_column && (others & axis_bit(column)) == 0;
  });
  const bool transposed = along_reduced && !along_column;
  for_each_matrix(e, kernel, kernel.axes.size() - 2, panel_count(f, dtype, n),
                  [&](llvm::Value* begin, llvm::Value* end) {
                    llvm::Value* packed = address(e, program, store.tensor, store.index);
                    auto load = [&](FunctionBuilder&, llvm::Value* at_k, llvm::Value* at_n,
                                    int lanes, llvm::Value* mask) {
                      ExpressionEmitter::Scope scope(e);
                      e.set_axis(reduced, at_k);
                      e.set_axis(column, at_n);
                      e.set_vector(transposed ? reduced : column, lanes, mask);
                      return e.vector(store.value);
                    };
                    if (transposed)
                      emit_pack_transposed(f, dtype, packed, n, k, begin, end, load);
                    else
                      emit_pack(f, dtype, packed, n, k, begin, end, load);
                  });
}

KernelLaunch launch_of_product(const Kernel& kernel, const Program& program, const Isa& isa) {
  if (!kernel.windows.empty()) return launch_of_convolution(kernel, isa);
  KernelLaunch launch;
  const std::size_t batch_axes = kernel.axes.size() - 2;
  for (std::size_t k = 0; k < batch_axes; ++k) launch.units.push_back(kernel.extent(k));
  const DType dtype = kernel.product_dtype;
  if (kernel.kind == Kernel::Kind::pack) {
    const int width = panel_columns(isa, dtype);
    launch.units.push_back((kernel.extent(batch_axes + 1) + (width - 1)).floor_div(width));
    launch.unit_length = kernel.extent(batch_axes);
    launch.unit_cost = 4;
    return launch;
  }
  if (kernel.kind == Kernel::Kind::attention) {
    launch.attention = KernelLaunch::Attention{
        kernel.extent(batch_axes), kernel.arena->extent(kernel.key_axis),
        kernel.arena->extent(kernel.reduced_axis), kernel.extent(batch_axes + 1)};
    launch.has_scratch = true;
    // A unit has many rows or all; short ones fill their tiles in part only.
    launch.unit_length = launch.attention->keys * launch.attention->rows;
    launch.unit_cost = 24;
    return launch;
  }
  launch.product = {kernel.extent(batch_axes), kernel.extent(batch_axes + 1)};
  launch.unit_length = kernel.arena->extent(kernel.reduced_axis);
  // A unit is a tile of rows by some panels.
  launch.unit_cost = tile_rows(isa, dtype) * isa.matmul_vectors * 4;
  return launch;
}

}  // namespace kiln::compiler
