#include "kiln/graph/infer.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph {
namespace {

DTypeFamily family_of(OpKind kind) {
  switch (kind) {
    case OpKind::add:
    case OpKind::sub:
    case OpKind::mul:
    case OpKind::mod:
    case OpKind::pow:
      return DTypeFamily::arithmetic;
    case OpKind::div:
      return DTypeFamily::floating;
    case OpKind::max:
    case OpKind::min:
      return DTypeFamily::min_max;
    case OpKind::equal:
    case OpKind::not_equal:
    case OpKind::greater:
    case OpKind::greater_equal:
      return DTypeFamily::comparison;
    case OpKind::logical_and:
    case OpKind::logical_or:
    case OpKind::logical_xor:
    case OpKind::logical_not:
      return DTypeFamily::boolean;
    case OpKind::abs:
    case OpKind::negate:
    case OpKind::relu:
      return DTypeFamily::not_bool;
    case OpKind::is_nan:
    case OpKind::is_inf:
      return DTypeFamily::all;
    default:
      return DTypeFamily::floating;
  }
}

bool gives_bool(OpKind kind) {
  switch (kind) {
    case OpKind::equal:
    case OpKind::not_equal:
    case OpKind::greater:
    case OpKind::greater_equal:
    case OpKind::is_nan:
    case OpKind::is_inf:
      return true;
    default:
      return false;
  }
}

Type binary(const Inference& op) {
  const TensorType &lhs = op.tensor(0), &rhs = op.tensor(1);
  check_same_dtype(op, 0, 2);
  check_dtype(op.name(), family_of(op.kind), lhs.dtype);
  check_same_device(op, 0, 2);
  DType dtype = gives_bool(op.kind) ? DType(DType::bool_) : lhs.dtype;
  return TensorType(dtype, broadcast_shapes(lhs.shape, rhs.shape), lhs.device);
}

Type where(const Inference& op) {
  const TensorType &condition = op.tensor(0), &x = op.tensor(1), &y = op.tensor(2);
  if (condition.dtype != DType::bool_)
    throw ValueError(
        format("Expected condition to be a boolean tensor, but got a tensor with dtype {}",
               condition.dtype.to_string()));
  check_same_dtype(op, 1, 3);
  check_same_device(op, 0, 3);
  Shape shape = broadcast_shapes(broadcast_shapes(condition.shape, x.shape), y.shape);
  return TensorType(x.dtype, std::move(shape), x.device);
}

}  // namespace

std::vector<Type> infer_elementwise(const Inference& op) {
  if (op.kind == OpKind::where) return {where(op)};
  if (op.operands.size() == 2) return {binary(op)};
  const TensorType& x = op.tensor(0);
  if (op.kind == OpKind::cast) return {TensorType(op.get<DType>("dtype"), x.shape, x.device)};
  if (op.kind == OpKind::gelu) {
    const auto& approximate = op.get<std::string>("approximate");
    if (approximate != "none" && approximate != "tanh" && approximate != "quick")
      throw ValueError(format("Invalid approximation method: {}", approximate));
  }
  check_dtype(op.name(), family_of(op.kind), x.dtype);
  return {TensorType(gives_bool(op.kind) ? DType(DType::bool_) : x.dtype, x.shape, x.device)};
}

}  // namespace kiln::graph
