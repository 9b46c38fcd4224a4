#pragma once

#include <optional>
#include <string>

#include "kiln/graph/value.h"

namespace kiln::graph::ops {

/// Options of `irfft`.
struct IrfftOptions {
  /// The size of the result along the axis; by default 2 (size - 1).
  std::optional<std::int64_t> n = std::nullopt;
  int axis = -1;
  /// The result is scaled by 1/n ("backward"), 1/sqrt(n) ("ortho") or 1 ("forward").
  std::string normalization = "backward";
  /// The last axis, of size 2, holds real and imaginary parts and does not count in `axis`.
  bool input_is_complex = false;
  /// A hint for working memory; nothing depends on it.
  std::int64_t buffer_size_mb = 512;
};
/// The inverse Fourier transform of the first half of a Hermitian spectrum along an axis of static
/// size, as `numpy.fft.irfft`. float32; another dtype: ValueError.
TensorValue irfft(const TensorValueLike& input_tensor, const IrfftOptions& options = {});

}  // namespace kiln::graph::ops
