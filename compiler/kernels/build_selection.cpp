// Ops that store where their data says: scatter and top_k.

#include "compiler/kernels/builder_state.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

void Builder::build_scatter(const ir::Op& op, int id) {
  tensor(id).many_writers = true;
  store_value(op.operand(0), id);
  auto kernel = new_kernel(Kernel::Kind::loops);
  note(op);
  kernel->sequential = true;
  Arena& arena = *kernel->arena;
  const graph::Shape& shape = op.operand(0)->type.tensor().shape;
  auto axis = static_cast<std::size_t>(op.attribute<std::int64_t>("axis"));
  Position position = add_axes(*kernel, op.operand(1)->type.tensor().shape);
  const Expr* update = at(arena, op.operand(1), position);
  const Expr* index = arena.checked_index(at(arena, op.operand(2), position), shape[axis], &op,
                                          static_cast<int>(axis));
  position[axis] = arena.value_index(index);
  kernel->stores.push_back({id, linear(arena, id, position), update});
  emit(std::move(kernel));
}

void Builder::check_indices(const ir::Op& op) {
  const bool several = op.kind == OpKind::gather_nd;
  const graph::Shape& shape = op.operand(0)->type.tensor().shape;
  const graph::Type indices = op.operand(1)->type.tensor().cast(DType::int64);
  const int id = new_tensor(Tensor::Storage::temporary, indices.tensor());
  tensor(id).many_writers = true;  // a bad constant is an error of the call too
  auto kernel = new_kernel(Kernel::Kind::loops);
  note(op);
  Arena& arena = *kernel->arena;
  graph::Shape points = indices.tensor().shape;
  const std::int64_t components = several ? points.back().value() : 1;
  if (several) points.pop_back();
  const Position point = add_axes(*kernel, points);
  const std::int64_t first = op.attribute<std::int64_t>(several ? "batch_dims" : "axis");
  for (std::int64_t k = 0; k < components; ++k) {
    Position position = point;
    if (several) position.push_back(Index(Dim(k)));
    const auto axis = static_cast<std::size_t>(first + k);
    const Expr* index = arena.checked_index(at(arena, op.operand(1), position), shape[axis], &op,
                                            static_cast<int>(axis));
    kernel->stores.push_back({id, linear(arena, id, position), index});
  }
  emit(std::move(kernel));
}

// Every element is stored at its rank: the number of elements that come before it, which are the
// larger ones, NaN counting as the largest, and equal ones with a lower index.
void Builder::build_top_k(const ir::Op& op) {
  const ir::Value* x = op.operand(0);
  const graph::Shape& shape = x->type.tensor().shape;
  auto axis = static_cast<std::size_t>(op.attribute<std::int64_t>("axis"));
  check(op, op.attribute<Dim>("k"), Check::Relation::at_most, shape[axis],
        format("k ({{0}}) cannot be larger than dimension size along axis {}", axis),
        {op.attribute<Dim>("k")});
  int source = stored(x);
  int values = new_tensor(Tensor::Storage::temporary, x->type.tensor());
  int indices = new_tensor(Tensor::Storage::temporary, x->type.tensor().cast(DType::int64));
  auto kernel = new_kernel(Kernel::Kind::loops);
  note(op);
  Arena& arena = *kernel->arena;
  Position position = add_axes(*kernel, shape);
  int other_axis = arena.new_axis(shape[axis]);
  Position other = position;
  other[axis] = arena.axis_index(other_axis);
  DType dtype = x->type.tensor().dtype;
  const Expr* mine = arena.load(dtype, source, linear(arena, source, position));
  const Expr* theirs = arena.load(dtype, source, linear(arena, source, other));
  auto logic = [&](OpKind kind, const Expr* a, const Expr* b) {
    return arena.binary(kind, a, b, DType::bool_);
  };
  const Expr* before = logic(OpKind::greater, theirs, mine);
  const Expr* equal = logic(OpKind::equal, theirs, mine);
  if (dtype.is_float()) {
    const Expr* my_nan = arena.unary(OpKind::is_nan, mine, DType::bool_);
    const Expr* their_nan = arena.unary(OpKind::is_nan, theirs, DType::bool_);
    before = logic(OpKind::logical_or, before,
                   logic(OpKind::logical_and, their_nan,
                         arena.unary(OpKind::logical_not, my_nan, DType::bool_)));
    equal = logic(OpKind::logical_or, equal, logic(OpKind::logical_and, their_nan, my_nan));
  }
  const Expr* here = arena.index(position[axis]);
  before = logic(
      OpKind::logical_or, before,
      logic(OpKind::logical_and, equal, logic(OpKind::greater, here, arena.index(other[axis]))));
  const Expr* rank =
      arena.reduce(Reduction::sum, arena.cast(before, DType::int64), other_axis, DType::int64);
  position[axis] = arena.value_index(rank);
  kernel->stores.push_back({values, linear(arena, values, position), mine});
  kernel->stores.push_back({indices, linear(arena, indices, position), here});
  emit(std::move(kernel));
  // The results are the first k of all; a store of their own keeps them dense.
  const int sorted[] = {values, indices};
  for (std::size_t i = 0; i < 2; ++i) {
    const ir::Value* result = op.result(i);
    int id = new_tensor(Tensor::Storage::temporary, result->type.tensor());
    auto copy = new_kernel(Kernel::Kind::loops);
    note(op);
    Arena& copy_arena = *copy->arena;
    Position to = add_axes(*copy, result->type.tensor().shape);
    copy->stores.push_back({id, linear(copy_arena, id, to),
                            copy_arena.load(result->type.tensor().dtype, sorted[i],
                                            linear(copy_arena, sorted[i], to))});
    emit(std::move(copy));
    tensor_of_[result] = id;
  }
}

}  // namespace kiln::compiler
