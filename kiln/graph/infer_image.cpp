#include "kiln/graph/infer.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

// Spectra, regions and boxes.

namespace kiln::graph {
namespace {

Type irfft(const Inference& op) {
  const TensorType& x = op.tensor(0);
  const std::int64_t n = op.integer("n");
  const bool is_complex = op.get<bool>("input_is_complex");
  const auto& normalization = op.get<std::string>("normalization");
  if (x.dtype != DType::float32)
    throw ValueError(format("Input tensor must be of type float32, got {}", x.dtype.to_string()));
  if (is_complex && (x.rank() == 0 || x.shape.back() != Dim(2)))
    throw ValueError(
        format("The last dimension of a complex input must be 2, got shape {}", x.shape.repr()));
  Shape shape = x.shape;
  if (is_complex) shape.pop_back();
  const std::size_t axis = checked_axis(op, shape.rank());
  if (!shape[axis].is_static())
    throw ValueError(format("Axis dimension must be static, got {}", shape[axis].to_string()));
  if (normalization != "backward" && normalization != "ortho" && normalization != "forward")
    throw ValueError(format("Invalid normalization: {}", normalization));
  if (n < 1) throw ValueError(format("irfft: n must be positive, got {}", n));
  shape[axis] = n;
  return TensorType(x.dtype, std::move(shape), x.device);
}

Type roi_align(const Inference& op) {
  const TensorType &x = op.tensor(0), &rois = op.tensor(1);
  if (x.rank() != 4)
    throw ValueError(format("roi_align expects rank-4 NHWC input, got rank {}", x.rank()));
  if (rois.rank() != 2)
    throw ValueError(format("roi_align expects rank-2 rois [M, 5], got rank {}", rois.rank()));
  if (rois.shape[1] != Dim(5))
    throw ValueError(format("roi_align expects rois [M, 5], got shape {}", rois.shape.repr()));
  const auto& mode = op.get<std::string>("mode");
  if (mode != "AVG" && mode != "MAX")
    throw ValueError(format("roi_align mode must be 'AVG' or 'MAX', got '{}'", mode));
  for (std::size_t i : {0, 1})
    if (op.tensor(i).dtype != DType::float32)
      throw ValueError(format("roi_align works in float32, but {} has dtype {}", op.operand_name(i),
                              op.tensor(i).dtype.to_string()));
  const std::int64_t height = op.integer("output_height"), width = op.integer("output_width");
  if (height < 1 || width < 1)
    throw ValueError(
        format("roi_align: the output size must be positive, got {} x {}", height, width));
  // More samples would only take for ever.
  constexpr double kMostSamples = 4096;
  const double ratio = op.get<double>("sampling_ratio");
  if (!(ratio <= kMostSamples))
    throw ValueError(
        format("roi_align: sampling_ratio must be at most {}, got {}", kMostSamples, ratio));
  check_same_device(op, 0, 2);
  return TensorType(x.dtype, {rois.shape[0], height, width, x.shape[3]}, x.device);
}

Type suppression(const Inference& op) {
  const TensorType &boxes = op.tensor(0), &scores = op.tensor(1);
  const std::string_view name = op.name();
  check_dtype(name, DTypeFamily::floating, boxes.dtype);
  if (boxes.rank() != 3 || boxes.shape[2] != Dim(4))
    throw ValueError(
        format("{}: boxes must have shape [batch, boxes, 4], got {}", name, boxes.shape.repr()));
  if (scores.rank() != 3)
    throw ValueError(format("{}: scores must have shape [batch, classes, boxes], got {}", name,
                            scores.shape.repr()));
  if (boxes.shape[0] != scores.shape[0])
    throw ValueError(format("{}: boxes have the batch {}, but scores have {}", name,
                            boxes.shape[0].to_string(), scores.shape[0].to_string()));
  if (boxes.shape[1] != scores.shape[2])
    throw ValueError(format("{}: there are {} boxes, but {} scores for each class", name,
                            boxes.shape[1].to_string(), scores.shape[2].to_string()));
  for (std::size_t i = 2; i < 5; ++i)
    if (op.tensor(i).rank() != 0)
      throw ValueError(format("{}: {} must be a scalar, got shape {}", name, op.operand_name(i),
                              op.tensor(i).shape.repr()));
  if (!op.tensor(2).dtype.is_integral())
    throw ValueError(format("{}: {} must be an integer, got dtype {}", name, op.operand_name(2),
                            op.tensor(2).dtype.to_string()));
  for (std::size_t i : {1, 3, 4})
    if (op.tensor(i).dtype != boxes.dtype)
      throw ValueError(format("{}: {} must have the dtype {} of the boxes, but has {}", name,
                              op.operand_name(i), boxes.dtype.to_string(),
                              op.tensor(i).dtype.to_string()));
  check_same_device(op, 0, 5);
  const Dim& out_dim = op.get<Dim>("out_dim");
  check_count(op, out_dim);
  return TensorType(DType::int64, {out_dim, 3}, boxes.device);
}

}  // namespace

std::vector<Type> infer_image(const Inference& op) {
  switch (op.kind) {
    case OpKind::irfft:
      return {irfft(op)};
    case OpKind::roi_align:
      return {roi_align(op)};
    default:
      return {suppression(op)};
  }
}

}  // namespace kiln::graph
