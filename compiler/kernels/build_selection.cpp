// Ops whose data says where elements go: scatter, top_k and bottom_k.

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

void Builder::build_top_k(const ir::Op& op) {
  const ir::Value* x = op.operand(0);
  const graph::Shape& shape = x->type.tensor().shape;
  auto axis = static_cast<std::size_t>(op.attribute<std::int64_t>("axis"));
  const Dim& k = op.attribute<Dim>("k");
  check(op, k, Check::Relation::at_most, shape[axis],
        format("k ({{0}}) cannot be larger than dimension size along axis {}", axis), {k});
  Step step;
  step.top_k = std::make_unique<TopK>(TopK{.source = stored(x),
                                           .axis = axis,
                                           .k = k,
                                           .largest = op.kind == OpKind::top_k,
                                           .origin = &op});
  for (std::size_t i = 0; i < 2; ++i) {
    const ir::Value* result = op.result(i);
    const int id = new_tensor(Tensor::Storage::temporary, result->type.tensor());
    (i == 0 ? step.top_k->values : step.top_k->indices) = id;
    tensor_of_[result] = id;
  }
  steps_->push_back(std::move(step));
}

}  // namespace kiln::compiler
