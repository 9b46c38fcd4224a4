// Resizing reads, for each element of the result and each tap of a filter, one element of the
// input. Where the taps lie and what they weigh depends on one axis alone, so it is worked out as
// small tables of [taps, out]; the rest is a gather and a weighted sum, axis by axis.

#include "kiln/graph/ops/resize.h"

#include "kiln/graph/graph_state.h"
#include "kiln/graph/infer.h"
#include "kiln/graph/ops/constant.h"
#include "kiln/graph/ops/elementwise.h"
#include "kiln/graph/ops/movement.h"
#include "kiln/graph/ops/reduction.h"
#include "kiln/graph/ops/shape.h"
#include "kiln/graph/promotion.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph::ops {
namespace {

constexpr DType kFloat = DType::float32;

/// One axis on its way from `in` to `out` elements. Numbers are float32 scalars.
struct Axis {
  std::size_t number;
  Dim in, out;
  DeviceRef device;
  TensorValue in_size, out_size, scale;

  Axis(std::size_t number, const Dim& in, const Dim& out, DeviceRef device)
      : number(number),
        in(in),
        out(out),
        device(device),
        in_size(size_of(in)),
        out_size(size_of(out)),
        scale(div(out_size, in_size)) {}

  TensorValue size_of(const Dim& dim) const {
    if (dim.is_static()) return constant(dim.value(), kFloat, device);
    return cast(reshape(shape_to_tensor({dim}), {}), kFloat);
  }
  TensorValue numbers(const Dim& count) const {
    return cast(range(0, count, 1, DType::int64, device), kFloat);
  }
  /// The coordinates in the input, [out].
  TensorValue coordinates(int mode) const {
    const TensorValue o = numbers(out);
    switch (mode) {
      case 1:
        return where(equal(out_size, 1), 0, div(mul(o, sub(in_size, 1)), max(sub(out_size, 1), 1)));
      case 2:
        return div(o, scale);
      default: {
        const TensorValue x = sub(div(add(o, 0.5), scale), 0.5);
        return mode == 3 ? where(equal(out_size, 1), 0, x) : x;
      }
    }
  }
  /// Float positions as indices inside the axis.
  TensorValue indices(const TensorValue& x) const {
    return cast(max(min(x, sub(in_size, 1)), 0), DType::int64);
  }
};

/// Taps of a filter along an axis, all [taps, out].
struct Taps {
  TensorValue indices, weights;
  std::optional<TensorValue> used;  // whether a tap counts at all; all do
};

void check_mode(std::string_view name, int mode) {
  if (mode < 0 || mode > 3) throw ValueError(format("{} must be 0-3, got {}", name, mode));
}

void check_rank(const TensorValue& x, const Shape& size) {
  if (size.rank() != x.rank())
    throw ValueError(
        format("size must have the same rank as input ({}), got {}", x.rank(), size.rank()));
}

void check_size(std::string_view op, const Shape& from, const Shape& to) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (to[i].is_static() && to[i].value() < 0)
      throw ValueError(format("{}: size {} must not be negative.", op, to.repr()));
    const auto is_empty = [](const Dim& dim) { return dim == Dim(0); };
    if (from[i].is_static() && to[i].is_static() && is_empty(from[i]) != is_empty(to[i]))
      throw ValueError(format("{}: axis {} has size {} and cannot become {}.", op, i,
                              from[i].to_string(), to[i].to_string()));
  }
}

/// `x`, whose symbolic axes are checked at run as `check_size` checks others.
TensorValue with_checked_size(std::string_view op, TensorValue x, const Shape& to) {
  // 0 for no elements, 1 for any number of them.
  const auto has_any = [](const Dim& dim) { return (dim * 2).floor_div(dim + 1); };
  const Shape from = x.shape();
  for (std::size_t i = 0; i < from.size(); ++i)
    if (from[i] != to[i] && !(from[i].is_static() && to[i].is_static()))
      x = detail::checked(
          x, {.sentence = format("{}: axis {} has size {{0}} and cannot become {{1}}.", op, i),
              .given = {has_any(from[i])},
              .expected = {has_any(to[i])},
              .shown = {from[i], to[i]}});
  return x;
}

Taps linear_taps(const Axis& axis, int mode, bool antialias) {
  const TensorValue centre = add(axis.coordinates(mode), 0.5);
  // Without antialias, or where the axis grows, a filter is two elements wide.
  const bool widens = antialias && !(axis.in.is_static() && axis.out.is_static() &&
                                     axis.in.value() <= axis.out.value());
  const TensorValue one = constant(1, kFloat, axis.device);
  const TensorValue support = widens ? max(div(1, axis.scale), 1) : one;
  const Dim count = widens ? (axis.in + axis.out - 1).floor_div(axis.out) * 2 + 1 : Dim(2);
  const TensorValue first = max(floor(add(sub(centre, support), 0.5)), 0);
  const TensorValue last = sub(min(floor(add(add(centre, support), 0.5)), axis.in_size), 1);
  const TensorValue taps = add(first, unsqueeze(axis.numbers(count), 1));
  const TensorValue used = greater_equal(last, taps);
  const TensorValue distance = div(abs(sub(add(taps, 0.5), centre)), support);
  const TensorValue weights = where(used, max(sub(1, distance), 0), 0);
  return {axis.indices(taps), div(weights, sum(weights, 0)), used};
}

Taps cubic_taps(const Axis& axis) {
  const TensorValue o = axis.numbers(axis.out);
  const TensorValue x = sub(div(mul(add(o, 0.5), axis.in_size), axis.out_size), 0.5);
  const TensorValue taps = add(sub(floor(x), 1), unsqueeze(axis.numbers(4), 1));
  const TensorValue t = abs(sub(x, taps));
  constexpr double a = -0.75;
  const auto horner = [&](double c3, double c2, double c1, double c0) {
    return add(mul(add(mul(add(mul(t, c3), c2), t), c1), t), c0);
  };
  const TensorValue near = horner(a + 2, -(a + 3), 0, 1);
  const TensorValue far = horner(a, -5 * a, 8 * a, -4 * a);
  return {axis.indices(taps), where(greater_equal(1, t), near, where(greater(2, t), far, 0)), {}};
}

/// The weighted sums of taps along an axis.
TensorValue filtered(const TensorValue& x, std::size_t axis, const Taps& taps) {
  const Shape table = taps.indices.shape();
  Shape spread = table;
  while (spread.size() < x.shape().size() - axis + 1) spread.push_back(1);
  const auto at = static_cast<int>(axis);
  TensorValue part =
      mul(gather(x, taps.indices, at), cast(reshape(taps.weights, spread), x.dtype()));
  // A tap that does not count may hold an infinity.
  if (taps.used) part = where(reshape(*taps.used, spread), part, 0);
  return squeeze(sum(part, at), at);
}

/// `filter` gives the taps of an axis; it is applied to each axis whose size changes.
template <typename Filter>
TensorValue resize_by(const TensorValue& input, const Shape& size, const Filter& filter) {
  const DType dtype = input.dtype();
  TensorValue x = dtype == DType::float64 ? input : cast(input, kFloat);
  const Shape from = input.shape();
  for (std::size_t i = 0; i < size.size(); ++i)
    if (from[i] != size[i]) x = filtered(x, i, filter(Axis(i, from[i], size[i], input.device())));
  return cast(x, dtype);
}

/// A result without elements of which nothing is read; none: there is something to do.
std::optional<TensorValue> empty_result(const TensorValue& x, const Shape& size) {
  if (size.num_elements() != Dim(0)) return std::nullopt;
  return broadcast_to(cast(constant(0, DType::float32, x.device()), x.dtype()), size);
}

}  // namespace

TensorValue resize_nearest(const TensorValueLike& input, const Shape& size,
                           const ResizeNearestOptions& options) {
  LocationScope at(input.location());
  TensorValue x = strong(input);
  check_mode("coordinate_transform_mode", options.coordinate_transform_mode);
  check_mode("round_mode", options.round_mode);
  check_rank(x, size);
  check_dtype("resize_nearest", DTypeFamily::floating, x.dtype());
  const Shape from = x.shape();
  check_size("resize_nearest", from, size);
  if (const auto empty = empty_result(x, size)) return *empty;
  x = with_checked_size("resize_nearest", x, size);
  for (std::size_t i = 0; i < size.size(); ++i) {
    if (from[i] == size[i]) continue;
    const Axis axis(i, from[i], size[i], x.device());
    const TensorValue c = axis.coordinates(options.coordinate_transform_mode);
    const TensorValue whole = options.round_mode == 0   ? ceil(sub(c, 0.5))
                              : options.round_mode == 1 ? floor(add(c, 0.5))
                              : options.round_mode == 2 ? floor(c)
                                                        : ceil(c);
    x = gather(x, axis.indices(whole), static_cast<int>(i));
  }
  return x;
}

TensorValue resize_linear(const TensorValueLike& input, const Shape& size,
                          const ResizeLinearOptions& options) {
  LocationScope at(input.location());
  const TensorValue x = strong(input);
  check_mode("coordinate_transform_mode", options.coordinate_transform_mode);
  check_rank(x, size);
  check_dtype("resize_linear", DTypeFamily::floating, x.dtype());
  check_size("resize_linear", x.shape(), size);
  if (const auto empty = empty_result(x, size)) return *empty;
  return resize_by(with_checked_size("resize_linear", x, size), size, [&](const Axis& axis) {
    return linear_taps(axis, options.coordinate_transform_mode, options.antialias);
  });
}

TensorValue resize_bicubic(const TensorValueLike& input, const Shape& size) {
  LocationScope at(input.location());
  const TensorValue x = strong(input);
  if (x.rank() != 4)
    throw ValueError(format("resize_bicubic requires rank-4 (NCHW) input, got rank {}", x.rank()));
  if (size.rank() != 4)
    throw ValueError(format("size must have 4 elements for NCHW format, got {}", size.rank()));
  check_dtype("resize_bicubic", DTypeFamily::floating, x.dtype());
  const Shape from = x.shape();
  if (from[0] != size[0] || from[1] != size[1])
    throw ValueError(
        format("resize_bicubic: the batch and the channels must not change, but the "
               "input has shape {} and size is {}.",
               from.repr(), size.repr()));
  check_size("resize_bicubic", from, size);
  if (const auto empty = empty_result(x, size)) return *empty;
  return resize_by(with_checked_size("resize_bicubic", x, size), size, cubic_taps);
}

TensorValue resize(const TensorValueLike& input, const Shape& shape,
                   InterpolationMode interpolation) {
  LocationScope at(input.location());
  const TensorValue x = strong(input);
  if (x.rank() != 4)
    throw ValueError(
        format("Input tensor must have rank 4 (NCHW format) for resize operation, but got rank {}",
               x.rank()));
  if (shape.rank() != 4)
    throw ValueError(
        format("shape must have 4 elements for NCHW format (batch, channels, height, "
               "width), but got {} elements",
               shape.rank()));
  switch (interpolation) {
    case InterpolationMode::NEAREST:
      return resize_nearest(x, shape);
    case InterpolationMode::BILINEAR:
      return resize_linear(x, shape);
    default:
      return resize_bicubic(x, shape);
  }
}

}  // namespace kiln::graph::ops
