#include "kiln/graph/ops/movement.h"

#include <cmath>
#include <tuple>

#include "kiln/graph/graph_state.h"
#include "kiln/graph/ops/axis.h"
#include "kiln/graph/ops/constant.h"
#include "kiln/graph/ops/elementwise.h"
#include "kiln/graph/ops/shape.h"
#include "kiln/graph/placement.h"
#include "kiln/graph/promotion.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph::ops {

using graph::detail::add_tensor_op;

namespace {

constexpr std::string_view kInput = "The input", kUpdates = "What is scattered",
                           kIndices = "The tensor of indices";

const Location& line_of(const std::vector<TensorValueLike>& values) {
  for (const TensorValueLike& value : values)
    if (!value.is_weak()) return value.location();
  return values[0].location();
}

}  // namespace

TensorValue concat(const std::vector<TensorValueLike>& original_vals, int axis) {
  if (original_vals.empty()) throw ValueError("Must provide at least one value to concat.");
  LocationScope at(line_of(original_vals));
  // Pairwise from the left, so that each value meets the type reached so far.
  std::optional<DType> dtype;
  DeviceRef device;
  for (const TensorValueLike& value : original_vals) {
    if (value.is_weak()) continue;
    TensorValue tensor = graph::detail::strong_tensor(value);
    if (!dtype) device = tensor.device();
    const DType pair[] = {dtype.value_or(tensor.dtype()), tensor.dtype()};
    dtype = promoted_dtype(pair);
  }
  if (!dtype)
    throw TypeError(
        "ops.concat requires at least one kiln object as input. Use ops.constant to convert a "
        "number or "
        "an array to a TensorValue with a specific dtype.");
  std::vector<Value> values;
  for (const TensorValueLike& value : original_vals)
    values.push_back(value.is_weak() ? promote_weak(value, *dtype, device) : cast(value, *dtype));
  const int rank = TensorValue(values[0]).rank();
  if (axis < -rank || axis >= rank) throw IndexError(format("Axis out of range axis={}", axis));
  if (values.size() == 1) return TensorValue(values[0]);
  const std::int64_t from_start = axis < 0 ? axis + rank : axis;
  return add_tensor_op(OpKind::concat, values, {{"axis", from_start}});
}

TensorValue stack(const std::vector<TensorValueLike>& values, int axis) {
  if (values.empty()) throw ValueError("Expected at least one value to stack");
  LocationScope at(line_of(values));
  std::vector<TensorValue> tensors;
  for (const TensorValueLike& value : values)
    tensors.push_back(strong(value, "An input of ops.stack"));
  const int rank = tensors[0].rank();
  for (const TensorValue& tensor : tensors) {
    if (tensor.rank() != rank) throw ValueError("All inputs to stack must be the same rank");
    if (tensor.dtype() != tensors[0].dtype())
      throw ValueError("All inputs to stack must have the same dtype");
  }
  if (axis < -rank - 1 || axis > rank)
    throw IndexError(format("Axis out of range (expected to be in range of [{}, {}], but got {})",
                            -rank - 1, rank, axis));
  if (axis < 0) axis += rank + 1;
  std::vector<TensorValueLike> parts;
  for (const TensorValue& tensor : tensors) parts.push_back(unsqueeze(tensor, axis));
  return concat(parts, axis);
}

std::vector<TensorValue> split(const TensorValueLike& x, const std::vector<Dim>& split_sizes,
                               int axis) {
  LocationScope at(x.location());
  TensorValue value = strong(x);
  const int rank = value.rank();
  if (axis < -rank || axis >= rank)
    throw IndexError(format("Axis must be in range [{}, {}), got {}", -rank, rank, axis));
  if (axis < 0) axis += rank;
  if (split_sizes.empty()) return {};
  const Dim total = value.shape()[axis];
  const std::string sizes = Shape(split_sizes).to_string();
  Dim sum = 0;
  for (const Dim& size : split_sizes) {
    if (!size.is_static()) throw TypeError(format("Split sizes must be static: sizes={}", sizes));
    if (size.value() < 0) throw ValueError(format("Split sizes must be positive: sizes={}", sizes));
    sum = sum + size;
  }
  if (!total.is_static())
    throw TypeError(format("split needs a static dim: x.shape[axis]={}", total.to_string()));
  if (sum != total)
    throw ValueError(
        format("Split sizes must sum to dimension value; x.shape[axis]={} != sum(sizes={})",
               total.to_string(), sizes));
  std::vector<TensorValue> parts;
  Dim start = 0;
  for (const Dim& size : split_sizes) {
    std::vector<SliceIndex> indices(static_cast<std::size_t>(axis), SliceIndex(all));
    indices.push_back(slice(start, start + size));
    parts.push_back(slice_tensor(value, indices));
    start = start + size;
  }
  return parts;
}

std::vector<TensorValue> chunk(const TensorValueLike& x, int chunks, int axis) {
  LocationScope at(x.location());
  TensorValue value = strong(x);
  if (chunks < 1) throw ValueError(format("chunk: chunks={} must be at least 1", chunks));
  const int rank = value.rank();
  if (rank == 0) {
    if (chunks > 1) throw ValueError(format("Cannot split scalar value into chunks={}", chunks));
    return {value};
  }
  if (axis < -rank || axis >= rank)
    throw IndexError(format("Axis must be in range [{}, {}), got {}", -rank, rank, axis));
  if (axis < 0) axis += rank;
  const Dim total = value.shape()[axis];
  if (!total.is_static())
    throw TypeError(format("chunk needs a static dim: x.shape[axis]={}", total.to_string()));
  if (total.value() % chunks != 0)
    throw ValueError(format("chunk: chunks={} must statically divide x.shape[axis]={}", chunks,
                            total.to_string()));
  return split(value, std::vector<Dim>(static_cast<std::size_t>(chunks), total.value() / chunks),
               axis);
}

TensorValue pad(const TensorValueLike& input, const std::vector<std::int64_t>& paddings,
                const PadOptions& options) {
  LocationScope at(input.location());
  TensorValue x = strong(input);
  std::vector<Value> operands = {x};
  const auto* number = std::get_if<Scalar>(&options.value.variant());
  const bool zero = number && number->to<double>() == 0 && !std::signbit(number->to<double>());
  if (options.mode == "constant" && !zero) {
    TensorValue value;
    if (options.value.is_weak()) {
      value = promote_weak(options.value, x.dtype(), x.device());
    } else {
      value = strong(options.value, "The padding value");
      const DType pair[] = {x.dtype(), value.dtype()};
      if (promoted_dtype(pair) != x.dtype())
        throw ValueError(
            format("The padding value has dtype {}, which does not fit into the input's "
                   "dtype {}.",
                   value.dtype().to_string(), x.dtype().to_string()));
      value = cast(value, x.dtype());
    }
    operands.push_back(value);
  }
  return add_tensor_op(OpKind::pad, operands, {{"paddings", paddings}, {"mode", options.mode}});
}

TensorValue tile(const TensorValueLike& x, const Shape& repeats) {
  LocationScope at(x.location());
  TensorValue value = strong(x);
  HostDetour detour("tile", {&value});
  return detour.back(add_tensor_op(OpKind::tile, {value}, {{"repeats", repeats}}));
}

TensorValue gather(const TensorValueLike& input, const TensorValueLike& indices, int axis) {
  LocationScope at(input.location());
  TensorValue x = strong(input, kInput), i = strong(indices, kIndices);
  const int rank = x.rank();
  if (axis < -rank || axis >= rank)
    throw IndexError(format("axis={} out of range for input={}", axis, x.repr()));
  const std::int64_t from_start = axis < 0 ? axis + rank : axis;
  return add_tensor_op(OpKind::gather, {x, i}, {{"axis", from_start}});
}

TensorValue gather_nd(const TensorValueLike& input, const TensorValueLike& indices,
                      int batch_dims) {
  LocationScope at(input.location());
  TensorValue x = strong(input, kInput), i = strong(indices, kIndices);
  return add_tensor_op(OpKind::gather_nd, {x, i}, {{"batch_dims", std::int64_t{batch_dims}}});
}

namespace {

TensorValue scatter_along(OpKind kind, const TensorValueLike& input, const TensorValueLike& updates,
                          const TensorValueLike& indices, int axis) {
  LocationScope at(input.location());
  TensorValue x = strong(input, kInput), u = strong(updates, kUpdates),
              i = strong(indices, kIndices);
  const int rank = x.rank();
  if (axis < -rank || axis >= rank)
    throw ValueError(
        format("Invalid axis value {}. Axis must be in range [{}, {}]", axis, -rank, rank - 1));
  const std::int64_t from_start = axis < 0 ? axis + rank : axis;
  HostDetour detour(to_string(kind), {&x, &u, &i});
  return detour.back(add_tensor_op(kind, {x, u, i}, {{"axis", from_start}}));
}

TensorValue scatter_rows(OpKind kind, const TensorValueLike& input, const TensorValueLike& updates,
                         const TensorValueLike& indices) {
  LocationScope at(input.location());
  TensorValue x = strong(input, kInput), u = strong(updates, kUpdates),
              i = strong(indices, kIndices);
  return add_tensor_op(kind, {x, u, i});
}

}  // namespace

using Like = const TensorValueLike&;

TensorValue scatter(Like x, Like updates, Like indices, int axis) {
  return scatter_along(OpKind::scatter, x, updates, indices, axis);
}
TensorValue scatter_add(Like x, Like updates, Like indices, int axis) {
  return scatter_along(OpKind::scatter_add, x, updates, indices, axis);
}
TensorValue scatter_max(Like x, Like updates, Like indices, int axis) {
  return scatter_along(OpKind::scatter_max, x, updates, indices, axis);
}
TensorValue scatter_min(Like x, Like updates, Like indices, int axis) {
  return scatter_along(OpKind::scatter_min, x, updates, indices, axis);
}
TensorValue scatter_mul(Like x, Like updates, Like indices, int axis) {
  return scatter_along(OpKind::scatter_mul, x, updates, indices, axis);
}
TensorValue scatter_nd(Like x, Like updates, Like indices) {
  return scatter_rows(OpKind::scatter_nd, x, updates, indices);
}
TensorValue scatter_nd_add(Like x, Like updates, Like indices) {
  return scatter_rows(OpKind::scatter_nd_add, x, updates, indices);
}
TensorValue scatter_nd_max(Like x, Like updates, Like indices) {
  return scatter_rows(OpKind::scatter_nd_max, x, updates, indices);
}
TensorValue scatter_nd_min(Like x, Like updates, Like indices) {
  return scatter_rows(OpKind::scatter_nd_min, x, updates, indices);
}
TensorValue scatter_nd_mul(Like x, Like updates, Like indices) {
  return scatter_rows(OpKind::scatter_nd_mul, x, updates, indices);
}

namespace {

/// `label`: the op that messages name, "nonzero" when empty.
TensorValue positions(TensorValue x, const Dim& out_dim, const std::string& label) {
  HostDetour detour(label.empty() ? "nonzero" : label, {&x});
  ir::Attributes attributes{{"out_dim", out_dim}};
  if (!label.empty()) attributes["label"] = label;
  return detour.back(add_tensor_op(OpKind::nonzero, {x}, std::move(attributes)));
}

}  // namespace

TensorValue nonzero(Like x, const Dim& out_dim) {
  LocationScope at(x.location());
  return positions(strong(x), out_dim, "");
}

TensorValue masked_scatter(Like input, Like mask, Like updates, const Dim& out_dim) {
  LocationScope at(input.location());
  TensorValue x = strong(input, kInput), u = strong(updates, kUpdates);
  TensorValue m = mask.is_weak() ? promote_weak(mask, DType::bool_, x.device())
                                 : graph::detail::strong_tensor(mask);
  if (m.dtype() != DType::bool_)
    throw ValueError(format("masked_scatter: the mask must be a bool tensor, but it has dtype {}.",
                            m.dtype().to_string()));
  if (u.dtype() != x.dtype())
    throw ValueError(format("The input dtype ({}) and updates dtype ({}) must match.",
                            x.dtype().to_string(), u.dtype().to_string()));
  // A scalar is a vector of one element here.
  const Shape shape = x.shape();
  m = broadcast_to(m, shape);
  if (shape.empty()) x = reshape(x, {1}), m = reshape(m, {1});
  u = flatten(u);
  if (const Dim count = u.shape()[0]; count.is_static() && out_dim.is_static() && count != out_dim)
    throw ValueError(format("masked_scatter: out_dim is {} but there are {} updates",
                            out_dim.to_string(), count.to_string()));
  u = detail::rebind_vector(u, out_dim, "masked_scatter: out_dim is {0} but there are {1} updates");
  return reshape(scatter_nd(x, u, positions(m, out_dim, "masked_scatter")), shape);
}

namespace {

void check_on_host(const TensorValue& x) {
  if (x.device().is_gpu())
    throw ValueError(
        "repeat_interleave is not supported on GPU; move the tensor with ops.transfer_to first.");
}

/// The axis of a repeat_interleave, from the start; without one the value is flattened.
std::int64_t repeated_axis(TensorValue& value, std::optional<int> axis) {
  if (!axis) value = flatten(value), axis = 0;
  const int rank = value.rank();
  if (*axis < -rank || *axis >= rank)
    throw ValueError(format("repeat_interleave: axis={} out of bounds for x.rank={}", *axis, rank));
  return normalized_axis(*axis, rank);
}

}  // namespace

TensorValue repeat_interleave(const TensorValueLike& x, std::int64_t repeats,
                              std::optional<int> axis) {
  LocationScope at(x.location());
  TensorValue value = strong(x);
  check_on_host(value);
  if (repeats < 1)
    throw ValueError(format("repeat_interleave: repeats must be at least 1, got {}", repeats));
  const auto a = static_cast<std::ptrdiff_t>(repeated_axis(value, axis));
  // As rows that end with the axis: each is followed by its copies. Three axes do for any rank.
  Shape merged = value.shape();
  const Dim rows = Shape(merged.begin(), merged.begin() + a + 1).num_elements();
  const Dim row = Shape(merged.begin() + a + 1, merged.end()).num_elements();
  merged[a] = merged[a] * Dim(repeats);
  TensorValue copies = broadcast_to(reshape(value, {rows, 1, row}), {rows, repeats, row});
  return reshape(copies, merged);
}

TensorValue repeat_interleave(const TensorValueLike& x, const TensorValue& repeats,
                              std::optional<int> axis, const std::optional<Dim>& out_dim) {
  LocationScope at(x.location());
  TensorValue value = strong(x);
  check_on_host(value);
  check_on_host(repeats);
  if (!out_dim) throw ValueError("out_dim must be provided for TensorValue repeats");
  const std::int64_t a = repeated_axis(value, axis);
  return add_tensor_op(OpKind::repeat_interleave, {value, repeats},
                       {{"axis", a}, {"out_dim", *out_dim}});
}

TensorValue band_part(const TensorValueLike& x, const BandPartOptions& options) {
  LocationScope at(x.location());
  TensorValue value = strong(x);
  const Shape shape = value.shape();
  if (shape.rank() < 2)
    throw ValueError(
        format("band_part: the input must have at least 2 dimensions, got {}", shape.repr()));
  const Dim rows = shape[shape.size() - 2], columns = shape.back();
  for (auto [name, given, size] : {std::tuple("num_lower", options.num_lower, rows),
                                   std::tuple("num_upper", options.num_upper, columns)}) {
    if (!given) continue;
    if (*given < -1) throw ValueError(format("{}={} must be non-negative", name, *given));
    if (size.is_static() && *given >= 0 && *given >= size.value())
      throw ValueError(
          format("{}={} is out of bounds for dimension size {}", name, *given, size.to_string()));
  }
  auto index = [&](const Dim& size) { return range(0, size, 1, DType::int64, value.device()); };
  TensorValue below = sub(unsqueeze(index(rows), 1), unsqueeze(index(columns), 0));
  std::optional<TensorValue> keep;
  auto narrow = [&](std::optional<std::int64_t> limit, const TensorValue& distance) {
    if (limit.value_or(-1) < 0) return;
    TensorValue near = greater_equal(*limit, distance);
    keep = keep ? logical_and(*keep, near) : near;
  };
  narrow(options.num_lower, below);
  narrow(options.num_upper, negate(below));
  if (!keep && !options.exclude) return value;
  if (!keep) keep = equal(below, below);
  return options.exclude ? where(logical_not(*keep), value, 0) : where(*keep, value, 0);
}

}  // namespace kiln::graph::ops
