#include "compiler/codegen/cpu/transpose.h"

#include "compiler/codegen/cpu/pack.h"
#include "compiler/codegen/cpu/products.h"
#include "compiler/codegen/cpu/vector_plan.h"

namespace kiln::compiler {

namespace {

// Of the axis that is read along, in one unit.
constexpr std::int64_t kStretch = 64;

Dim stretches(const Kernel& kernel, std::size_t axis) {
  return (kernel.extent(axis) + (kStretch - 1)).floor_div(kStretch);
}

}  // namespace

std::optional<std::size_t> transposed_axis(const Kernel& kernel, const Program& program) {
  if (kernel.kind != Kernel::Kind::loops || kernel.sequential || kernel.stores.size() != 1)
    return std::nullopt;
  const Store& store = kernel.stores.front();
  const Expr* load = store.value;
  if (load->kind != Expr::Kind::load || !load->index.is_affine() || !store.index.is_affine())
    return std::nullopt;
  const DType dtype = program.tensors[static_cast<std::size_t>(store.tensor)].dtype;
  const auto bytes = dtype.size_in_bytes();
  if (dtype != load->dtype || (bytes != 4 && bytes != 8)) return std::nullopt;
  if (kernel.axes.size() < 2) return std::nullopt;
  const int last = kernel.axes.back();
  if (store.index.coefficient(last) != Dim(1) || load->index.coefficient(last) == Dim(1) ||
      load->index.coefficient(last) == Dim(0))
    return std::nullopt;
  for (std::size_t k = 0; k + 1 < kernel.axes.size(); ++k)
    if (load->index.coefficient(kernel.axes[k]) == Dim(1) &&
        store.index.coefficient(kernel.axes[k]) != Dim(0))
      return k;
  return std::nullopt;
}

KernelLaunch launch_of_transposed(const Kernel& kernel, std::size_t axis) {
  KernelLaunch launch;
  for (std::size_t k = 0; k + 1 < kernel.axes.size(); ++k)
    if (k != axis) launch.units.push_back(kernel.extent(k));
  launch.units.push_back(stretches(kernel, axis));
  launch.unit_length = kernel.extent(kernel.axes.size() - 1) * kStretch;
  launch.unit_cost = 0.5;
  return launch;
}

void emit_transposed(FunctionBuilder& f, const Kernel& kernel, const Program& program,
                     std::size_t axis) {
  KernelArguments arguments(f, kernel, program);
  ExpressionEmitter e(f, arguments, program);
  const Store& store = kernel.stores.front();
  const Expr* load = store.value;
  const int row_axis = kernel.axes[axis], column_axis = kernel.axes.back();
  const DType dtype = load->dtype;
  const auto bytes = static_cast<int>(dtype.size_in_bytes());
  const int lanes = f.isa.lanes(bytes);
  const bool masks = f.isa.has_masked_access(bytes);
  const llvm::Align align(static_cast<std::uint64_t>(bytes));
  llvm::Type* vector = f.lower.memory_type(dtype, lanes);
  llvm::Value* rows = arguments.dim(kernel.arena->extent(row_axis));
  llvm::Value* columns = arguments.dim(kernel.arena->extent(column_axis));

  const auto from = [&](llvm::Value* row, llvm::Value* column) {
    e.set_axis(row_axis, row);
    e.set_axis(column_axis, column);
    return address(e, program, load->tensor, load->index);
  };
  const auto to = [&](llvm::Value* row, llvm::Value* column) {
    e.set_axis(row_axis, row);
    e.set_axis(column_axis, column);
    return address(e, program, store.tensor, store.index);
  };
  // A square from (row, column) on; what is left of either axis, null: enough.
  const auto square = [&](llvm::Value* row, llvm::Value* column, llvm::Value* rows_left,
                          llvm::Value* columns_left) {
    llvm::Value* row_mask = rows_left ? lane_mask(f, lanes, rows_left) : nullptr;
    llvm::Value* column_mask = columns_left ? lane_mask(f, lanes, columns_left) : nullptr;
    Values vectors;
    for (int lane = 0; lane < lanes; ++lane) {
      llvm::Value* offset = f.i64(lane);
      // Beyond the last column the last one is read again; nobody stores that.
      if (columns_left)
        offset = f.b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, offset,
                                           f.b.CreateSub(columns_left, f.i64(1)));
      llvm::Value* source = from(row, f.b.CreateAdd(column, offset));
      vectors.push_back(
          row_mask ? static_cast<llvm::Value*>(f.b.CreateMaskedLoad(
                         vector, source, align, row_mask, llvm::Constant::getNullValue(vector)))
                   : f.b.CreateAlignedLoad(vector, source, align));
    }
    vectors = transpose_square(f, vectors);
    for (int lane = 0; lane < lanes; ++lane) {
      const auto put = [&] {
        llvm::Value* target = to(f.b.CreateAdd(row, f.i64(lane)), column);
        llvm::Value* value = vectors[static_cast<std::size_t>(lane)];
        if (column_mask)
          f.b.CreateMaskedStore(value, target, align, column_mask);
        else
          f.b.CreateAlignedStore(value, target, align);
      };
      if (rows_left)
        f.when(f.b.CreateICmpSLT(f.i64(lane), rows_left), put);
      else
        put();
    }
  };
  const auto one = [&](llvm::Value* row, llvm::Value* column) {
    llvm::Type* element = f.lower.memory_type(dtype, 1);
    llvm::Value* value = f.b.CreateAlignedLoad(element, from(row, column), align);
    f.b.CreateAlignedStore(value, to(row, column), align);
  };

  llvm::Value* whole_columns = f.b.CreateAnd(columns, f.i64(-lanes));
  f.loop(f.argument(1), f.argument(2), f.i64(1), [&](llvm::Value* unit) {
    ExpressionEmitter::Scope scope(e);
    llvm::Value* count = arguments.dim(kernel.extent(axis));
    llvm::Value* parts = f.divide_up(count, f.i64(kStretch));
    llvm::Value* begin = f.b.CreateMul(f.b.CreateURem(unit, parts), f.i64(kStretch));
    llvm::Value* rest = f.b.CreateUDiv(unit, parts);
    for (std::size_t k = kernel.axes.size() - 1; k-- > 0;) {
      if (k == axis) continue;
      llvm::Value* extent = arguments.dim(kernel.extent(k));
      e.set_axis(kernel.axes[k], f.b.CreateURem(rest, extent));
      rest = f.b.CreateUDiv(rest, extent);
    }
    llvm::Value* end = f.b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, rows,
                                                 f.b.CreateAdd(begin, f.i64(kStretch)));
    llvm::Value* whole_end =
        f.b.CreateAdd(begin, f.b.CreateAnd(f.b.CreateSub(end, begin), f.i64(-lanes)));
    // Squares of whole vectors, then what is left of the columns, then of the rows.
    const auto line = [&](llvm::Value* row, llvm::Value* rows_left) {
      f.loop(f.i64(0), whole_columns, f.i64(lanes),
             [&](llvm::Value* column) { square(row, column, rows_left, nullptr); });
      if (masks)
        f.when(f.b.CreateICmpSLT(whole_columns, columns), [&] {
          square(row, whole_columns, rows_left, f.b.CreateSub(columns, whole_columns));
        });
    };
    f.loop(begin, whole_end, f.i64(lanes), [&](llvm::Value* row) { line(row, nullptr); });
    if (masks) {
      f.when(f.b.CreateICmpSLT(whole_end, end),
             [&] { line(whole_end, f.b.CreateSub(end, whole_end)); });
      return;
    }
    f.loop(begin, end, f.i64(1), [&](llvm::Value* row) {
      llvm::Value* first =
          f.b.CreateSelect(f.b.CreateICmpSLT(row, whole_end), whole_columns, f.i64(0));
      f.loop(first, columns, f.i64(1), [&](llvm::Value* column) { one(row, column); });
    });
  });
}

}  // namespace kiln::compiler
