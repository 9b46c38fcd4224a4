#include "kiln/graph/infer.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph {
namespace {

using Ints = std::vector<std::int64_t>;

void check_index_dtype(const Inference& op, const TensorType& indices) {
  if (!indices.dtype.is_integral())
    throw ValueError(format("The indices of '{}' have dtype {}, which must be an integer type.",
                            op.name(), indices.dtype.to_string()));
}

Type concat(const Inference& op) {
  if (op.operands.empty()) throw ValueError("Must provide at least one value to concat.");
  const TensorType& first = op.tensor(0);
  const std::size_t axis = checked_axis(op, first.rank());
  check_same_dtype(op, 0, op.operands.size());
  Shape shape = first.shape;
  for (std::size_t k = 1; k < op.operands.size(); ++k) {
    const TensorType& x = op.tensor(k);
    if (x.rank() != first.rank())
      throw ValueError(
          format("Concat inputs must all have the same rank. values[0] has shape {}, "
                 "values[{}] has shape {}.",
                 first.shape.repr(), k, x.shape.repr()));
    for (std::size_t i = 0; i < shape.size(); ++i)
      if (i != axis && x.shape[i] != shape[i])
        throw ValueError(
            format("Concat inputs differ on non-concat axis {}: values[0] has shape {}, "
                   "values[{}] has shape {}.",
                   i, first.shape.repr(), k, x.shape.repr()));
    shape[axis] = shape[axis] + x.shape[axis];
  }
  check_same_device(op, 0, op.operands.size());
  return TensorType(first.dtype, std::move(shape), first.device);
}

Type pad(const Inference& op) {
  const TensorType& x = op.tensor(0);
  const auto& paddings = op.get<Ints>("paddings");
  const auto& mode = op.get<std::string>("mode");
  if (mode != "constant" && mode != "reflect" && mode != "edge")
    throw ValueError(
        format("unsupported padding mode '{}'; expected 'constant', 'reflect', or 'edge'", mode));
  if (paddings.size() != 2 * x.shape.size())
    throw ValueError(format("pad takes two numbers an axis, {} for rank {}, got {}: [{}]",
                            2 * x.rank(), x.rank(), paddings.size(), join(paddings, ", ")));
  Shape shape = x.shape;
  for (std::size_t i = 0; i < paddings.size(); ++i) {
    if (paddings[i] < 0)
      throw ValueError(
          format("padding values must be non-negative but given [{}]", join(paddings, ", ")));
    if (paddings[i] > 0 && mode != "constant" && x.shape[i / 2] == Dim(0))
      throw ValueError(format("pad: mode '{}' cannot extend the empty axis {} of shape {}.", mode,
                              i / 2, x.shape.repr()));
    shape[i / 2] = shape[i / 2] + Dim(paddings[i]);
  }
  if (op.operands.size() == 2) {
    const TensorType& value = op.tensor(1);
    if (value.rank() != 0)
      throw ValueError(format("The padding value must be a scalar, got {}.", value.repr()));
    check_same_dtype(op, 0, 2);
    check_same_device(op, 0, 2);
  }
  return TensorType(x.dtype, std::move(shape), x.device);
}

Type tile(const Inference& op) {
  const TensorType& x = op.tensor(0);
  const Shape& repeats = op.get<Shape>("repeats");
  if (repeats.rank() != x.rank())
    throw ValueError(
        format("Input rank and number of elements in repeats must match: x.rank={}, "
               "repeats={}",
               x.rank(), repeats.to_string()));
  Shape shape;
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i].is_static() && repeats[i].value() <= 0)
      throw ValueError(format("Repeats must all be positive: repeats={}", repeats.to_string()));
    shape.push_back(x.shape[i] * repeats[i]);
  }
  return TensorType(x.dtype, std::move(shape), x.device);
}

Type gather(const Inference& op) {
  const TensorType &x = op.tensor(0), &indices = op.tensor(1);
  const std::size_t axis = checked_axis(op, x.rank());
  check_index_dtype(op, indices);
  check_same_device(op, 0, 2);
  Shape shape(x.shape.begin(), x.shape.begin() + axis);
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  shape.insert(shape.end(), x.shape.begin() + axis + 1, x.shape.end());
  return TensorType(x.dtype, std::move(shape), x.device);
}

Type gather_nd(const Inference& op) {
  const TensorType &x = op.tensor(0), &indices = op.tensor(1);
  const std::int64_t b = op.integer("batch_dims");
  check_index_dtype(op, indices);
  if (indices.rank() < 1)
    throw ValueError("gather_nd needs indices of rank at least 1, got a scalar.");
  const Dim& last = indices.shape.back();
  if (!last.is_static())
    throw ValueError(
        format("index last dimension must be static: indices.shape={}", indices.shape.repr()));
  const std::int64_t k = last.value();
  if (b < 0) throw ValueError(format("gather_nd: batch_dims={} must not be negative.", b));
  if (b > indices.rank() - 1)
    throw ValueError(
        format("gather_nd: batch_dims={} must be at most {}, one less than the rank of "
               "indices.",
               b, indices.rank() - 1));
  if (b + k > x.rank())
    throw ValueError(
        format("gather_nd: batch_dims={} plus the {} numbers of an index exceed the "
               "rank {} of the input.",
               b, k, x.rank()));
  for (std::int64_t i = 0; i < b; ++i)
    if (x.shape[i] != indices.shape[i])
      throw ValueError(
          format("gather_nd: batch axis {} differs between input shape {} and indices "
                 "shape {}.",
                 i, x.shape.repr(), indices.shape.repr()));
  check_same_device(op, 0, 2);
  Shape shape(x.shape.begin(), x.shape.begin() + b);
  shape.insert(shape.end(), indices.shape.begin() + b, indices.shape.end() - 1);
  shape.insert(shape.end(), x.shape.begin() + b + k, x.shape.end());
  return TensorType(x.dtype, std::move(shape), x.device);
}

void check_scatter_dtypes(const Inference& op, std::string_view quote) {
  const TensorType &x = op.tensor(0), &updates = op.tensor(1), &indices = op.tensor(2);
  const std::string_view closing = quote == "(" ? ")" : quote;
  if (x.dtype != updates.dtype)
    throw ValueError(format("The input dtype {0}{2}{1} and updates dtype {0}{3}{1} must match.",
                            quote, closing, x.dtype.to_string(), updates.dtype.to_string()));
  if (indices.dtype != DType::int32 && indices.dtype != DType::int64)
    throw ValueError(format("Invalid indices dtype: '{}'. Indices must be of type int32 or int64.",
                            indices.dtype.to_string()));
  switch (op.kind) {
    case OpKind::scatter:
    case OpKind::scatter_nd:
      break;
    case OpKind::scatter_max:
    case OpKind::scatter_min:
    case OpKind::scatter_nd_max:
    case OpKind::scatter_nd_min:
      check_dtype(op.name(), DTypeFamily::min_max, x.dtype);
      break;
    default:
      check_dtype(op.name(), DTypeFamily::arithmetic, x.dtype);
  }
}

Type scatter(const Inference& op) {
  const TensorType &x = op.tensor(0), &updates = op.tensor(1), &indices = op.tensor(2);
  const std::int64_t axis = op.integer("axis");
  if (axis < 0 || axis >= x.rank())
    throw ValueError(format("Invalid axis value {}. Axis must be in range [{}, {}]", axis,
                            -x.rank(), x.rank() - 1));
  check_scatter_dtypes(op, "'");
  if (indices.shape != updates.shape || indices.rank() != x.rank())
    throw ValueError(
        format("{} takes indices and updates of one shape and of the input's rank, got "
               "input {}, updates {}, indices {}.",
               op.name(), x.shape.repr(), updates.shape.repr(), indices.shape.repr()));
  for (int i = 0; i < x.rank(); ++i) {
    const Dim &a = indices.shape[i], &n = x.shape[i];
    if (i != axis && a.is_static() && n.is_static() && a.value() > n.value())
      throw ValueError(format("{}: axis {} of indices has size {}, more than {} of the input.",
                              op.name(), i, a.to_string(), n.to_string()));
  }
  check_same_device(op, 0, 3);
  return TensorType(x.dtype, x.shape, x.device);
}

Type scatter_nd(const Inference& op) {
  const TensorType &x = op.tensor(0), &updates = op.tensor(1), &indices = op.tensor(2);
  check_scatter_dtypes(op, "(");
  if (indices.rank() < 1)
    throw ValueError(format("{} needs indices of rank at least 1, got a scalar.", op.name()));
  const Dim& last = indices.shape.back();
  if (!last.is_static())
    throw ValueError(
        format("index last dimension must be static: indices.shape={}", indices.shape.repr()));
  if (last.value() > x.rank())
    throw ValueError(format("{}: the {} numbers of an index exceed the rank {} of the input.",
                            op.name(), last.value(), x.rank()));
  Shape expected(indices.shape.begin(), indices.shape.end() - 1);
  expected.insert(expected.end(), x.shape.begin() + last.value(), x.shape.end());
  if (updates.shape != expected)
    throw ValueError(format("{} of input {} at indices {} takes updates of shape {}, got {}.",
                            op.name(), x.shape.repr(), indices.shape.repr(), expected.repr(),
                            updates.shape.repr()));
  check_same_device(op, 0, 3);
  return TensorType(x.dtype, x.shape, x.device);
}

Type nonzero(const Inference& op) {
  const TensorType& x = op.tensor(0);
  const Dim& out_dim = op.get<Dim>("out_dim");
  if (x.rank() == 0) throw ValueError("Scalar inputs not supported");
  check_count(op, out_dim);
  return TensorType(DType::int64, {out_dim, Dim(x.rank())}, x.device);
}

Type repeat_interleave(const Inference& op) {
  const TensorType &x = op.tensor(0), &repeats = op.tensor(1);
  const std::size_t axis = checked_axis(op, x.rank());
  const Dim& out_dim = op.get<Dim>("out_dim");
  if (!repeats.dtype.is_integral())
    throw ValueError(format("repeat_interleave: the repeats must be integers, got dtype {}.",
                            repeats.dtype.to_string()));
  const bool one = repeats.rank() == 0 || (repeats.rank() == 1 && repeats.shape[0] == Dim(1));
  if (!one && (repeats.rank() != 1 || repeats.shape[0] != x.shape[axis]))
    throw ValueError(
        format("repeat_interleave: the repeats must be a scalar, one element, or one for each of "
               "the {} elements of axis {}, got shape {}.",
               x.shape[axis].to_string(), axis, repeats.shape.repr()));
  check_count(op, out_dim);
  check_same_device(op, 0, 2);
  Shape shape = x.shape;
  shape[axis] = out_dim;
  return TensorType(x.dtype, std::move(shape), x.device);
}

/// Bounds near the ends of 64 bits may leave them.
template <typename F>
Dim slice_arithmetic(F&& compute) {
  try {
    return compute();
  } catch (const ValueError&) {
    throw ValueError("slice index computation overflow");
  }
}

[[noreturn]] void throw_start(std::string_view which, const Dim& a, const Dim& n) {
  throw ValueError(format("slice {} index {} out of range for dimension size {}", which,
                          a.to_string(), n.to_string()));
}

}  // namespace

Shape sliced_shape(const Inference& op, const Shape& shape, std::size_t first_dynamic) {
  const Shape &starts = op.get<Shape>("starts"), &stops = op.get<Shape>("stops");
  const auto& steps = op.get<Ints>("steps");
  if (starts.size() != shape.size() || stops.size() != shape.size() || steps.size() != shape.size())
    throw ValueError(format("'{}' needs one start, stop and step for each axis of shape {}.",
                            op.name(), shape.repr()));
  std::vector<int> dynamic(shape.size(), 0);  // 1: start, 2: stop, 4: index, 8: step
  std::size_t operand = first_dynamic;
  for (auto [name, bit] : {std::pair{"dynamic_starts", 1},
                           {"dynamic_stops", 2},
                           {"dynamic_indices", 4},
                           {"dynamic_steps", 8}}) {
    if (!op.has(name)) continue;
    for (std::int64_t axis : op.get<Ints>(name)) {
      if (axis < 0 || axis >= shape.rank() || (dynamic[axis] & bit) || (dynamic[axis] & 4))
        throw ValueError(format("'{}' has a wrong axis {} in {}.", op.name(), axis, name));
      dynamic[axis] |= bit;
      if (operand >= op.operands.size() || !op.operands[operand]->type.is_tensor())
        throw ValueError(format("'{}' lacks the tensor for axis {} of {}.", op.name(), axis, name));
      const TensorType& scalar = op.tensor(operand++);
      if (!scalar.device.is_cpu())
        throw ValueError(format("Input value must be on the host device, got {}", scalar.repr()));
      if (!scalar.dtype.is_integral() || scalar.shape.num_elements() != Dim(1))
        throw ValueError(
            format("Slice index value must be a scalar, had shape {}", scalar.shape.repr()));
    }
  }
  const std::size_t chains = op.kind == OpKind::buffer_store_slice ? 1 : 0;
  if (operand + chains != op.operands.size())
    throw ValueError(format("'{}' has {} operands, but its attributes account for {}.", op.name(),
                            op.operands.size(), operand + chains));
  // Elements between neighbours along an axis, as far as static dims tell.
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = shape[i].is_static() && shape[i].value() > 1
                         ? strides[i] * shape[i].value()  // fits, or the input would not be there
                         : strides[i];
  Shape result;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const Dim &n = shape[i], &a = starts[i], &b = stops[i];
    const std::int64_t s = steps[i];
    // The first two elements must have a place.
    std::int64_t place = 0;
    const std::int64_t first = a.is_static() ? std::max<std::int64_t>(a.value(), 0) : 0;
    if (__builtin_mul_overflow(s, strides[i], &place) ||
        __builtin_add_overflow(first, std::int64_t{1}, &place) ||
        __builtin_mul_overflow(place, strides[i], &place))
      throw ValueError("slice index computation overflow");
    if (s == 0) throw ValueError("slice step must not be 0");
    if (s < 0 && !n.is_static())
      throw ValueError(format("expected positive integer step but got {}", s));
    if (dynamic[i] & 4) {
      result.push_back(1);
      continue;
    }
    if (dynamic[i]) {
      if (!op.has("out_dims"))
        throw ValueError(
            format("'{}' needs out_dims for the run-time bounds of axis {}.", op.name(), i));
      result.push_back(Dim(0));  // replaced below
      continue;
    }
    const std::int64_t low = s < 0 ? -1 : 0;
    const Dim last = s < 0 && n.is_static() ? n - 1 : n;
    if (a.is_static() && (a.value() < low || (last.is_static() && a.value() > last.value())))
      throw_start("start", a, n);
    if (b.is_static() && (b.value() < low || (n.is_static() && b.value() > n.value())))
      throw_start("stop", b, n);
    const Dim span = slice_arithmetic([&] { return b - a; });
    if (span.is_static() && (s > 0 ? span.value() < 0 : span.value() > 0))
      throw ValueError(format(
          "start and stop should be increasing for positive step and decreasing for negative "
          "step, but got start {}, stop {} for step {}",
          a.to_string(), b.to_string(), s));
    result.push_back(
        slice_arithmetic([&] { return (span + Dim(s) - Dim(s > 0 ? 1 : -1)).floor_div(Dim(s)); }));
  }
  if (!op.has("out_dims")) return result;
  const Shape& out_dims = op.get<Shape>("out_dims");
  if (out_dims.size() != shape.size())
    throw ValueError(format("'{}' needs one out dim for each axis of shape {}, got {}.", op.name(),
                            shape.repr(), out_dims.repr()));
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (out_dims[i].is_static() && out_dims[i].value() < 0)
      throw ValueError(
          format("'{}' cannot give axis {} the size {}.", op.name(), i, out_dims[i].to_string()));
    if ((dynamic[i] & 11) || result[i] == out_dims[i]) continue;
    if (result[i].is_static() && out_dims[i].is_static())
      throw ValueError(format("The slice of axis {} of shape {} has size {}, not {}.", i,
                              shape.repr(), result[i].to_string(), out_dims[i].to_string()));
  }
  return out_dims;
}

std::vector<Type> infer_slice(const Inference& op) {
  const TensorType& x = op.tensor(0);
  return {TensorType(x.dtype, sliced_shape(op, x.shape, 1), x.device)};
}

std::vector<Type> infer_movement(const Inference& op) {
  switch (op.kind) {
    case OpKind::concat:
      return {concat(op)};
    case OpKind::pad:
      return {pad(op)};
    case OpKind::tile:
      return {tile(op)};
    case OpKind::gather:
      return {gather(op)};
    case OpKind::gather_nd:
      return {gather_nd(op)};
    case OpKind::scatter_nd:
    case OpKind::scatter_nd_add:
    case OpKind::scatter_nd_max:
    case OpKind::scatter_nd_min:
    case OpKind::scatter_nd_mul:
      return {scatter_nd(op)};
    case OpKind::nonzero:
      return {nonzero(op)};
    case OpKind::repeat_interleave:
      return {repeat_interleave(op)};
    default:
      return {scatter(op)};
  }
}

}  // namespace kiln::graph
