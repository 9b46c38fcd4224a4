#include "kiln/graph/infer.h"
#include "kiln/graph/quantization.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

// Reductions, selection, products, softmax and norms.

namespace kiln::graph {
namespace {

Type reduction(const Inference& op) {
  const TensorType& x = op.tensor(0);
  const std::size_t axis = checked_axis(op, x.rank());
  const bool extremum = op.kind == OpKind::reduce_max || op.kind == OpKind::reduce_min;
  const bool index = op.kind == OpKind::argmax || op.kind == OpKind::argmin;
  check_dtype(op.name(), extremum ? DTypeFamily::min_max : DTypeFamily::arithmetic, x.dtype);
  if ((extremum || index) && x.shape[axis] == Dim(0))
    throw ValueError(format("'{}' of the empty axis {} of shape {} has no value.", op.name(), axis,
                            x.shape.repr()));
  Shape shape = x.shape;
  shape[axis] = 1;
  return TensorType(index ? DType(DType::int64) : x.dtype, std::move(shape), x.device);
}

std::vector<Type> selection(const Inference& op) {
  const TensorType& x = op.tensor(0);
  check_dtype(op.name(), DTypeFamily::arithmetic, x.dtype);
  const std::int64_t axis = op.integer("axis");
  if (axis < 0 || axis >= x.rank())
    throw ValueError(format("axis ({}) out of bound for an input of rank {}", axis, x.rank()));
  const Dim &k = op.get<Dim>("k"), &n = x.shape[axis];
  if (k.is_static() && k.value() < 0)
    throw ValueError(format("k ({}) must not be negative", k.value()));
  if (k.is_static() && n.is_static() && k.value() > n.value())
    throw ValueError(
        format("k ({}) cannot be larger than dimension size along axis {}", k.value(), axis));
  Shape shape = x.shape;
  shape[axis] = k;
  return {TensorType(x.dtype, shape, x.device), TensorType(DType::int64, shape, x.device)};
}

}  // namespace

std::vector<Type> infer_reduction(const Inference& op) {
  if (op.kind == OpKind::cumsum) {
    const TensorType& x = op.tensor(0);
    checked_axis(op, x.rank());
    check_dtype(op.name(), DTypeFamily::arithmetic, x.dtype);
    return {TensorType(x.dtype, x.shape, x.device)};
  }
  if (op.kind == OpKind::top_k || op.kind == OpKind::bottom_k) return selection(op);
  return {reduction(op)};
}

std::vector<Type> infer_product(const Inference& op) {
  const TensorType &lhs = op.tensor(0), &rhs = op.tensor(1);
  if (lhs.rank() < 2 || rhs.rank() < 2)
    throw ValueError(
        format("matmul takes matrices, got shapes {} and {}.", lhs.shape.repr(), rhs.shape.repr()));
  check_same_dtype(op, 0, 2);
  if (!lhs.dtype.is_float8()) check_dtype(op.name(), DTypeFamily::arithmetic, lhs.dtype);
  check_same_device(op, 0, 2);
  const Dim &k = lhs.shape.back(), &k2 = rhs.shape[rhs.shape.size() - 2];
  if (k != k2)
    throw ValueError(
        format("matmul needs equal inner dims, but lhs of shape {} has {} and rhs of "
               "shape {} has {}.",
               lhs.shape.repr(), k.repr(), rhs.shape.repr(), k2.repr()));
  Shape shape = broadcast_shapes(Shape(lhs.shape.begin(), lhs.shape.end() - 2),
                                 Shape(rhs.shape.begin(), rhs.shape.end() - 2));
  shape.push_back(lhs.shape[lhs.shape.size() - 2]);
  shape.push_back(rhs.shape.back());
  DType dtype = lhs.dtype.is_float8() ? DType(DType::float32) : lhs.dtype;
  return {TensorType(dtype, std::move(shape), lhs.device)};
}

std::vector<Type> infer_quantized(const Inference& op) {
  const bool is_product = op.kind == OpKind::qmatmul;
  const QuantizationEncoding encoding =
      quantization_encoding_from_string(op.get<std::string>("encoding"));
  if (encoding == QuantizationEncoding::Q5_K || encoding == QuantizationEncoding::GPTQ)
    throw ValueError(format("unsupported quantization encoding {}", to_string(encoding)));
  const BlockParameters block = block_parameters(encoding);
  const TensorType& blocks = op.tensor(is_product ? 1 : 0);
  if (blocks.dtype != DType::uint8)
    throw ValueError(
        format("{} takes blocks of dtype uint8, got {}", op.name(), blocks.dtype.to_string()));
  if (blocks.rank() < 1 || !blocks.shape.back().is_static())
    throw ValueError(format("{} needs blocks with a static last dimension, got shape {}", op.name(),
                            blocks.shape.repr()));
  const std::int64_t bytes = blocks.shape.back().value();
  if (bytes % block.block_size != 0)
    throw ValueError(
        format("last dimension ({}) not divisible by block size ({})", bytes, block.block_size));
  const Dim depth = Dim(bytes / block.block_size) * block.elements_per_block;
  if (!is_product) {
    Shape shape = blocks.shape;
    shape.back() = depth;
    return {TensorType(DType::float32, std::move(shape), blocks.device)};
  }
  const TensorType& lhs = op.tensor(0);
  if (lhs.dtype != DType::float32 || lhs.rank() < 1 || blocks.rank() != 2)
    throw ValueError(
        format("qmatmul takes a float32 left-hand side and a matrix of blocks, got {} "
               "and {}",
               lhs.repr(), blocks.repr()));
  if (lhs.shape.back() != depth)
    throw ValueError(
        format("qmatmul: rows of the left-hand side have {} elements, rows of the "
               "right-hand side {}",
               lhs.shape.back().to_string(), depth.to_string()));
  check_same_device(op, 0, 2);
  Shape shape = lhs.shape;
  shape.back() = blocks.shape[0];
  return {TensorType(DType::float32, std::move(shape), lhs.device)};
}

std::vector<Type> infer_norm(const Inference& op) {
  const TensorType& x = op.tensor(0);
  check_dtype(op.name(), DTypeFamily::floating, x.dtype);
  if (op.kind == OpKind::softmax || op.kind == OpKind::logsoftmax) {
    checked_axis(op, x.rank());
    return {TensorType(x.dtype, x.shape, x.device)};
  }
  if (x.rank() < 1)
    throw ValueError(format("{} needs an input of rank at least 1, got a scalar.", op.name()));
  check_same_dtype(op, 0, op.operands.size());
  const Dim& last = x.shape.back();
  if (op.kind == OpKind::layer_norm) {
    for (std::size_t i : {1, 2}) {
      const TensorType& v = op.tensor(i);
      if (v.rank() == 1 && v.shape[0] == last) continue;
      throw ValueError(
          format("{} size {} does not match dimension of reduction {}.", i == 1 ? "Gamma" : "Beta",
                 v.rank() == 1 ? v.shape[0].to_string() : v.shape.to_string(), last.to_string()));
    }
    if (!(op.get<double>("epsilon") > 0)) throw ValueError("epsilon must be positive");
  } else {
    if (!(op.get<double>("epsilon") >= 0))
      throw ValueError(
          format("epsilon must not be negative, but is {}", op.get<double>("epsilon")));
    const TensorType& weight = op.tensor(1);
    if (weight.rank() != 1 || weight.shape[0] != last)
      throw ValueError(
          format("RMSNorm: Could not apply weight shape {} to input shape {}, weight "
                 "shape must match the final input dimension.",
                 weight.shape.repr(), x.shape.repr()));
  }
  check_same_device(op, 0, op.operands.size());
  return {TensorType(x.dtype, x.shape, x.device)};
}

}  // namespace kiln::graph
