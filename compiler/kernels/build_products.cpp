// Kernels of matrix products and attentions.

#include <algorithm>
#include <bit>
#include <functional>
#include <set>
#include <utility>

#include "compiler/kernels/builder_state.h"
#include "compiler/kernels/constants.h"
#include "compiler/passes/passes.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

std::optional<MatrixOperand> Builder::as_matrix(Arena& arena, const ir::Value* value,
                                                const Position& position, int unit_axis) {
  const Expr* element = at(arena, value, position);
  if (element->kind != Expr::Kind::load || !element->index.is_affine()) return std::nullopt;
  if (element->index.coefficient(unit_axis) != Dim(1) && arena.extent(unit_axis) != Dim(1))
    return std::nullopt;
  return MatrixOperand{element->tensor, element->index};
}

void Builder::build_matmul(const ir::Op& op, const ir::Value* value, int id) {
  const ir::Value* lhs = op.operand(0);
  const ir::Value* rhs = op.operand(1);
  const graph::Shape& a = lhs->type.tensor().shape;
  const graph::Shape& shape = value->type.tensor().shape;
  DType dtype = value->type.tensor().dtype;
  const int packed = pack(rhs);

  auto make = [&]() {
    auto kernel = new_kernel(Kernel::Kind::matmul);
    note(op);
    Arena& arena = *kernel->arena;
    Position position = add_axes(*kernel, shape);
    kernel->reduced_axis = arena.new_axis(a.back());
    kernel->product_dtype = dtype;
    return std::pair(std::move(kernel), position);
  };
  auto lhs_position = [&](Kernel& kernel, const Position& position) {
    Position at = position;
    at.back() = kernel.arena->axis_index(kernel.reduced_axis);
    return broadcast(lhs, at, a);
  };
  auto [kernel, position] = make();
  auto operand =
      as_matrix(*kernel->arena, lhs, lhs_position(*kernel, position), kernel->reduced_axis);
  if (!operand) {
    int copy = new_tensor(Tensor::Storage::temporary, lhs->type.tensor());
    store_value(lhs, copy);
    tensor_of_[lhs] = copy;
    std::tie(kernel, position) = make();
    operand = as_matrix(*kernel->arena, lhs, lhs_position(*kernel, position), kernel->reduced_axis);
  }
  Arena& arena = *kernel->arena;
  kernel->operands.push_back(*operand);
  // The panels of one matrix of the packed operand follow one another.
  const graph::Shape& c = rhs->type.tensor().shape;
  Index batch(0);
  for (std::size_t i = 0; i + 2 < c.size(); ++i) {
    Index here = c[i] == Dim(1) ? Index(0) : position[shape.size() - c.size() + i];
    batch = arena.add(arena.scale(batch, c[i]), here);
  }
  kernel->operands.push_back({packed, arena.scale(batch, panel_elements(c, dtype))});
  AxisSet all = 0;
  for (int axis : kernel->axes) all |= axis_bit(axis);
  kernel->stores.push_back({id, linear(arena, id, position), arena.accumulator(dtype, all)});
  emit(std::move(kernel));
}

Position Builder::broadcast(const ir::Value*, const Position& position, const graph::Shape& shape) {
  Position result;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::size_t from = position.size() - shape.size() + i;
    result.push_back(shape[i] == Dim(1) && i + 1 < shape.size() ? Index(0) : position[from]);
  }
  return result;
}

MatrixOperand Builder::matrix_operand(Arena& arena, const ir::Value* value,
                                      const Position& position, int unit,
                                      std::size_t unit_position) {
  if (auto operand = as_matrix(arena, value, position, unit)) return *operand;
  Kernel* current = kernel_;
  int copy = new_tensor(Tensor::Storage::temporary, value->type.tensor());
  // The unit axis lies last in memory.
  std::vector<int>& layout = tensor(copy).layout;
  layout.erase(layout.begin() + static_cast<std::ptrdiff_t>(unit_position));
  layout.push_back(static_cast<int>(unit_position));
  store_value(value, copy);
  kernel_ = current;
  return {copy, linear(arena, copy, position)};
}

void Builder::build_attention(const ir::Op& op, const ir::Value* value, int id) {
  const ir::Op& softmax = *op.operand(0)->producer;
  const ir::Op* inner = nullptr;
  auto find = [&](const auto& self, const ir::Value* v) -> void {
    if (!v->producer || inner) return;
    if (v->producer->has_attribute(kInsideAttention) && v->producer->kind == OpKind::matmul) {
      inner = v->producer;
      return;
    }
    for (const ir::Value* operand : v->producer->operands)
      if (is_tensor(operand) && operand->type.tensor().shape == v->type.tensor().shape)
        self(self, operand);
  };
  find(find, softmax.operand(0));
  KILN_CHECK(inner, "an attention has no first product");
  auto kernel = new_kernel(Kernel::Kind::attention);
  note(*inner);
  note(softmax);
  note(op);
  Arena& arena = *kernel->arena;
  Position position = add_axes(*kernel, value->type.tensor().shape);
  const ir::Value *query = inner->operand(0), *key = inner->operand(1), *v = op.operand(1);
  kernel->reduced_axis = arena.new_axis(query->type.tensor().shape.back());
  kernel->key_axis = arena.new_axis(softmax.operand(0)->type.tensor().shape.back());
  kernel->product_dtype = DType::float32;
  Index depth = arena.axis_index(kernel->reduced_axis), keys = arena.axis_index(kernel->key_axis);
  auto with = [&](Index second_last, Index last) {
    Position p = position;
    p[p.size() - 2] = std::move(second_last);
    p.back() = std::move(last);
    return p;
  };
  auto operand = [&](const ir::Value* operand, const Position& p, int unit, bool transposed) {
    const graph::Shape& shape = operand->type.tensor().shape;
    kernel->operands.push_back(matrix_operand(arena, operand, broadcast(operand, p, shape), unit,
                                              shape.size() - (transposed ? 2 : 1)));
  };
  operand(query, with(position[position.size() - 2], depth), kernel->reduced_axis, false);
  operand(key, with(depth, keys), kernel->reduced_axis, true);
  operand(v, with(keys, position.back()), kernel->axes.back(), false);
  kernel->score = at(arena, softmax.operand(0), with(position[position.size() - 2], keys));
  AxisSet all = 0;
  for (int axis : kernel->axes) all |= axis_bit(axis);
  kernel->stores.push_back(
      {id, linear(arena, id, position), arena.accumulator(DType::float32, all)});
  emit(std::move(kernel));
}

int Builder::panel_width(DType dtype) const {
  return isa_.matmul_vectors * isa_.lanes(dtype.size_in_bytes());
}

Dim Builder::panel_elements(const graph::Shape& rhs, DType dtype) const {
  int width = panel_width(dtype);
  Dim panels = (rhs.back() + (width - 1)).floor_div(width);
  return panels * rhs[rhs.size() - 2] * width;
}

int Builder::pack(const ir::Value* rhs) {
  if (auto it = packed_.find(rhs); it != packed_.end()) return it->second;
  const graph::TensorType& type = rhs->type.tensor();
  return packed_[rhs] = pack(type.shape, type.dtype, [&](Arena& arena, const Position& position) {
           return at(arena, rhs, position);
         });
}

int Builder::pack(const graph::Shape& shape, DType dtype,
                  const std::function<const Expr*(Arena&, const Position&)>& element) {
  int id = new_tensor(Tensor::Storage::temporary, graph::TensorType(dtype, shape, {}));
  Dim batch = 1;
  for (std::size_t i = 0; i + 2 < shape.size(); ++i) batch = batch * shape[i];
  tensor(id).elements = batch * panel_elements(shape, dtype);
  auto kernel = new_kernel(Kernel::Kind::pack);
  Position position = add_axes(*kernel, shape);
  Arena& arena = *kernel->arena;
  kernel->product_dtype = dtype;
  Index offset(0);
  for (std::size_t i = 0; i + 2 < shape.size(); ++i)
    offset = arena.add(arena.scale(offset, shape[i]), position[i]);
  kernel->stores.push_back(
      {id, arena.scale(offset, panel_elements(shape, dtype)), element(arena, position)});
  emit(std::move(kernel));
  return id;
}

}  // namespace kiln::compiler
