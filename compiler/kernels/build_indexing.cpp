// Ops whose data says where elements go: the scatters, and the checks of indices.

#include "compiler/kernels/builder_state.h"

namespace kiln::compiler {

void Builder::build_scatter(const ir::Op& op, int id) {
  tensor(id).many_writers = true;
  store_value(op.operand(0), id);
  auto kernel = new_kernel(Kernel::Kind::loops);
  note(op);
  kernel->sequential = true;
  Arena& arena = *kernel->arena;
  const graph::Shape& shape = op.operand(0)->type.tensor().shape;
  const Position position = add_axes(*kernel, op.operand(1)->type.tensor().shape);
  const Expr* update = at(arena, op.operand(1), position);
  auto target = [&](const Position& at_index, std::size_t axis) {
    const Expr* index = at(arena, op.operand(2), at_index);
    return arena.value_index(arena.checked_index(index, shape[axis], &op, static_cast<int>(axis)));
  };
  Position to;
  if (op.has_attribute("axis")) {
    const auto axis = static_cast<std::size_t>(op.attribute<std::int64_t>("axis"));
    to = position;
    to[axis] = target(position, axis);
  } else {
    // Each row of indices names where a slice of the updates goes.
    const graph::Shape& indices = op.operand(2)->type.tensor().shape;
    const auto rows = static_cast<std::ptrdiff_t>(indices.size()) - 1;
    for (std::int64_t k = 0; k < indices.back().value(); ++k) {
      Position component(position.begin(), position.begin() + rows);
      component.push_back(Index(Dim(k)));
      to.push_back(target(component, static_cast<std::size_t>(k)));
    }
    to.insert(to.end(), position.begin() + rows, position.end());
  }
  const Index index = linear(arena, id, to);
  if (const auto combiner = combiner_of(op.kind))
    update = arena.binary(*combiner, arena.load(update->dtype, id, index), update, update->dtype);
  kernel->stores.push_back({id, index, update});
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

}  // namespace kiln::compiler
