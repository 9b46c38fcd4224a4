#include "kiln/graph/value.h"

#include <cstring>

#include "kiln/graph/current_graph.h"
#include "kiln/graph/ops.h"
#include "kiln/graph/promotion.h"
#include "kiln/graph/slice_index.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph {
namespace {

std::string_view class_name(const Value& value) {
  if (!value) return "NoneType";
  if (value.weight_state()) return "Weight";
  const Type type = value.type();
  if (type.is_tensor()) return "TensorValue";
  if (type.is_buffer()) return "BufferValue";
  return type.is_opaque() ? "_OpaqueValue" : "_ChainValue";
}

std::string shaped_repr(std::string_view name, const ShapedType& type) {
  return format("{}(dtype={}, shape={}, device={})", name, type.dtype.name(), type.shape.repr(),
                type.device.to_string());
}

}  // namespace

// ---- Value ----

Type Value::type() const {
  if (weight_) return weight_->type();
  if (!value_) throw_empty_handle();
  return value_->type;
}

ir::Value* Value::ir_value() const {
  if (weight_) return detail::weight_value(*detail::current_graph_for({this, 1}), weight_);
  if (!value_) throw_empty_handle();
  return value_;
}

std::string Value::repr() const {
  if (!*this) return "Value()";
  const Type t = type();
  if (t.is_tensor()) return shaped_repr("TensorValue", t.shaped());
  if (t.is_buffer()) return shaped_repr("BufferValue", t.shaped());
  return format("{}({})", t.is_opaque() ? "_OpaqueValue" : "_ChainValue", t.repr());
}

TensorValue Value::tensor() const {
  if (!type().is_tensor())
    throw TypeError(format("Value is not a TensorValue, was '{}'", class_name(*this)));
  return TensorValue(*this);
}

BufferValue Value::buffer() const {
  if (!type().is_buffer())
    throw TypeError(format("Value is not a BufferValue, was '{}'", class_name(*this)));
  return BufferValue(*this);
}

OpaqueValue Value::opaque() const {
  if (!*this || !type().is_opaque())
    throw TypeError(format("Value is not a _OpaqueValue, was '{}'", class_name(*this)));
  return OpaqueValue(*this);
}

OpaqueValue::OpaqueValue(const Value& value) : Value(value) {
  if (!value || !value.type().is_opaque())
    throw TypeError(
        format("_OpaqueValue() argument must be an opaque value, not '{}'", class_name(value)));
}

OpaqueType OpaqueValue::type() const { return std::get<OpaqueType>(Value::type()); }

// ---- TensorValue ----

TensorValue::TensorValue(const Value& value) : Value(value) {
  if (value && value.type().is_tensor()) return;
  if (value && value.type().is_buffer())
    throw TypeError(
        "TensorValue() argument must be a tensor, not 'BufferValue'. A buffer is never loaded "
        "implicitly; use ops.buffer_load.");
  throw TypeError(format("TensorValue() argument must be a tensor, not '{}'.", class_name(value)));
}

TensorValue::TensorValue(const Dim& dim, Location location) {
  LocationScope at(location);
  *this = ops::squeeze(ops::shape_to_tensor({dim}), 0);
}

TensorValue::TensorValue(const graph::Shape& shape, Location location)
    : TensorValue(ops::shape_to_tensor(shape, location)) {}

TensorType TensorValue::type() const { return Value::type().tensor(); }
Shape TensorValue::shape() const { return type().shape; }
DType TensorValue::dtype() const { return type().dtype; }
DeviceRef TensorValue::device() const { return type().device; }
int TensorValue::rank() const { return type().rank(); }

using T = TensorValue;

T T::reshape(const graph::Shape& shape, Location l) const {
  return ops::reshape({*this, l}, shape);
}
T T::flatten(int start_dim, int end_dim, Location l) const {
  return ops::flatten({*this, l}, start_dim, end_dim);
}
T T::broadcast_to(const graph::Shape& shape, Location l) const {
  return ops::broadcast_to({*this, l}, shape);
}
T T::permute(const std::vector<std::int64_t>& dims, Location l) const {
  return ops::permute({*this, l}, dims);
}
T T::transpose(int dim_1, int dim_2, Location l) const {
  return ops::transpose({*this, l}, dim_1, dim_2);
}
TensorValue TensorValue::T(Location l) const { return ops::transpose({*this, l}, -1, -2); }
T T::rebind(const graph::Shape& shape, const std::string& message, Location l) const {
  return ops::rebind({*this, l}, shape, {.message = message});
}
T T::cast(DType dtype, Location l) const { return ops::cast({*this, l}, dtype); }
T T::to(DeviceRef device, Location l) const { return ops::transfer_to({*this, l}, device); }
void T::print(const std::string& label, Location l) const { ops::print({*this, l}, label); }

T T::argmax(int axis, Location l) const { return ops::argmax({*this, l}, axis); }
T T::max(int axis, Location l) const { return ops::max({*this, l}, ops::AxisOptions{axis}); }
T T::mean(int axis, Location l) const { return ops::mean({*this, l}, axis); }
T T::min(int axis, Location l) const { return ops::min({*this, l}, ops::AxisOptions{axis}); }

T T::var(int axis, Location l) const {
  if (dtype() == DType::bool_) throw TypeError("Variance undefined for boolean values.");
  LocationScope at(l);
  TensorValue deviation = ops::sub(*this, ops::mean(*this, axis));
  return ops::mean(ops::mul(deviation, deviation), axis);
}

T T::stdev(int axis, Location l) const {
  LocationScope at(l);
  return ops::sqrt(var(axis, l));
}

T T::operator[](std::initializer_list<SliceIndex> indices) const {
  return (*this)[std::vector<SliceIndex>(indices)];
}
T T::operator[](const std::vector<SliceIndex>& indices) const {
  if (indices.empty()) return ops::slice_tensor(*this, indices);
  return ops::slice_tensor({*this, indices[0].location()}, indices);
}
T T::operator[](const SliceIndex& index) const {
  return ops::slice_tensor({*this, index.location()}, {index});
}

using L = const TensorValueLike&;

T operator-(L x) { return ops::negate(x); }
T operator~(L x) { return ops::logical_not(x); }
T operator+(L lhs, L rhs) { return ops::add(lhs, rhs); }
T operator-(L lhs, L rhs) { return ops::sub(lhs, rhs); }
T operator*(L lhs, L rhs) { return ops::mul(lhs, rhs); }
T operator/(L lhs, L rhs) { return ops::div(lhs, rhs); }
T operator%(L lhs, L rhs) { return ops::mod(lhs, rhs); }
T operator==(L lhs, L rhs) { return ops::equal(lhs, rhs); }
T operator!=(L lhs, L rhs) { return ops::not_equal(lhs, rhs); }
T operator>(L lhs, L rhs) { return ops::greater(lhs, rhs); }
T operator>=(L lhs, L rhs) { return ops::greater_equal(lhs, rhs); }
// Swapped, not negated: a comparison with NaN is false.
T operator<(L lhs, L rhs) { return ops::greater(rhs, lhs); }
T operator<=(L lhs, L rhs) { return ops::greater_equal(rhs, lhs); }
T operator&(L lhs, L rhs) { return ops::logical_and(lhs, rhs); }
T operator|(L lhs, L rhs) { return ops::logical_or(lhs, rhs); }
T operator^(L lhs, L rhs) { return ops::logical_xor(lhs, rhs); }

// ---- Operands ----

Array::Array(DType dtype, std::vector<std::int64_t> shape, const void* bytes, std::size_t size,
             DeviceRef device)
    : dtype(dtype), shape(std::move(shape)), device(device) {
  graph::Shape dims(std::vector<Dim>(this->shape.begin(), this->shape.end()));
  if (!graph::Shape::is_static(dims))
    throw ValueError(format("An array has no negative extents, got shape {}.", dims.repr()));
  // In the arithmetic of dims, which checks for overflow.
  const std::int64_t needed =
      (dims.num_elements() * Dim(dtype.size_in_bits()) + 7).floor_div(8).value();
  if (static_cast<std::int64_t>(size) != needed)
    throw ValueError(format("An array of shape ({}) and dtype {} has {} bytes, got {}.",
                            join(this->shape, ", "), dtype.to_string(), needed, size));
  auto copy = std::make_shared<ir::ConstantData>();
  copy->bytes.resize(size);
  if (size != 0) std::memcpy(copy->bytes.data(), bytes, size);
  data = std::move(copy);
}

std::int64_t Array::num_elements() const {
  std::int64_t count = 1;
  for (std::int64_t extent : shape) count *= extent;
  return count;
}

bool TensorValueLike::is_weak() const {
  if (const auto* dim = std::get_if<Dim>(&value_)) return dim->is_static();
  return std::holds_alternative<Scalar>(value_) || std::holds_alternative<Array>(value_);
}

std::string TensorValueLike::repr() const {
  struct Visitor {
    std::string operator()(const TensorValue& v) const { return v.repr(); }
    std::string operator()(const Dim& v) const { return v.repr(); }
    std::string operator()(const graph::Shape& v) const { return v.repr(); }
    std::string operator()(const Scalar& v) const {
      if (v.is_float()) return format("{}", v.to<double>());
      if (v.is_bool()) return v.to<bool>() ? "True" : "False";
      return integer_text(v);
    }
    std::string operator()(const Array& v) const {
      return format("array of dtype {} and shape ({})", v.dtype.name(), join(v.shape, ", "));
    }
  };
  return std::visit(Visitor{}, value_);
}

TensorValue detail::strong_tensor(const TensorValueLike& value) {
  if (const TensorValue* tensor = value.tensor()) {
    if (tensor->weight_state()) (void)current_graph_for({static_cast<const Value*>(tensor), 1});
    return *tensor;
  }
  if (const auto* dim = std::get_if<Dim>(&value.variant()))
    return TensorValue(*dim, value.location());
  if (const auto* shape = std::get_if<graph::Shape>(&value.variant()))
    return TensorValue(*shape, value.location());
  const bool array = std::holds_alternative<Array>(value.variant());
  const auto* number = std::get_if<Scalar>(&value.variant());
  throw TypeError(
      format("TensorValue() can not be created directly from a '{}'. Use ops.constant to "
             "convert to a TensorValue with a specific dtype.",
             array                ? "array"
             : number->is_float() ? "float"
             : number->is_bool()  ? "bool"
                                  : "int"));
}

// ---- BufferValue ----

BufferValue::BufferValue(const Value& value) : Value(value) {
  if (!value || !value.type().is_buffer())
    throw TypeError(
        format("BufferValue() argument must be a value of buffer type or a "
               "graph.BufferValue, not '{}'",
               class_name(value)));
}

BufferType BufferValue::type() const { return Value::type().buffer(); }
Shape BufferValue::shape() const { return type().shape; }
DType BufferValue::dtype() const { return type().dtype; }
DeviceRef BufferValue::device() const { return type().device; }
int BufferValue::rank() const { return type().rank(); }

void BufferValue::print(const std::string& label, Location location) const {
  LocationScope at(location);
  ops::print(ops::buffer_load(*this), label);
}

BufferValue::Region BufferValue::operator[](std::initializer_list<SliceIndex> indices) const {
  return (*this)[std::vector<SliceIndex>(indices)];
}

BufferValue::Region BufferValue::operator[](const std::vector<SliceIndex>& indices) const {
  const bool whole = indices.size() == 1 && std::holds_alternative<Ellipsis>(indices[0]);
  return Region(*this, indices, whole);
}

BufferValue::Region BufferValue::operator[](const SliceIndex& index) const {
  return (*this)[std::vector<SliceIndex>{index}];
}

TensorValue BufferValue::Region::load(Location location) const {
  LocationScope at(location);
  TensorValue value = ops::buffer_load(buffer_);
  return whole_ ? value : ops::slice_tensor(value, indices_);
}

void BufferValue::Region::store(const TensorValue& source, Location location) const {
  LocationScope at(location);
  if (whole_)
    ops::buffer_store(buffer_, source);
  else
    ops::buffer_store_slice(buffer_, source, indices_);
}

void BufferValue::Region::store(const BufferValue& source, Location location) const {
  LocationScope at(location);
  store(ops::buffer_load(source));
}

}  // namespace kiln::graph
