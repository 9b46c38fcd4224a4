#include "kiln/graph/ops/elementwise.h"

#include "kiln/graph/graph_state.h"
#include "kiln/graph/infer.h"
#include "kiln/graph/promotion.h"
#include "kiln/support/error.h"

namespace kiln::graph::ops {
namespace {

/// The outermost line counts: operands know theirs.
const Location& line_of(const TensorValueLike& lhs, const TensorValueLike& rhs) {
  return lhs.is_weak() ? rhs.location() : lhs.location();
}

TensorValue binary(OpKind kind, const TensorValueLike& lhs, const TensorValueLike& rhs) {
  LocationScope at(line_of(lhs, rhs));
  auto [x, y] = promote(lhs, rhs);
  return graph::detail::add_tensor_op(kind, {x, y});
}

TensorValue unary(OpKind kind, const TensorValueLike& x, ir::Attributes attributes = {}) {
  LocationScope at(x.location());
  return graph::detail::add_tensor_op(kind, {strong(x)}, std::move(attributes));
}

/// Logic takes bools only, so a number beside a bool must not become one silently.
TensorValue logical(OpKind kind, const TensorValueLike& lhs, const TensorValueLike& rhs) {
  return binary(kind, lhs, rhs);
}

}  // namespace

using T = const TensorValueLike&;

TensorValue add(T lhs, T rhs) { return binary(OpKind::add, lhs, rhs); }
TensorValue sub(T lhs, T rhs) { return binary(OpKind::sub, lhs, rhs); }
TensorValue mul(T lhs, T rhs) { return binary(OpKind::mul, lhs, rhs); }
TensorValue mod(T lhs, T rhs) { return binary(OpKind::mod, lhs, rhs); }
TensorValue pow(T lhs, T rhs) { return binary(OpKind::pow, lhs, rhs); }
TensorValue max(T lhs, T rhs) { return binary(OpKind::max, lhs, rhs); }
TensorValue min(T lhs, T rhs) { return binary(OpKind::min, lhs, rhs); }
TensorValue equal(T lhs, T rhs) { return binary(OpKind::equal, lhs, rhs); }
TensorValue not_equal(T lhs, T rhs) { return binary(OpKind::not_equal, lhs, rhs); }
TensorValue greater(T lhs, T rhs) { return binary(OpKind::greater, lhs, rhs); }
TensorValue greater_equal(T lhs, T rhs) { return binary(OpKind::greater_equal, lhs, rhs); }
TensorValue logical_and(T lhs, T rhs) { return logical(OpKind::logical_and, lhs, rhs); }
TensorValue logical_or(T lhs, T rhs) { return logical(OpKind::logical_or, lhs, rhs); }
TensorValue logical_xor(T lhs, T rhs) { return logical(OpKind::logical_xor, lhs, rhs); }

namespace {

bool is_integral_operand(T x) {
  if (const TensorValue* tensor = x.tensor()) return tensor->dtype().is_integral();
  if (const auto* number = std::get_if<Scalar>(&x.variant())) return !number->is_float();
  if (const auto* array = std::get_if<Array>(&x.variant())) return !array->dtype.is_float();
  return true;
}

}  // namespace

TensorValue div(T lhs, T rhs) {
  LocationScope at(line_of(lhs, rhs));
  if (!is_integral_operand(lhs) || !is_integral_operand(rhs) || (lhs.is_weak() && rhs.is_weak()))
    return binary(OpKind::div, lhs, rhs);
  // Promoted only after the cast, so that types such as int64 and uint64, which have no common
  // type, divide too.
  auto wide = [](T x) -> TensorValueLike {
    if (x.is_weak()) return x;
    return cast(x, DType::float64);
  };
  return binary(OpKind::div, wide(lhs), wide(rhs));
}

TensorValue floor_div(T lhs, T rhs) {
  LocationScope at(line_of(lhs, rhs));
  return floor(div(lhs, rhs));
}

TensorValue abs(T x) { return unary(OpKind::abs, x); }
TensorValue negate(T x) { return unary(OpKind::negate, x); }
TensorValue relu(T x) { return unary(OpKind::relu, x); }
TensorValue ceil(T x) { return unary(OpKind::ceil, x); }
TensorValue floor(T x) { return unary(OpKind::floor, x); }
TensorValue trunc(T x) { return unary(OpKind::trunc, x); }
TensorValue round(T x) { return unary(OpKind::round, x); }
TensorValue exp(T x) { return unary(OpKind::exp, x); }
TensorValue log(T x) { return unary(OpKind::log, x); }
TensorValue log1p(T x) { return unary(OpKind::log1p, x); }
TensorValue sqrt(T x) { return unary(OpKind::sqrt, x); }
TensorValue rsqrt(T x) { return unary(OpKind::rsqrt, x); }
TensorValue sin(T x) { return unary(OpKind::sin, x); }
TensorValue cos(T x) { return unary(OpKind::cos, x); }
TensorValue erf(T x) { return unary(OpKind::erf, x); }
TensorValue tanh(T x) { return unary(OpKind::tanh, x); }
TensorValue atanh(T x) { return unary(OpKind::atanh, x); }
TensorValue acos(T x) { return unary(OpKind::acos, x); }
TensorValue sigmoid(T x) { return unary(OpKind::sigmoid, x); }
TensorValue silu(T x) { return unary(OpKind::silu, x); }
TensorValue gelu(T x, const std::string& approximate) {
  return unary(OpKind::gelu, x, {{"approximate", approximate}});
}
TensorValue is_nan(T x) { return unary(OpKind::is_nan, x); }
TensorValue is_inf(T x) { return unary(OpKind::is_inf, x); }
TensorValue logical_not(T x) { return unary(OpKind::logical_not, x); }

TensorValue cast(T x, DType dtype) {
  LocationScope at(x.location());
  TensorValue value = strong(x);
  if (value.dtype() == dtype) return value;
  return graph::detail::add_tensor_op(OpKind::cast, {value}, {{"dtype", dtype}});
}

TensorValue where(T condition, T x, T y) {
  LocationScope at(condition.location());
  TensorValue chosen = strong(condition, "The condition of ops.where");
  if (x.is_weak() && y.is_weak())
    throw TypeError(
        "ops.where needs at least one kiln object among x and y. Use ops.constant to convert a "
        "number "
        "or an array to a TensorValue with a specific dtype.");
  auto [a, b] = promote(x, y);
  return graph::detail::add_tensor_op(OpKind::where, {chosen, a, b});
}

}  // namespace kiln::graph::ops
