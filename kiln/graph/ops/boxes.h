#pragma once

#include <string>

#include "kiln/graph/value.h"

namespace kiln::graph::ops {

/// Options of `roi_align`.
struct RoiAlignOptions {
  double spatial_scale = 1;
  /// Samples a bin and axis; 0: as many as the bin is long.
  double sampling_ratio = 0;
  /// Shifts regions by half a pixel and allows them to be smaller than one.
  bool aligned = false;
  /// "AVG", or "MAX" of single weighted corners, as the ONNX operator.
  std::string mode = "AVG";
};
/// Bilinear samples of `input` [N, H, W, C] in regions [M, 5], rows (batch, x1, y1, x2, y2), as
/// [M, output_height, output_width, C]; worked out in float32. A batch number outside [0, N):
/// ValueError at run.
TensorValue roi_align(const TensorValueLike& input, const TensorValueLike& rois,
                      std::int64_t output_height, std::int64_t output_width,
                      const RoiAlignOptions& options = {});

/// The boxes that stay when those that overlap a better one by more than `iou_threshold` are
/// dropped, for each batch and class: int64 rows (batch, class, box), best first. Boxes
/// [B, N, 4] are corners (y1, x1, y2, x2) in any order, scores [B, K, N]; scores up to
/// `score_threshold` do not count. `out_dim` is the number of rows, checked at run.
TensorValue non_maximum_suppression(const TensorValueLike& boxes, const TensorValueLike& scores,
                                    const TensorValueLike& max_output_boxes_per_class,
                                    const TensorValueLike& iou_threshold,
                                    const TensorValueLike& score_threshold,
                                    const Dim& out_dim = Dim("num_selected"));

}  // namespace kiln::graph::ops
