#include "kiln/graph/ops/fold.h"

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

/// One axis of the image: which block holds what an element of the kernel adds to a position.
struct Axis {
  std::int64_t kernel, stride, dilation, padding;
  Dim size, blocks;

  /// Numbers of blocks, [kernel, size], and whether there are such blocks.
  std::pair<TensorValue, TensorValue> table(DeviceRef device) const {
    const auto counted = [&](const Dim& count) { return range(0, count, 1, DType::int64, device); };
    const TensorValue place =
        sub(add(counted(size), padding), mul(unsqueeze(counted(kernel), 1), dilation));
    // Divided in floats, which hold what a size can be.
    const TensorValue block =
        cast(floor(div(place, constant(stride, DType::int64, device))), DType::int64);
    const TensorValue fits =
        logical_and(equal(mul(block, stride), place),
                    logical_and(greater_equal(block, 0), greater(size_of(blocks, device), block)));
    return {block, fits};
  }
  static TensorValue size_of(const Dim& dim, DeviceRef device) {
    if (dim.is_static()) return constant(dim.value(), DType::int64, device);
    return reshape(shape_to_tensor({dim}), {});
  }
};

}  // namespace

TensorValue fold(const TensorValueLike& input, const std::array<Dim, 2>& output_size,
                 const std::array<std::int64_t, 2>& kernel_size, const FoldOptions& options) {
  LocationScope at(input.location());
  const TensorValue x = strong(input);
  const Shape shape = x.shape();
  check_dtype("fold", DTypeFamily::arithmetic, x.dtype());
  if (x.rank() != 3)
    throw ValueError(
        format("fold expects an input [N, C * kernel size, L], got rank {}", x.rank()));
  std::array<Axis, 2> axes;
  for (std::size_t i = 0; i < 2; ++i) {
    Axis& a = axes[i];
    a = {kernel_size[i],     options.stride[i], options.dilation[i],
         options.padding[i], output_size[i],    0};
    if (a.kernel < 1 || a.stride < 1 || a.dilation < 1 || a.padding < 0)
      throw ValueError(
          format("fold: kernel, stride and dilation must be positive and the padding "
                 "not negative, got {}, {}, {} and {}",
                 a.kernel, a.stride, a.dilation, a.padding));
    if (a.size.is_static() && a.size.value() < 0)
      throw ValueError(
          format("fold: the output size must not be negative, got {}", a.size.to_string()));
    a.blocks = (a.size + 2 * a.padding - a.dilation * (a.kernel - 1) - 1).floor_div(a.stride) + 1;
    if (a.blocks.is_static() && a.blocks.value() < 0) a.blocks = 0;
  }
  const std::int64_t kernel = kernel_size[0] * kernel_size[1];
  const Dim channels = shape[1].floor_div(kernel);
  if (channels * kernel != shape[1])
    throw ValueError(
        format("Dim 1 of the input tensor ({}) must be a multiple of the product of "
               "the total kernel size ({}).",
               shape[1].to_string(), kernel));
  const Dim blocks = axes[0].blocks * axes[1].blocks;
  if (shape[2] != blocks)
    throw ValueError(
        format("Last dimension of input tensor ({}) must match the calculated number "
               "of blocks ({}).",
               shape[2].to_string(), blocks.to_string()));
  const Shape image = {shape[0], channels, output_size[0], output_size[1]};
  if (blocks == Dim(0) || image.num_elements() == Dim(0))
    return broadcast_to(cast(constant(0, DType::int8, x.device()), x.dtype()), image);
  // Each position of the image sums over the elements of the kernel; an element of no block is
  // marked by the number behind the last one.
  const DeviceRef device = x.device();
  const auto [rows, row_fits] = axes[0].table(device);
  const auto [columns, column_fits] = axes[1].table(device);
  const Dim pixels = output_size[0] * output_size[1], elements = blocks * kernel;
  const auto spread = [&](const TensorValue& table, bool is_row) {
    const Shape shape = table.shape();
    const Dim &k = shape[0], &n = shape[1];
    return is_row ? reshape(table, {k, 1, n, 1}) : reshape(table, {1, k, 1, n});
  };
  const TensorValue block =
      add(mul(spread(rows, true), Axis::size_of(axes[1].blocks, device)), spread(columns, false));
  const TensorValue number =
      reshape(range(0, kernel, 1, DType::int64, device), {kernel_size[0], kernel_size[1], 1, 1});
  const TensorValue none = Axis::size_of(elements, device);
  const TensorValue where_from =
      reshape(where(logical_and(spread(row_fits, true), spread(column_fits, false)),
                    add(mul(number, Axis::size_of(blocks, device)), block), none),
              {kernel, pixels});
  const TensorValue parts =
      gather(reshape(x, {shape[0], channels, elements}), min(where_from, sub(none, 1)), 2);
  const TensorValue counted = where(greater(none, where_from), parts, 0);
  return reshape(sum(counted, 2), image);
}

}  // namespace kiln::graph::ops
