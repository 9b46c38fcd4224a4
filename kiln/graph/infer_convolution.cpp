#include "kiln/graph/infer.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

// Convolutions and pooling.

namespace kiln::graph {
namespace {

using Ints = std::vector<std::int64_t>;

/// The attribute `name`, `count` numbers of at least `lowest`.
const Ints& numbers(const Inference& op, std::string_view name, std::size_t count,
                    std::int64_t lowest) {
  const Ints& values = op.get<Ints>(name);
  if (values.size() != count)
    throw ValueError(
        format("{} takes {} numbers as {}, got {}.", op.name(), count, name, values.size()));
  for (std::int64_t value : values)
    if (value < lowest)
      throw ValueError(format("{}: {} must be at least {}, but is [{}].", op.name(), name, lowest,
                              join(values, ", ")));
  return values;
}

Dim convolved(const Dim& in, const Dim& taps, std::int64_t stride, std::int64_t dilation,
              std::int64_t before, std::int64_t after) {
  const Dim reach = Dim(dilation) * (taps - 1);
  return (in + Dim(before) + Dim(after) - reach - 1).floor_div(Dim(stride)) + 1;
}

void check_positive(const Dim& dim, std::string_view family) {
  if (dim.is_static() && dim.value() < 1)
    throw ValueError(format("[{}] output spatial dim must be positive", family));
}

void check_operands(const Inference& op, std::string_view name, int rank) {
  for (std::size_t i : {0, 1})
    if (op.tensor(i).rank() != rank)
      throw ValueError(format("{} a {} must be rank {}, got shape {}",
                              i == 0 ? "input to" : "filter for", name, rank,
                              op.tensor(i).shape.repr()));
  check_same_dtype(op, 0, 2);
  check_dtype(op.name(), DTypeFamily::arithmetic, op.tensor(0).dtype);
  check_same_device(op, 0, 2);
}

TensorType convolution(const Inference& op, std::size_t dims) {
  const std::string name = format("{}-D convolution", dims);
  check_operands(op, name, static_cast<int>(dims) + 2);
  const TensorType &x = op.tensor(0), &filter = op.tensor(1);
  const Ints& stride = numbers(op, "stride", dims, 1);
  const Ints& dilation = numbers(op, "dilation", dims, 1);
  const Ints& padding = numbers(op, "padding", 2 * dims, 0);
  const std::int64_t groups = op.integer("groups");
  const Dim &channels = x.shape.back(), &of_group = filter.shape[dims], &out = filter.shape.back();
  if (groups < 1 || of_group * Dim(groups) != channels || out.floor_div(groups) * groups != out)
    throw ValueError(
        format("The channels of a {} do not match: an input of shape {} and a filter of shape {} "
               "cannot be cut into {} groups.",
               name, x.shape.repr(), filter.shape.repr(), groups));
  Shape shape = x.shape;
  for (std::size_t i = 0; i < dims; ++i) {
    shape[1 + i] = convolved(x.shape[1 + i], filter.shape[i], stride[i], dilation[i],
                             padding[2 * i], padding[2 * i + 1]);
    check_positive(shape[1 + i], "convolution");
  }
  shape.back() = out;
  return TensorType(x.dtype, std::move(shape), x.device);
}

TensorType transposed_convolution(const Inference& op) {
  check_operands(op, "2-D deconvolution", 4);
  const TensorType &x = op.tensor(0), &filter = op.tensor(1);
  const Ints& stride = numbers(op, "stride", 2, 1);
  const Ints& dilation = numbers(op, "dilation", 2, 1);
  const Ints& padding = numbers(op, "padding", 4, 0);
  const Ints& more = numbers(op, "output_paddings", 2, 0);
  if (filter.shape[3] != x.shape[3])
    throw ValueError(format(
        "The channels of a 2-D deconvolution do not match: an input of shape {} has {}, a "
        "filter of shape {} takes {}.",
        x.shape.repr(), x.shape[3].to_string(), filter.shape.repr(), filter.shape[3].to_string()));
  Shape shape = x.shape;
  for (std::size_t i = 0; i < 2; ++i) {
    if (more[i] >= stride[i])
      throw ValueError(
          format("output padding must be smaller than either stride or dilation, but got "
                 "output_padding = {}, stride = {}, dilation = {}",
                 more[i], stride[i], dilation[i]));
    shape[1 + i] = Dim(stride[i]) * (x.shape[1 + i] - 1) +
                   Dim(dilation[i]) * (filter.shape[i] - 1) + 1 + Dim(more[i]) -
                   Dim(padding[2 * i]) - Dim(padding[2 * i + 1]);
    check_positive(shape[1 + i], "conv_transpose");
  }
  shape[3] = filter.shape[2];
  return TensorType(x.dtype, std::move(shape), x.device);
}

/// The number of windows along an axis. With `ceil_mode` that is ceil(a / s) + 1 for a = in + 2p -
/// d(k - 1) - 1, minus one if the last window would start at or beyond in + p; the difference of
/// these two ends, which symbols take no part in, decides which of the forms that is.
Dim pooled(const Dim& in, std::int64_t k, std::int64_t s, std::int64_t d, std::int64_t p,
           bool ceil_mode) {
  const Dim reach = Dim(d) * Dim(k - 1);
  if (!ceil_mode) return convolved(in, k, s, d, p, p);
  const Dim end = in + Dim(p);
  const Dim lead = Dim(p) - reach - 1;  // a - end
  const auto divided_up = [&](const Dim& dim) { return (dim + Dim(s - 1)).floor_div(Dim(s)); };
  if (lead.value() > 0) return divided_up(end + lead);
  if (s >= -lead.value()) return divided_up(end);
  return divided_up(end + lead) + 1;
}

TensorType pooling(const Inference& op) {
  const TensorType& x = op.tensor(0);
  if (x.rank() != 4)
    throw ValueError(
        format("{} takes an input of rank 4 (NHWC), got shape {}", op.name(), x.shape.repr()));
  check_dtype(op.name(),
              op.kind == OpKind::avg_pool2d ? DTypeFamily::floating : DTypeFamily::arithmetic,
              x.dtype);
  const Ints& size = numbers(op, "kernel_size", 2, 1);
  const Ints& stride = numbers(op, "stride", 2, 1);
  const Ints& dilation = numbers(op, "dilation", 2, 1);
  const Ints& padding = numbers(op, "padding", 2, 0);
  Shape shape = x.shape;
  for (std::size_t i = 0; i < 2; ++i) {
    shape[1 + i] = pooled(x.shape[1 + i], size[i], stride[i], dilation[i], padding[i],
                          op.get<bool>("ceil_mode"));
    if (shape[1 + i].is_static() && shape[1 + i].value() < 0)
      throw ValueError(format("{}: a window of {} positions does not fit axis {} of shape {}",
                              op.name(), size[i], 1 + i, x.shape.repr()));
  }
  return TensorType(x.dtype, std::move(shape), x.device);
}

}  // namespace

std::vector<Type> infer_convolution(const Inference& op) {
  switch (op.kind) {
    case OpKind::conv2d:
      return {convolution(op, 2)};
    case OpKind::conv3d:
      return {convolution(op, 3)};
    case OpKind::conv2d_transpose:
      return {transposed_convolution(op)};
    default:
      return {pooling(op)};
  }
}

}  // namespace kiln::graph
