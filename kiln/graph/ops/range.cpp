#include "kiln/graph/graph_state.h"
#include "kiln/graph/infer.h"
#include "kiln/graph/ops/constant.h"
#include "kiln/graph/ops/elementwise.h"
#include "kiln/graph/ops/shape.h"
#include "kiln/graph/ops/transfer.h"
#include "kiln/graph/promotion.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph::ops {
namespace {

namespace d = graph::detail;

/// A bound that is no tensor: a dim, or a float.
struct Bound {
  Dim dim;
  std::optional<double> real;

  ir::Attribute attribute() const { return real ? ir::Attribute(*real) : ir::Attribute(dim); }
};

std::optional<Bound> plain_bound(const TensorValueLike& x) {
  if (const auto* dim = std::get_if<Dim>(&x.variant())) return Bound{*dim, {}};
  const auto* number = std::get_if<Scalar>(&x.variant());
  if (!number) return std::nullopt;
  if (number->is_wide_integer()) throw ValueError("Dim value must be -2**63 <= dim < 2**63");
  if (number->is_float()) return Bound{{}, number->to<double>()};
  if (std::holds_alternative<std::uint64_t>(*number))
    return Bound{std::get<std::uint64_t>(*number)};
  return Bound{number->to<std::int64_t>(), {}};
}

[[noreturn]] void throw_wrong_size(const Dim& out_dim, const Dim& length) {
  throw ValueError(format("range: out_dim is {} but the range has {} elements", out_dim.to_string(),
                          length.to_string()));
}

TensorValue plain_range(const Bound& start, const Bound& stop, const Bound& step, const Dim& length,
                        DType dtype, DeviceRef device, const RangeOptions& options) {
  TensorValue result = d::add_tensor_op(OpKind::range, {},
                                        {{"start", start.attribute()},
                                         {"stop", stop.attribute()},
                                         {"step", step.attribute()},
                                         {"out_dim", length}},
                                        {TensorType(dtype, {length}, device)});
  if (!options.out_dim || *options.out_dim == length) return result;
  if (options.out_dim->is_static() && length.is_static())
    throw_wrong_size(*options.out_dim, length);
  return rebind(result, {*options.out_dim}, {.message = "range: out_dim"});
}

TensorValue tensor_bound(const TensorValueLike& x, DType dtype) {
  if (x.is_weak()) return promote_weak(x, dtype, DeviceRef::CPU());
  TensorValue value = d::strong_tensor(x);
  if (value.rank() != 0) throw ValueError("range expected scalar values as inputs!");
  if (!value.device().is_cpu()) throw ValueError("Range input values must be on CPU");
  return cast(value, dtype);
}

}  // namespace

TensorValue range(const TensorValueLike& start, const TensorValueLike& stop,
                  const TensorValueLike& step, DType dtype, DeviceRef device,
                  const RangeOptions& options) {
  LocationScope at(start.location());
  const auto a = plain_bound(start), b = plain_bound(stop), s = plain_bound(step);
  if (s && (s->real ? *s->real == 0 : s->dim == Dim(0)))
    throw ValueError("range: step must be non-zero");
  if (a && b && s)
    if (auto length = range_length(a->attribute(), b->attribute(), s->attribute(), dtype))
      return plain_range(*a, *b, *s, *length, dtype, device, options);
  TensorValue x = tensor_bound(start, dtype), y = tensor_bound(stop, dtype),
              z = tensor_bound(step, dtype);
  for (const TensorValue& bound : {x, y, z})
    if (bound.rank() != 0) throw ValueError("range expected scalar values as inputs!");
  if (!options.out_dim) throw ValueError("Dynamic ranges must provide an explicit out_dim");
  return d::add_tensor_op(OpKind::range, {x, y, z}, {{"out_dim", *options.out_dim}},
                          {TensorType(dtype, {*options.out_dim}, device)});
}

}  // namespace kiln::graph::ops
