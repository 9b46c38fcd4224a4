#pragma once

#include <cstdint>
#include <functional>

#include "kiln/dtype/dtype.h"

namespace kiln::runtime {

/// Sizes and settings of `roi_align`.
struct RoiAlign {
  std::int64_t batch, height, width, channels;  // of the input
  std::int64_t rois;
  std::int64_t result_height, result_width;
  float spatial_scale;
  float sampling_ratio;
  bool aligned;
  bool maximum;
};

/// Samples of a dense float32 tensor [batch, height, width, channels] in the bins of regions, which
/// are rows (batch, x1, y1, x2, y2). A batch number that is none goes to `refuse`, which throws.
void roi_align(const float* input, const float* rois, float* result, const RoiAlign& sizes,
               int threads, const std::function<void(std::int64_t)>& refuse);

/// Sizes of `non_maximum_suppression`.
struct Suppression {
  std::int64_t batch, boxes, classes;
  std::int64_t most;  // boxes that are kept of each batch and class
};

/// Keeps the best boxes: for each batch and class the numbers of those kept, best first, then -1
/// where there is room, in `kept` of extents [batch, classes, boxes]. Returns how many there are.
/// Boxes [batch, boxes, 4] and scores [batch, classes, boxes] are float32 or float64 (`dtype`), as
/// are the thresholds.
std::int64_t suppress(DType dtype, const void* boxes, const void* scores, const void* iou_threshold,
                      const void* score_threshold, const Suppression& sizes, std::int64_t* kept,
                      int threads);
/// What `suppress` kept as rows (batch, class, box).
void kept_rows(const std::int64_t* kept, const Suppression& sizes, std::int64_t* rows);

}  // namespace kiln::runtime
