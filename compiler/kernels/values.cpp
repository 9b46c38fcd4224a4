// The element of a value at a position, as an expression over what lies in memory.

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "compiler/diagnostics.h"
#include "compiler/kernels/builder_state.h"
#include "compiler/kernels/constants.h"
#include "compiler/passes/passes.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

int Builder::new_tensor(Tensor::Storage storage, const graph::ShapedType& type,
                        std::int64_t number) {
  Tensor tensor;
  tensor.storage = storage;
  tensor.dtype = type.dtype;
  tensor.shape = type.shape;
  tensor.layout.resize(type.shape.size());
  for (std::size_t i = 0; i < tensor.layout.size(); ++i) tensor.layout[i] = static_cast<int>(i);
  tensor.number = number;
  tensor.origin = current_;
  for (const std::string& symbol : type.shape.parameters()) {
    const auto& parameters = program_.graph->parameters;
    tensor.sized_by_data = tensor.sized_by_data || std::find(parameters.begin(), parameters.end(),
                                                             symbol) == parameters.end();
  }
  program_.tensors.push_back(std::move(tensor));
  return static_cast<int>(program_.tensors.size()) - 1;
}

Index Builder::linear(Arena& arena, int id, const Position& at) {
  std::vector<Dim> strides = tensor(id).strides();
  Index index(0);
  for (std::size_t i = 0; i < at.size(); ++i)
    index = arena.add(index, arena.scale(at[i], strides[i]));
  return index;
}

bool Builder::is_constant(int id) {
  Tensor::Storage storage = tensor(id).storage;
  return storage == Tensor::Storage::weight || storage == Tensor::Storage::constant ||
         storage == Tensor::Storage::prepared;
}

const Expr* Builder::at(Arena& arena, const ir::Value* value, const Position& position) {
  if (auto it = tensor_of_.find(value); it != tensor_of_.end())
    return arena.load(value->type.shaped().dtype, it->second, linear(arena, it->second, position));
  return working_on(*value->producer, [&] { return computed(arena, value, position); });
}

Position Builder::broadcast(const ir::Value* operand, const Position& position) {
  const graph::Shape& shape = operand->type.tensor().shape;
  Position result;
  for (std::size_t i = 0; i < shape.size(); ++i)
    result.push_back(shape[i] == Dim(1) ? Index(0) : position[position.size() - shape.size() + i]);
  return result;
}

const Expr* Builder::operand_at(Arena& arena, const ir::Op& op, std::size_t i,
                                const Position& position) {
  return at(arena, op.operand(i), broadcast(op.operand(i), position));
}

const Expr* Builder::computed(Arena& arena, const ir::Value* value, const Position& position) {
  const ir::Op& op = *value->producer;
  note(op);
  DType dtype = value->type.tensor().dtype;
  switch (op.kind) {
    case OpKind::constant:
      return constant(arena, value, position);
    case OpKind::matmul: {
      // The scores of an attention, in terms of its first product.
      KILN_CHECK(op.has_attribute(kInsideAttention), "a product is always stored");
      AxisSet axes = 0;
      for (const Index& index : position) axes |= index.axes();
      return arena.accumulator(dtype, axes);
    }
    case OpKind::constant_external:
      return at_tensor(arena, value, weight(op), position);
    case OpKind::shape_to_tensor: {
      const auto& shape = op.attribute<graph::Shape>("shape");
      if (shape.empty()) return arena.integer(DType::int64, 0);
      const Expr* result = arena.index(Index(shape[0]));
      const Expr* here = arena.index(position[0]);
      for (std::size_t i = 1; i < shape.size(); ++i)
        result = arena.select(
            arena.binary(OpKind::equal, here, arena.integer(DType::int64, static_cast<int>(i)),
                         DType::bool_),
            arena.index(Index(shape[i])), result);
      return result;
    }
    case OpKind::range:
      return range(arena, op, dtype, position);
    case OpKind::random_uniform:
    case OpKind::random_normal:
      return random(arena, op, position);
    case OpKind::where:
      return arena.select(operand_at(arena, op, 0, position), operand_at(arena, op, 1, position),
                          operand_at(arena, op, 2, position));
    case OpKind::cast:
      return arena.cast(operand_at(arena, op, 0, position), dtype);
    case OpKind::transfer_to:
    case OpKind::rebind:
      return at(arena, op.operand(0), position);
    case OpKind::broadcast_to:
      return at(arena, op.operand(0), broadcast(op.operand(0), position));
    case OpKind::permute: {
      const auto& dims = op.attribute<std::vector<std::int64_t>>("dims");
      Position inner(position.size());
      for (std::size_t i = 0; i < dims.size(); ++i)
        inner[static_cast<std::size_t>(dims[i])] = position[i];
      return at(arena, op.operand(0), inner);
    }
    case OpKind::squeeze: {
      Position inner = position;
      inner.insert(inner.begin() + op.attribute<std::int64_t>("axis"), Index(0));
      return at(arena, op.operand(0), inner);
    }
    case OpKind::unsqueeze: {
      Position inner = position;
      inner.erase(inner.begin() + op.attribute<std::int64_t>("axis"));
      return at(arena, op.operand(0), inner);
    }
    case OpKind::reshape:
      return at(
          arena, op.operand(0),
          reshape(arena, op.operand(0)->type.tensor().shape, value->type.tensor().shape, position));
    case OpKind::slice:
      return at(arena, op.operand(0), sliced(arena, op, position));
    case OpKind::gather_nd: {
      auto batch = static_cast<std::size_t>(op.attribute<std::int64_t>("batch_dims"));
      const graph::Shape& from = op.operand(0)->type.tensor().shape;
      const graph::Shape& indices = op.operand(1)->type.tensor().shape;
      auto depth = static_cast<std::size_t>(indices.back().value());
      Position where(position.begin(),
                     position.begin() + static_cast<std::ptrdiff_t>(indices.size()) - 1);
      Position inner(position.begin(), position.begin() + static_cast<std::ptrdiff_t>(batch));
      for (std::size_t k = 0; k < depth; ++k) {
        Position component = where;
        component.push_back(Index(Dim(static_cast<std::int64_t>(k))));
        inner.push_back(arena.value_index(arena.checked_index(at(arena, op.operand(1), component),
                                                              from[batch + k], &op,
                                                              static_cast<int>(batch + k))));
      }
      inner.insert(inner.end(), position.begin() + static_cast<std::ptrdiff_t>(indices.size()) - 1,
                   position.end());
      return at(arena, op.operand(0), inner);
    }
    case OpKind::tile: {
      Position inner;
      const graph::Shape& shape = op.operand(0)->type.tensor().shape;
      for (std::size_t i = 0; i < position.size(); ++i)
        inner.push_back(shape[i] == Dim(1) ? Index(0) : arena.remainder(position[i], shape[i]));
      return at(arena, op.operand(0), inner);
    }
    case OpKind::gather: {
      auto axis = static_cast<std::size_t>(op.attribute<std::int64_t>("axis"));
      std::size_t rank = op.operand(1)->type.tensor().shape.size();
      auto first = position.begin() + static_cast<std::ptrdiff_t>(axis);
      Position where(first, first + static_cast<std::ptrdiff_t>(rank));
      const Expr* index = arena.checked_index(at(arena, op.operand(1), where),
                                              op.operand(0)->type.tensor().shape[axis], &op,
                                              static_cast<int>(axis));
      Position inner(position.begin(), first);
      inner.push_back(arena.value_index(index));
      inner.insert(inner.end(), first + static_cast<std::ptrdiff_t>(rank), position.end());
      return at(arena, op.operand(0), inner);
    }
    case OpKind::repeat_interleave: {
      const auto axis = static_cast<std::size_t>(op.attribute<std::int64_t>("axis"));
      Position inner = position;
      inner[axis] = arena.value_index(arena.load(DType::int64, repeats_.at(&op), position[axis]));
      return at(arena, op.operand(0), inner);
    }
    default:
      break;
  }
  if (op.operands.size() == 2)
    return arena.binary(op.kind, operand_at(arena, op, 0, position),
                        operand_at(arena, op, 1, position), dtype);
  KILN_CHECK(op.operands.size() == 1,
             format("op '{}' has no place in a kernel", graph::to_string(op.kind)));
  std::string text;
  if (op.has_attribute("approximate")) text = op.attribute<std::string>("approximate");
  return arena.unary(op.kind, operand_at(arena, op, 0, position), dtype, text);
}

const Expr* Builder::at_tensor(Arena& arena, const ir::Value* value, int id,
                               const Position& position) {
  tensor_of_[value] = id;
  return arena.load(tensor(id).dtype, id, linear(arena, id, position));
}

const Expr* Builder::constant(Arena& arena, const ir::Value* value, const Position& position) {
  const auto& data = *value->producer->attribute<std::shared_ptr<const ir::ConstantData>>("value");
  DType dtype = value->type.tensor().dtype;
  if (auto bits = uniform_value(data, dtype)) {
    if (dtype.is_float()) return arena.constant(dtype, std::bit_cast<double>(*bits));
    return arena.integer(dtype, *bits);
  }
  int id = new_tensor(Tensor::Storage::constant, value->type.tensor(), constants_.add(data));
  return at_tensor(arena, value, id, position);
}

int Builder::weight(const ir::Op& op) {
  const auto& name = op.attribute<std::string>("name");
  auto it = std::find(program_.weights.begin(), program_.weights.end(), name);
  auto number = it - program_.weights.begin();
  const graph::TensorType& type = op.result()->type.tensor();
  if (it == program_.weights.end()) program_.weights.push_back(name);
  for (const Tensor& other : program_.tensors)
    if (other.storage == Tensor::Storage::weight && other.number == number)
      check_same_weight(name, other.dtype, graph::Shape(other.shape), type.dtype, type.shape);
  return new_tensor(Tensor::Storage::weight, type, number);
}

const Expr* Builder::range(Arena& arena, const ir::Op& op, DType result, const Position& position) {
  // Numbers that are no integers are kept in full until the end: rounding the step first would move
  // every element.
  const auto is_fraction = [&](std::string_view name) {
    const auto* number = std::get_if<double>(&op.attributes.find(name)->second);
    return number && *number != std::trunc(*number);
  };
  const bool in_full =
      op.operands.empty() && result.is_float() && (is_fraction("start") || is_fraction("step"));
  const DType dtype = in_full ? DType(DType::float64) : result;
  auto bound = [&](std::size_t operand, std::string_view name) -> const Expr* {
    if (!op.operands.empty())
      return arena.cast(at(arena, op.operand(operand),
                           Position(op.operand(operand)->type.tensor().shape.size(), Index(0))),
                        dtype);
    const ir::Attribute& value = op.attributes.find(name)->second;
    if (const auto* number = std::get_if<double>(&value)) return arena.constant(dtype, *number);
    if (const auto* number = std::get_if<std::int64_t>(&value))
      return arena.integer(dtype, *number);
    return arena.cast(arena.index(Index(std::get<Dim>(value))), dtype);
  };
  const Expr* step = arena.binary(OpKind::mul, arena.cast(arena.index(position[0]), dtype),
                                  bound(2, "step"), dtype);
  const Expr* value = arena.binary(OpKind::add, bound(0, "start"), step, dtype);
  return in_full ? arena.cast(value, result) : value;
}

Position Builder::sliced(Arena& arena, const ir::Op& op, const Position& position) {
  const Bounds& bounds = bounds_.at(&op);
  Position inner;
  for (std::size_t i = 0; i < position.size(); ++i)
    inner.push_back(arena.add(arena.scale(position[i], bounds.steps[i]), Index(bounds.starts[i])));
  return inner;
}

Position Builder::reshape(Arena& arena, const graph::Shape& from, const graph::Shape& to,
                          const Position& position) {
  Position result(from.size());
  std::size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    std::size_t i_end = i, j_end = j;
    Dim a = 1, c = 1;
    bool found = false;
    // The smallest group that starts here and has equal products on both sides.
    for (std::size_t total = 1; !found && total <= (from.size() - i) + (to.size() - j); ++total)
      for (std::size_t n = 0; n <= total && !found; ++n) {
        std::size_t m = total - n;
        if (n > from.size() - i || m > to.size() - j) continue;
        a = product(from, i, i + n);
        c = product(to, j, j + m);
        if (a == c) {
          i_end = i + n;
          j_end = j + m;
          found = true;
        }
      }
    if (!found) {
      i_end = from.size();
      j_end = to.size();
    }
    Index flat(0);
    for (std::size_t k = j; k < j_end; ++k) flat = arena.add(arena.scale(flat, to[k]), position[k]);
    for (std::size_t k = i_end; k > i; --k) {
      bool outermost = k - 1 == i;
      result[k - 1] = from[k - 1] == Dim(1) ? Index(0)
                      : outermost           ? flat
                                            : arena.remainder(flat, from[k - 1]);
      if (!outermost) flat = arena.quotient(flat, from[k - 1]);
    }
    i = i_end;
    j = j_end;
  }
  return result;
}

Dim Builder::product(const graph::Shape& shape, std::size_t begin, std::size_t end) {
  Dim result = 1;
  for (std::size_t k = begin; k < end; ++k) result = result * shape[k];
  return result;
}

}  // namespace kiln::compiler
