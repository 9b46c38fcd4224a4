#include <cmath>

#include "kiln/graph/infer.h"
#include "kiln/graph/promotion.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

// Ops without tensor arithmetic: constants, shapes, chains, buffers, control flow.

namespace kiln::graph {
namespace {

const Type& one_declared(const Inference& op) {
  if (op.declared.size() != 1)
    throw ValueError(
        format("'{}' has one result, but {} types were given.", op.name(), op.declared.size()));
  return op.declared[0];
}

const TensorType& declared_tensor(const Inference& op) {
  const Type& type = one_declared(op);
  if (!type.is_tensor())
    throw ValueError(format("'{}' gives a tensor, not {}.", op.name(), type.to_text()));
  return type.tensor();
}

Type constant(const Inference& op) {
  const TensorType& type = declared_tensor(op);
  if (!Shape::is_static(type.shape))
    throw ValueError(format("A constant has a static shape, not {}.", type.shape.repr()));
  const auto& data = op.get<std::shared_ptr<const ir::ConstantData>>("value");
  // In the arithmetic of dims, which checks for overflow.
  const Dim bits = type.shape.num_elements() * Dim(type.dtype.size_in_bits());
  const std::int64_t bytes = (bits + 7).floor_div(8).value();
  if (!data || static_cast<std::int64_t>(data->bytes.size()) != bytes)
    throw ValueError(format("A constant of type {} has {} bytes, got {}.", type.repr(), bytes,
                            data ? data->bytes.size() : 0));
  return type;
}

Type constant_external(const Inference& op) {
  const TensorType& type = declared_tensor(op);
  if (op.get<std::string>("name").empty()) throw ValueError("A weight needs a name.");
  check_name("weight", op.get<std::string>("name"));
  if (!Shape::is_static(type.shape))
    throw ValueError(format("A weight has a static shape, not {}.", type.shape.repr()));
  const std::int64_t align = op.integer("align");
  if (align < 1 || (align & (align - 1)) != 0)
    throw ValueError(format("align must be a power of two, got {}.", align));
  if (op.get<DeviceRef>("device") != type.device)
    throw ValueError(format("The weight is declared on {} but its type is {}.",
                            op.get<DeviceRef>("device").to_string(), type.repr()));
  return type;
}

Type random(const Inference& op) {
  const DType dtype = op.get<DType>("dtype");
  check_dtype(op.name(), DTypeFamily::arithmetic, dtype);
  const TensorType& seed = op.tensor(0);
  if (seed.dtype != DType::uint64 || seed.shape != Shape{1})
    throw ValueError(format("The seed of '{}' must be a uint64 tensor of shape [1], got {}.",
                            op.name(), seed.repr()));
  const DType parameters = op.kind == OpKind::random_uniform ? dtype : DType(DType::float32);
  for (std::size_t i : {1, 2})
    if (op.tensor(i).dtype != parameters || op.tensor(i).rank() != 0)
      throw ValueError(format("{} of '{}' must be a {} scalar, got {}.", op.operand_name(i),
                              op.name(), parameters.to_string(), op.tensor(i).repr()));
  check_same_device(op, 0, 3);
  return TensorType(dtype, op.get<Shape>("shape"), seed.device);
}

Type range(const Inference& op) {
  const TensorType& type = declared_tensor(op);
  check_dtype(op.name(), DTypeFamily::arithmetic, type.dtype);
  if (type.shape != Shape{op.get<Dim>("out_dim")})
    throw ValueError(format("range gives a vector of {} elements, not {}.",
                            op.get<Dim>("out_dim").to_string(), type.repr()));
  if (op.operands.empty()) {
    if (!op.has("start") || !op.has("stop") || !op.has("step"))
      throw ValueError("range needs start, stop and step.");
    auto bound = [&](std::string_view name) -> const ir::Attribute& {
      return op.attributes.find(name)->second;
    };
    const auto length = range_length(bound("start"), bound("stop"), bound("step"), type.dtype);
    if (!length)
      throw ValueError(
          "range: the symbols of start, stop and step do not tell the number of elements; give "
          "the bounds as tensors.");
    if (*length != op.get<Dim>("out_dim"))
      throw ValueError(format("range: out_dim is {} but the range has {} elements",
                              op.get<Dim>("out_dim").to_string(), length->to_string()));
    return type;
  }
  if (op.operands.size() != 3) throw ValueError("range takes start, stop and step.");
  for (std::size_t i = 0; i < 3; ++i) {
    const TensorType& x = op.tensor(i);
    if (x.rank() != 0) throw ValueError("range expected scalar values as inputs!");
    if (!x.device.is_cpu()) throw ValueError("Range input values must be on CPU");
    if (x.dtype != type.dtype)
      throw ValueError(format("range computes in {}, but {} has dtype {}.", type.dtype.to_string(),
                              op.operand_name(i), x.dtype.to_string()));
  }
  return type;
}

const BufferType& buffer_operand(const Inference& op) {
  const Type& type = op.operands[0]->type;
  if (!type.is_buffer())
    throw ValueError(format("'{}' works on a buffer, not on {}.", op.name(), type.repr()));
  return type.buffer();
}

void check_chain(const Inference& op, std::size_t i) {
  if (!op.operands[i]->type.is_chain())
    throw ValueError(format("Operand {} of '{}' must be a chain, not {}.", i, op.name(),
                            op.operands[i]->type.repr()));
}

void store(const Inference& op) {
  const BufferType& destination = buffer_operand(op);
  const TensorType& source = op.tensor(1);
  if (source.dtype != destination.dtype)
    throw ValueError(format("The stored value has dtype {}, but the buffer has {}.",
                            source.dtype.to_string(), destination.dtype.to_string()));
  Shape expected =
      op.kind == OpKind::buffer_store ? destination.shape : sliced_shape(op, destination.shape, 2);
  if (source.shape != expected)
    throw ValueError(format("expected source to have shape {} but source had shape {}",
                            expected.repr(), source.shape.repr()));
  check_same_device(op, 0, 2);
}

/// Predicates of control flow: a bool scalar on the CPU.
void check_predicate(std::string_view op, const Type& type) {
  if (!type.is_tensor() || type.tensor().rank() != 0 || type.tensor().dtype != DType::bool_)
    throw ValueError(
        format("The predicate for `ops.{}` must be a bool scalar, but got {}.", op, type.repr()));
  if (!type.tensor().device.is_cpu())
    throw ValueError(
        format("The predicate for `ops.{}` must reside on CPU, but got a tensor on {}. "
               "Move it with `ops.transfer_to(pred, DeviceRef.CPU())` first.",
               op, type.tensor().device.to_string()));
}

std::vector<Type> transfer(const Inference& op) {
  const TensorType& x = op.tensor(0);
  Type type = TensorType(x.dtype, x.shape, op.get<DeviceRef>("device"));
  if (op.operands.size() == 1) return {type};
  check_chain(op, 1);
  return {type, ChainType{}};
}

}  // namespace

std::optional<Dim> range_length(const ir::Attribute& start, const ir::Attribute& stop,
                                const ir::Attribute& step, DType dtype) {
  bool real = false, all_static = true;
  auto number = [&](const ir::Attribute& bound) {
    const auto* dim = std::get_if<Dim>(&bound);
    if (dim && !dim->is_static()) {
      all_static = false;
      return 1.0;
    }
    real = real || !dim;
    check_weak(dim ? Scalar(dim->value()) : Scalar(std::get<double>(bound)), dtype);
    const double value = dim ? static_cast<double>(dim->value()) : std::get<double>(bound);
    if (!std::isfinite(value))
      throw ValueError(format("range: bounds must be finite, got {}", value));
    return value;
  };
  const double a = number(start), b = number(stop), s = number(step);
  if (s == 0) throw ValueError("range: step must be non-zero");
  if (real) {
    if (!all_static) return std::nullopt;
    const double n = std::ceil((b - a) / s);
    if (n > 0x1p62) throw ValueError(format("range: {} elements are too many", n));
    return Dim(n > 0 ? static_cast<std::int64_t>(n) : 0);
  }
  const Dim &first = std::get<Dim>(start), &last = std::get<Dim>(stop), &by = std::get<Dim>(step);
  if (!by.is_static()) return std::nullopt;
  Dim n = (last - first + by - Dim(by.value() > 0 ? 1 : -1)).floor_div(by);
  if (n.is_static() && n.value() < 0) n = 0;
  return n;
}

std::vector<Type> infer_source(const Inference& op) {
  switch (op.kind) {
    case OpKind::constant:
      return {constant(op)};
    case OpKind::constant_external:
      return {constant_external(op)};
    case OpKind::range:
      return {range(op)};
    case OpKind::random_uniform:
    case OpKind::random_normal:
      return {random(op)};
    default:
      return {TensorType(DType::int64, {op.get<Shape>("shape").rank()}, DeviceRef::CPU())};
  }
}

std::vector<Type> infer_effect(const Inference& op) {
  const std::size_t last = op.operands.size() - 1;
  switch (op.kind) {
    case OpKind::chain_create:
      for (std::size_t i = 0; i < op.operands.size(); ++i) check_chain(op, i);
      return {ChainType{}};
    case OpKind::condition:
      check_predicate("while_loop", op.operands[0]->type);
      for (std::size_t i = 1; i < op.operands.size(); ++i) check_chain(op, i);
      return {};
    case OpKind::transfer_to:
      return transfer(op);
    case OpKind::buffer_load:
      check_chain(op, last);
      return {buffer_operand(op).as_tensor(), ChainType{}};
    case OpKind::buffer_store:
    case OpKind::buffer_store_slice:
      check_chain(op, last);
      store(op);
      return {ChainType{}};
    case OpKind::buffer_create:
      if (!one_declared(op).is_buffer())
        throw ValueError(format("buffer_create gives a buffer, not {}.", op.declared[0].to_text()));
      return op.declared;
    case OpKind::print:
      check_chain(op, last);
      if (op.has("text") == (op.operands.size() == 2))
        throw ValueError("print takes either a tensor or a text.");
      if (op.operands.size() == 2) op.tensor(0);
      return {ChainType{}};
    case OpKind::cond:
      check_predicate("cond", op.operands[0]->type);
      return op.declared;
    case OpKind::while_loop: {
      std::vector<Type> types;
      for (const ir::Value* value : op.operands) {
        if (value->type.is_buffer())
          throw ValueError("Buffer operations are currently not supported in while loops");
        types.push_back(value->type);
      }
      return types;
    }
    default:
      return op.declared;  // call
  }
}

}  // namespace kiln::graph
