#pragma once

#include <array>
#include <cstdint>

#include "kiln/graph/value.h"

namespace kiln::graph::ops {

/// Options of `fold`, by axis: height and width.
struct FoldOptions {
  std::array<std::int64_t, 2> stride = {1, 1};
  std::array<std::int64_t, 2> dilation = {1, 1};
  std::array<std::int64_t, 2> padding = {0, 0};
};
/// Adds up blocks [N, C kh kw, L] where they lie in an image [N, C, H, W], the adjoint of cutting
/// it into blocks: block l = i Lw + j holds element (r, s) of the kernel for position
/// (i sh - ph + r dh, j sw - pw + s dw). Sizes that do not fit: ValueError.
TensorValue fold(const TensorValueLike& input, const std::array<Dim, 2>& output_size,
                 const std::array<std::int64_t, 2>& kernel_size, const FoldOptions& options = {});

}  // namespace kiln::graph::ops
