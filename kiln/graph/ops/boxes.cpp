#include "kiln/graph/ops/boxes.h"

#include "kiln/graph/graph_state.h"
#include "kiln/graph/infer.h"
#include "kiln/graph/ops/elementwise.h"
#include "kiln/graph/promotion.h"

namespace kiln::graph::ops {

TensorValue roi_align(const TensorValueLike& input, const TensorValueLike& rois,
                      std::int64_t output_height, std::int64_t output_width,
                      const RoiAlignOptions& options) {
  LocationScope at(input.location());
  const TensorValue x = strong(input, "The input"), regions = strong(rois, "The tensor of regions");
  check_dtype("roi_align", DTypeFamily::floating, x.dtype());
  check_dtype("roi_align", DTypeFamily::floating, regions.dtype());
  const TensorValue result = graph::detail::add_tensor_op(
      OpKind::roi_align, {cast(x, DType::float32), cast(regions, DType::float32)},
      {{"output_height", output_height},
       {"output_width", output_width},
       {"spatial_scale", options.spatial_scale},
       {"sampling_ratio", options.sampling_ratio},
       {"aligned", options.aligned},
       {"mode", options.mode}});
  return cast(result, x.dtype());
}

TensorValue non_maximum_suppression(const TensorValueLike& boxes, const TensorValueLike& scores,
                                    const TensorValueLike& max_output_boxes_per_class,
                                    const TensorValueLike& iou_threshold,
                                    const TensorValueLike& score_threshold, const Dim& out_dim) {
  LocationScope at(boxes.location());
  TensorValue b = strong(boxes, "The tensor of boxes"), s = strong(scores, "The tensor of scores");
  check_dtype("non_maximum_suppression", DTypeFamily::floating, b.dtype());
  check_dtype("non_maximum_suppression", DTypeFamily::floating, s.dtype());
  // Halves are compared in float32, which holds them exactly.
  const bool is_double = b.dtype() == DType::float64 || s.dtype() == DType::float64;
  const DType dtype = is_double ? DType::float64 : DType::float32;
  b = cast(b, dtype), s = cast(s, dtype);
  const auto scalar = [&](const TensorValueLike& x, DType type) {
    return x.is_weak() ? promote_weak(x, type, b.device())
                       : cast(graph::detail::strong_tensor(x), type);
  };
  TensorValue most = max_output_boxes_per_class.is_weak()
                         ? promote_weak(max_output_boxes_per_class, DType::int64, b.device())
                         : graph::detail::strong_tensor(max_output_boxes_per_class);
  return graph::detail::add_tensor_op(
      OpKind::non_maximum_suppression,
      {b, s, most, scalar(iou_threshold, dtype), scalar(score_threshold, dtype)},
      {{"out_dim", out_dim}});
}

}  // namespace kiln::graph::ops
