#include "kiln/graph/infer.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

// Views: ops whose result holds the operand's elements under another shape.

namespace kiln::graph {
namespace {

Type reshape(const Inference& op) {
  const TensorType& x = op.tensor(0);
  const Shape& shape = op.get<Shape>("shape");
  if (x.shape.num_elements() != shape.num_elements()) {
    std::string text = format(
        "[reshape] input and output number of elements must match: the input shape {} has {} "
        "elements, the output shape {} has {}.",
        x.shape.repr(), x.shape.num_elements().to_string(), shape.repr(),
        shape.num_elements().to_string());
    if (!x.shape.parameters().empty() || !shape.parameters().empty())
      text +=
          " If you are confident this is correct, consider a rebind to assert that the reshape is "
          "valid.";
    throw ValueError(text);
  }
  return TensorType(x.dtype, shape, x.device);
}

Type rebind(const Inference& op) {
  const TensorType& x = op.tensor(0);
  const Shape& shape = op.get<Shape>("shape");
  if (x.rank() != shape.rank())
    throw ValueError(
        format("Wrong rank for rebind: the value has shape {} of rank {}, the new shape "
               "{} has rank {}.",
               x.shape.repr(), x.rank(), shape.repr(), shape.rank()));
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (x.shape[i].is_static() && shape[i].is_static() && x.shape[i] != shape[i])
      throw ValueError(format("rebind cannot succeed: axis {} of shape {} has size {}, not {}.", i,
                              x.shape.repr(), x.shape[i].to_string(), shape[i].to_string()));
  TensorType type(x.dtype, shape, x.device);
  type.layout = x.layout;
  if (op.has("layout")) type.layout = op.get<FilterLayout>("layout");
  return type;
}

Type broadcast_to(const Inference& op) {
  const TensorType& x = op.tensor(0);
  const Shape& shape = op.get<Shape>("shape");
  if (op.operands.size() == 2) {
    const TensorType& target = op.tensor(1);
    if (target.rank() != 1 || target.dtype != DType::int64 || !target.device.is_cpu())
      throw ValueError(format("broadcast_to takes its shape as an int64 vector on the CPU, got {}.",
                              target.repr()));
    if (target.shape[0].is_static() && target.shape[0] != Dim(shape.rank()))
      throw ValueError(format("broadcast_to got a shape tensor of {} elements, but {} dims: {}.",
                              target.shape[0].to_string(), shape.rank(), shape.repr()));
  }
  if (shape.rank() < x.rank())
    throw ValueError(
        format("[broadcast_to] the target shape {} has a lower rank than the input "
               "shape {}.",
               shape.repr(), x.shape.repr()));
  const std::size_t offset = shape.size() - x.shape.size();
  const bool at_run = op.operands.size() == 2;
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    const Dim &from = x.shape[i], &to = shape[i + offset];
    if (from == to || from == Dim(1)) continue;
    // Names that a run-time shape defines may turn out to equal the dim.
    if (at_run && !(from.is_static() && to.is_static())) continue;
    throw ValueError(
        format("[broadcast_to] input dimension at index {} ({}) must be either 1 or equal to "
               "corresponding output dimension at index {} ({})",
               i, from.to_string(), i + offset, to.to_string()));
  }
  return TensorType(x.dtype, shape, x.device);
}

Type permute(const Inference& op) {
  const TensorType& x = op.tensor(0);
  const auto& dims = op.get<std::vector<std::int64_t>>("dims");
  if (static_cast<int>(dims.size()) != x.rank())
    throw ValueError(
        format("The rank of the input ({}) does not match the number of dims used for "
               "ordering ({})",
               x.rank(), dims.size()));
  Shape shape;
  std::vector<bool> seen(dims.size());
  for (std::int64_t dim : dims) {
    if (dim < 0 || dim >= x.rank())
      throw ValueError(format("permute has no axis {} in a tensor of rank {}.", dim, x.rank()));
    if (seen[dim])
      throw ValueError(
          format("The ordering may not contain duplicate dimensions: [{}]", join(dims, ", ")));
    seen[dim] = true;
    shape.push_back(x.shape[dim]);
  }
  return TensorType(x.dtype, std::move(shape), x.device);
}

Type squeeze(const Inference& op) {
  const TensorType& x = op.tensor(0);
  const std::size_t axis = checked_axis(op, x.rank());
  if (x.shape[axis] != Dim(1))
    throw ValueError(format("Squeeze dim must be 1, got axis={}, shape={}", axis, x.shape.repr()));
  Shape shape = x.shape;
  shape.erase(shape.begin() + axis);
  return TensorType(x.dtype, std::move(shape), x.device);
}

Type unsqueeze(const Inference& op) {
  const TensorType& x = op.tensor(0);
  const std::int64_t axis = op.integer("axis");
  if (axis < 0 || axis > x.rank())
    throw ValueError(format("unsqueeze axis out of bounds: axis={}, rank={}", axis, x.rank()));
  Shape shape = x.shape;
  shape.insert(shape.begin() + axis, Dim(1));
  return TensorType(x.dtype, std::move(shape), x.device);
}

}  // namespace

std::vector<Type> infer_view(const Inference& op) {
  switch (op.kind) {
    case OpKind::reshape:
      return {reshape(op)};
    case OpKind::rebind:
      return {rebind(op)};
    case OpKind::broadcast_to:
      return {broadcast_to(op)};
    case OpKind::permute:
      return {permute(op)};
    case OpKind::squeeze:
      return {squeeze(op)};
    default:
      return {unsqueeze(op)};
  }
}

}  // namespace kiln::graph
