#pragma once

#include "kiln/graph/value.h"

namespace kiln::graph::ops {

// Where a result element o lies in the input, by axis, with scale = out / in in float32:
// mode 0 (half_pixel) (o + 0.5) / scale - 0.5; 1 (align_corners) o (in - 1) / (out - 1), 0 for one
// element; 2 (asymmetric) o / scale; 3 (half_pixel_1D) as 0, but 0 for one element.
// A size that is 0 on one side only: ValueError, as is another mode.

/// Options of `resize_nearest`.
struct ResizeNearestOptions {
  int coordinate_transform_mode = 0;
  /// How a coordinate x becomes an index: 0 ceil(x - 0.5), 1 floor(x + 0.5), 2 floor, 3 ceil.
  int round_mode = 0;
};
/// The nearest element of the input, along every axis.
TensorValue resize_nearest(const TensorValueLike& input, const Shape& size,
                           const ResizeNearestOptions& options = {});

/// Options of `resize_linear`.
struct ResizeLinearOptions {
  int coordinate_transform_mode = 0;
  /// Widens the filter where the result is smaller.
  bool antialias = false;
};
/// Weights of a triangle filter, axis by axis, in float32. Floating-point dtypes.
TensorValue resize_linear(const TensorValueLike& input, const Shape& size,
                          const ResizeLinearOptions& options = {});

/// Cubic convolution with a = -0.75 along the last two axes of NCHW; the others must not change.
/// Floating-point dtypes.
TensorValue resize_bicubic(const TensorValueLike& input, const Shape& size);

enum class InterpolationMode : std::uint8_t { NEAREST, BILINEAR, BICUBIC };
/// `resize_nearest`, `resize_linear` or `resize_bicubic` of NCHW with their defaults.
TensorValue resize(const TensorValueLike& input, const Shape& shape,
                   InterpolationMode interpolation = InterpolationMode::BILINEAR);

}  // namespace kiln::graph::ops
