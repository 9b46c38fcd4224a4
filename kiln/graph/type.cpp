#include "kiln/graph/type.h"

#include "kiln/graph/layout.h"
#include "kiln/graph/quoted.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph {
namespace {

void check_shape(const Shape& shape) {
  for (const Dim& dim : shape)
    if (dim.is_static() && dim.value() < 0)
      throw TypeError(
          format("Static tensor dimensions must be non-negative; got shape={}", shape.repr()));
  if (shape.rank() > kMaxRank)
    throw ValueError(format("A tensor has at most {} axes, but shape {} has {}.", kMaxRank,
                            shape.repr(), shape.rank()));
}

std::string repr_of(std::string_view name, const ShapedType& type) {
  return format("{}(dtype={}, shape={}, device={})", name, type.dtype.name(), type.shape.repr(),
                type.device.to_string());
}

std::string text_of(std::string_view name, const ShapedType& type,
                    std::optional<FilterLayout> layout) {
  std::string text = format("{}<{}, {}", name, type.shape.to_string(), type.dtype.text_name());
  if (type.device != DeviceRef::CPU(0)) text += ", " + type.device.to_string();
  if (layout) text += format(", layout = {}", to_string(*layout));
  return text + ">";
}

std::string parameter_text(const OpaqueType::Parameter& parameter, bool repr) {
  if (auto* b = std::get_if<bool>(&parameter))
    return repr ? (*b ? "True" : "False") : (*b ? "true" : "false");
  if (auto* i = std::get_if<std::int64_t>(&parameter)) return std::to_string(*i);
  if (auto* s = std::get_if<std::string>(&parameter)) return repr ? format("'{}'", *s) : quoted(*s);
  DType dtype = std::get<DType>(parameter);
  return std::string(repr ? dtype.to_string() : std::string(dtype.text_name()));
}

}  // namespace

DeviceKind device_kind_from_string(std::string_view text) {
  if (text == "cpu") return DeviceKind::cpu;
  if (text == "gpu") return DeviceKind::gpu;
  throw ValueError(format("Unknown device kind {}", text));
}

std::string_view to_string(DeviceKind kind) { return kind == DeviceKind::cpu ? "cpu" : "gpu"; }

std::string DeviceRef::to_string() const { return format("{}:{}", graph::to_string(kind), id); }

std::string_view to_string(FilterLayout layout) {
  switch (layout) {
    case FilterLayout::RSCF:
      return "RSCF";
    case FilterLayout::QRSCF:
      return "QRSCF";
    case FilterLayout::FCRS:
      return "FCRS";
    case FilterLayout::FCQRS:
      return "FCQRS";
    case FilterLayout::CFRS:
      return "CFRS";
  }
  return "?";
}

FilterLayout filter_layout_from_string(std::string_view text) {
  for (FilterLayout layout : {FilterLayout::RSCF, FilterLayout::QRSCF, FilterLayout::FCRS,
                              FilterLayout::FCQRS, FilterLayout::CFRS})
    if (to_string(layout) == text) return layout;
  throw ValueError(
      format("Unknown filter layout '{}'; expected RSCF, QRSCF, FCRS, FCQRS or CFRS.", text));
}

std::string_view to_string(ConvInputLayout layout) {
  return layout == ConvInputLayout::NHWC ? "NHWC" : "NCHW";
}

ConvInputLayout conv_input_layout_from_string(std::string_view text) {
  if (text == "NHWC") return ConvInputLayout::NHWC;
  if (text == "NCHW") return ConvInputLayout::NCHW;
  throw ValueError(format("Unknown input layout '{}'; expected NHWC or NCHW.", text));
}

std::int64_t ShapedType::num_elements() const {
  if (!Shape::is_static(shape))
    throw RuntimeError("can't find num elements since tensor has symbolic dims");
  return shape.num_elements().value();
}

TensorType::TensorType(DType dtype, Shape shape, DeviceRef device)
    : ShapedType{dtype, std::move(shape), device} {
  check_shape(this->shape);
}

TensorType TensorType::cast(DType new_dtype) const {
  TensorType type = *this;
  type.dtype = new_dtype;
  return type;
}

BufferType TensorType::as_buffer() const { return BufferType(dtype, shape, device); }
std::string TensorType::repr() const { return repr_of("TensorType", *this); }

BufferType::BufferType(DType dtype, Shape shape, DeviceRef device)
    : ShapedType{dtype, std::move(shape), device} {
  check_shape(this->shape);
}

BufferType BufferType::cast(DType new_dtype) const { return BufferType(new_dtype, shape, device); }
TensorType BufferType::as_tensor() const { return TensorType(dtype, shape, device); }
std::string BufferType::repr() const { return repr_of("BufferType", *this); }

const TensorType& Type::tensor() const {
  KILN_CHECK(is_tensor(), format("{} is not a tensor type", repr()));
  return std::get<TensorType>(*this);
}

const BufferType& Type::buffer() const {
  KILN_CHECK(is_buffer(), format("{} is not a buffer type", repr()));
  return std::get<BufferType>(*this);
}

const ShapedType& Type::shaped() const {
  if (is_buffer()) return buffer();
  return tensor();
}

std::string Type::repr() const {
  if (is_tensor()) return std::get<TensorType>(*this).repr();
  if (is_buffer()) return std::get<BufferType>(*this).repr();
  if (is_chain()) return "_ChainType()";
  const auto& opaque = std::get<OpaqueType>(*this);
  std::vector<std::string> parameters;
  for (const auto& [name, value] : opaque.parameters)
    parameters.push_back(format("'{}': {}", name, parameter_text(value, true)));
  return format("_OpaqueType('{}', {{{}}})", opaque.name, join(parameters, ", "));
}

std::string Type::to_text() const {
  if (is_tensor()) return text_of("tensor", tensor(), tensor().layout);
  if (is_buffer()) return text_of("buffer", buffer(), std::nullopt);
  if (is_chain()) return "chain";
  const auto& opaque = std::get<OpaqueType>(*this);
  std::vector<std::string> parameters;
  for (const auto& [name, value] : opaque.parameters)
    parameters.push_back(format("{} = {}", name, parameter_text(value, false)));
  if (parameters.empty()) return format("opaque<{}>", quoted(opaque.name));
  return format("opaque<{}, {{{}}}>", quoted(opaque.name), join(parameters, ", "));
}

}  // namespace kiln::graph
