#include "kiln/graph/ops/constant.h"

#include <cmath>
#include <numbers>

#include "kiln/driver/buffer.h"
#include "kiln/graph/element_text.h"
#include "kiln/graph/graph_state.h"
#include "kiln/graph/infer.h"
#include "kiln/graph/ops/transfer.h"
#include "kiln/graph/placement.h"
#include "kiln/graph/promotion.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph::ops {

namespace d = graph::detail;

namespace {

void check_whole_bytes(DType dtype) {
  if (dtype.size_in_bits() < 8)
    throw TypeError(format("Cannot create a constant of type '{}' since it is a sub-byte type.",
                           dtype.to_string()));
}

std::string number_text(const Scalar& number) {
  if (number.is_wide_integer()) return integer_text(number);
  return std::visit(
      [](auto v) { return format("{}", v); },
      static_cast<const std::variant<bool, std::int64_t, std::uint64_t, double>&>(number));
}

[[noreturn]] void throw_not_rectangular(const Literal& whole) {
  throw ValueError(format("Array literals must be rectangular, got literal={}", whole.to_string()));
}

/// Walks a literal in row-major order and checks that sibling lists have equal shapes.
void collect(const Literal& whole, const Literal& part, std::size_t depth,
             std::vector<std::int64_t>& shape, std::vector<Scalar>& out, bool first) {
  if (!part.is_list()) {
    if (depth != shape.size()) throw_not_rectangular(whole);
    out.push_back(part.number());
    return;
  }
  const auto size = static_cast<std::int64_t>(part.items().size());
  if (first && depth == shape.size())
    shape.push_back(size);
  else if (depth >= shape.size() || shape[depth] != size)
    throw_not_rectangular(whole);
  for (std::size_t i = 0; i < part.items().size(); ++i)
    collect(whole, part.items()[i], depth + 1, shape, out, first && i == 0);
}

void write_number(DType dtype, const Scalar& number, std::byte* to) {
  if (dtype.is_float()) {
    // One rounding only: an integer may have more bits than a double.
    const bool is_double = dtype == DType::float64;
    double_to_element(dtype, is_double ? number.to<double>() : number.rounded_to_odd(), to);
  } else {
    const Scalar whole = number.is_float() ? whole_part(number.to<double>()) : number;
    if (!holds_integer(dtype, whole))
      throw ValueError(
          format("Unsafe cast: Refusing to implicitly promote external array with value "
                 "{} out of range for DType {}.",
                 number_text(number), dtype.to_string()));
    write_integer(dtype, whole, to);
  }
}

}  // namespace

std::string Literal::to_string() const {
  if (!is_list()) return number_text(*number_);
  std::vector<std::string> texts;
  for (const Literal& item : items_) texts.push_back(item.to_string());
  return format("[{}]", join(texts, ", "));
}

namespace detail {

TensorValue constant_of(const std::vector<std::int64_t>& shape, DType dtype,
                        std::vector<std::byte> bytes, DeviceRef device) {
  const DeviceRef home = device.is_cpu() ? device : DeviceRef::CPU();
  auto data = std::make_shared<ir::ConstantData>(ir::ConstantData{std::move(bytes)});
  Shape dims(std::vector<Dim>(shape.begin(), shape.end()));
  TensorValue value = d::add_tensor_op(
      OpKind::constant, {}, {{"value", std::shared_ptr<const ir::ConstantData>(std::move(data))}},
      {TensorType(dtype, std::move(dims), home)});
  if (home == device) return value;
  return d::add_tensor_op(OpKind::transfer_to, {value}, {{"device", device}});
}

}  // namespace detail

Array literal_array(const Literal& value, DType dtype) {
  check_whole_bytes(dtype);
  std::vector<std::int64_t> shape;
  std::vector<Scalar> numbers;
  collect(value, value, 0, shape, numbers, true);
  const auto size = static_cast<std::size_t>(dtype.size_in_bytes());
  std::vector<std::byte> bytes(numbers.size() * size);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    write_number(dtype, numbers[i], bytes.data() + i * size);
  return Array(dtype, std::move(shape), bytes.data(), bytes.size());
}

TensorValue constant(const Literal& value, DType dtype, DeviceRef device, Location location) {
  return constant(literal_array(value, dtype), {.device = device}, location);
}

TensorValue constant(const Array& value, const ConstantOptions& options, Location location) {
  LocationScope at(location);
  check_whole_bytes(value.dtype);
  if (options.dtype && *options.dtype != value.dtype)
    throw ValueError(format("DType must match input dtype: dtype={} != value.dtype={}",
                            options.dtype->to_string(), value.dtype.to_string()));
  DeviceRef device = options.device.value_or(value.device);
  if (value.device.is_gpu()) check_placement("constant");
  return detail::constant_of(value.shape, value.dtype, value.data->bytes, device);
}

TensorValue constant(const driver::Buffer& value, const ConstantOptions& options,
                     Location location) {
  const driver::Buffer host =
      value.is_host() && value.is_contiguous() ? value : value.copy(driver::CPU());
  host.wait_for_host_read();
  Array array(value.dtype(), value.shape().to_vector(), host.data(), host.byte_size(),
              DeviceRef(value.device()));
  return constant(array, options, location);
}

TensorValue hann_window(std::int64_t window_length, DeviceRef device,
                        const HannWindowOptions& options, Location location) {
  LocationScope at(location);
  if (window_length < 0) throw ValueError("window_length must be non-negative");
  check_dtype("hann_window", DTypeFamily::floating, options.dtype);
  const auto size = static_cast<std::size_t>(options.dtype.size_in_bytes());
  std::vector<std::byte> bytes(static_cast<std::size_t>(window_length) * size);
  const std::int64_t period = options.periodic ? window_length : window_length - 1;
  for (std::int64_t i = 0; i < window_length; ++i) {
    const double angle =
        2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(period);
    const double value = window_length == 1 ? 1.0 : 0.5 - 0.5 * std::cos(angle);
    double_to_element(options.dtype, value, bytes.data() + static_cast<std::size_t>(i) * size);
  }
  return detail::constant_of({window_length}, options.dtype, std::move(bytes), device);
}

TensorValue constant_external(const std::string& name, const TensorType& type,
                              const ConstantExternalOptions& options, Location location) {
  LocationScope at(location);
  auto& graph = *d::current_graph();
  ir::Value* value =
      d::external_constant(graph, name, type, options.align.value_or(type.dtype.align()),
                           options.is_placeholder.value_or(graph.graph->is_subgraph));
  return TensorValue(graph.handle(value));
}

TensorValue shape_to_tensor(const Shape& shape, Location location) {
  LocationScope at(location);
  return d::add_tensor_op(OpKind::shape_to_tensor, {}, {{"shape", shape}});
}

}  // namespace kiln::graph::ops
