#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "kiln/graph/value.h"

namespace kiln::graph::ops {

/// Options of `conv2d`. Pairs are (height, width).
struct Conv2dOptions {
  std::array<std::int64_t, 2> stride = {1, 1};
  std::array<std::int64_t, 2> dilation = {1, 1};
  /// Zeros around the input: top, bottom, left, right.
  std::array<std::int64_t, 4> padding = {0, 0, 0, 0};
  std::int64_t groups = 1;
  /// `[F]`, added along the channel axis.
  std::optional<TensorValueLike> bias = std::nullopt;
  /// The result has the same layout.
  ConvInputLayout input_layout = ConvInputLayout::NHWC;
  /// `RSCF` or `FCRS`.
  FilterLayout filter_layout = FilterLayout::RSCF;
};
/// Cross-correlation of `[N, H, W, C]` with a filter `[R, S, C / groups, F]`; the operands promote.
/// Other ranks or channels, a stride or dilation below 1, a negative padding, or a result without
/// positions: ValueError.
TensorValue conv2d(const TensorValueLike& x, const TensorValueLike& filter,
                   const Conv2dOptions& options = {});

/// Options of `conv3d`. Triples are (depth, height, width).
struct Conv3dOptions {
  std::array<std::int64_t, 3> stride = {1, 1, 1};
  std::array<std::int64_t, 3> dilation = {1, 1, 1};
  /// Before and after each axis, in turn.
  std::array<std::int64_t, 6> padding = {0, 0, 0, 0, 0, 0};
  std::int64_t groups = 1;
  std::optional<TensorValueLike> bias = std::nullopt;
  /// With five axes read as NDHWC and NCDHW.
  ConvInputLayout input_layout = ConvInputLayout::NHWC;
  /// `QRSCF` or `FCQRS`.
  FilterLayout filter_layout = FilterLayout::QRSCF;
};
/// As `conv2d` with three spatial axes.
TensorValue conv3d(const TensorValueLike& x, const TensorValueLike& filter,
                   const Conv3dOptions& options = {});

/// Options of `conv2d_transpose`.
struct Conv2dTransposeOptions {
  std::array<std::int64_t, 2> stride = {1, 1};
  std::array<std::int64_t, 2> dilation = {1, 1};
  /// Cut from the result: top, bottom, left, right.
  std::array<std::int64_t, 4> padding = {0, 0, 0, 0};
  /// More rows and columns at the end of the result, fewer than the stride.
  std::array<std::int64_t, 2> output_paddings = {0, 0};
  std::optional<TensorValueLike> bias = std::nullopt;
  ConvInputLayout input_layout = ConvInputLayout::NHWC;
  /// `RSCF`, which is `[R, S, out, in]`, or `CFRS`, which is `[in, out, R, S]`.
  FilterLayout filter_layout = FilterLayout::RSCF;
};
/// The gradient of `conv2d` with respect to its input; errors alike.
TensorValue conv2d_transpose(const TensorValueLike& x, const TensorValueLike& filter,
                             const Conv2dTransposeOptions& options = {});

/// A number for height and width, or one for both.
struct Extent2d {
  std::int64_t height = 1;
  std::int64_t width = 1;
  Extent2d(std::int64_t both) : height(both), width(both) {}  // NOLINT: a number is enough
  Extent2d(std::int64_t height, std::int64_t width) : height(height), width(width) {}
};

/// Options of `max_pool2d`.
struct MaxPool2dOptions {
  Extent2d stride = 1;
  Extent2d dilation = 1;
  /// Before and after each axis.
  Extent2d padding = 0;
  /// Counts a last window that is not whole, if it starts inside the input or before it.
  bool ceil_mode = false;
};
/// The largest element of each window of `[N, H, W, C]`; padding counts as the smallest value.
/// Another rank: ValueError.
TensorValue max_pool2d(const TensorValueLike& input, const Extent2d& kernel_size,
                       const MaxPool2dOptions& options = {});

/// Options of `avg_pool2d`.
struct AvgPool2dOptions {
  Extent2d stride = 1;
  Extent2d dilation = 1;
  Extent2d padding = 0;
  bool ceil_mode = false;
  /// Divides by the size of the window, else by the number of its elements inside the input.
  bool count_boundary = true;
};
/// The mean of each window of `[N, H, W, C]`, 0 for one outside of the input. Floating-point
/// dtypes.
TensorValue avg_pool2d(const TensorValueLike& input, const Extent2d& kernel_size,
                       const AvgPool2dOptions& options = {});

}  // namespace kiln::graph::ops
