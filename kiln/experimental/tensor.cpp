#include "kiln/experimental/tensor.h"

#include <cstring>

#include "kiln/dtype/element.h"
#include "kiln/experimental/distributed_call.h"
#include "kiln/experimental/functional.h"
#include "kiln/experimental/recording.h"
#include "kiln/graph/ops.h"
#include "kiln/graph/recorded_graph.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::experimental {
namespace {

using detail::TensorState;

std::shared_ptr<TensorState> state_of(driver::Buffer buffer) {
  auto state = std::make_shared<TensorState>();
  state->buffer = std::move(buffer);
  return state;
}

/// A real tensor, or a constant of the graph that is being built.
Tensor from_array(const graph::Array& array, const driver::Device& device) {
  if (in_graph_context())
    return Tensor::from_graph_value(graph::ops::constant(array, {.device = device}));
  return Tensor(driver::Buffer::copy_of(array.data->bytes.data(),
                                        static_cast<std::size_t>(array.num_elements()), array.dtype,
                                        array.shape, device));
}

std::vector<std::int64_t> static_dims(const graph::Shape& shape, const char* what) {
  std::vector<std::int64_t> dims;
  for (const graph::Dim& dim : shape) {
    if (!dim.is_static())
      throw ValueError(
          format("{} of shape {}: the symbolic dimension {} has no value in eager mode. Give a "
                 "number, or call it while a graph is built.",
                 what, shape.repr(), dim.to_string()));
    dims.push_back(dim.value());
  }
  return dims;
}

driver::Buffer filled(const std::vector<std::int64_t>& dims, const graph::Array& element,
                      const driver::Device& device) {
  driver::Buffer buffer(element.dtype, dims, driver::CPU());
  if (buffer.num_elements() == 0) return device.is_host() ? buffer : buffer.copy(device);
  const auto& bytes = element.data->bytes;
  auto* to = static_cast<std::byte*>(buffer.data());
  const auto count = static_cast<std::size_t>(buffer.num_elements());
  const bool one_byte = std::all_of(bytes.begin(), bytes.end(),
                                    [&](std::byte byte) { return byte == bytes.front(); });
  if (one_byte) {
    std::memset(to, std::to_integer<int>(bytes.front()), count * bytes.size());
  } else {
    for (std::size_t i = 0; i < count; ++i)
      std::memcpy(to + i * bytes.size(), bytes.data(), bytes.size());
  }
  return device.is_host() ? buffer : buffer.copy(device);
}

/// A new tensor where the options say, when that is more than a device.
Tensor placed_as(const TensorOptions& options, Tensor made) {
  if (!options.device || options.device->is_plain()) return made;
  return made.to(*options.device);
}

}  // namespace

// ---- making them ----

Tensor::Tensor(driver::Buffer buffer) : state_(state_of(std::move(buffer))) {}

Tensor::Tensor(const graph::ops::Literal& data, const TensorOptions& options) {
  const auto [dtype, device] = defaults(options);
  *this = placed_as(options, from_array(graph::ops::literal_array(data, dtype), device));
}

Tensor Tensor::from_graph_value(const graph::Value& value) {
  if (!value || !(value.type().is_tensor() || value.type().is_buffer()))
    throw TypeError(format("Tensor.from_graph_value takes a TensorValue or a BufferValue, not {}.",
                           value ? value.repr() : std::string("an empty value")));
  if (Recording* recording = Recording::current();
      recording && value.graph_state() == recording->graph().state())
    return recording->wrap(value);
  auto state = std::make_shared<TensorState>();
  // A weight joins the graph now.
  state->value = value.weight_state()
                     ? graph::Value(graph::Graph::current().state(), value.ir_value())
                     : value;
  return Tensor(std::move(state));
}

Tensor Tensor::full(const graph::Shape& shape, const Scalar& value, const TensorOptions& options) {
  const auto [dtype, device] = defaults(options);
  if (options.device) return full_like(TensorLayout(dtype, shape, *options.device), value);
  return full_like(graph::TensorType(dtype, shape, device), value);
}

Tensor Tensor::full_like(const TensorLayout& layout, const Scalar& value) {
  const DeviceMapping& mapping = layout.mapping();
  if (LayoutDevice(mapping).is_plain())
    return full_like(graph::TensorType(layout.dtype(), layout.shape(), layout.device()), value);
  std::vector<Tensor> shards;
  for (const graph::Type& type : layout.as_tensor().local_types())
    shards.push_back(full_like(type.tensor(), value));
  return from_shards(shards, mapping);
}

Tensor Tensor::full_like(const graph::TensorType& type, const Scalar& value) {
  const graph::Array element = graph::ops::literal_array(graph::ops::Literal(value), type.dtype);
  if (in_graph_context())
    return from_graph_value(graph::ops::broadcast_to(
        graph::ops::constant(element, {.device = type.device}), type.shape));
  return Tensor(filled(static_dims(type.shape, "Tensor.full"), element, type.device.to_device()));
}

Tensor Tensor::arange(const Scalar& start, const Scalar& stop, const Scalar& step,
                      const TensorOptions& options) {
  const auto [dtype, device] = defaults(options);
  return placed_as(options,
                   detail::lift(
                       "range",
                       [](const Scalar& a, const Scalar& b, const Scalar& c, DType of,
                          graph::DeviceRef on) { return graph::ops::range(a, b, c, of, on); },
                       start, stop, step, dtype, graph::DeviceRef(device)));
}

Tensor Tensor::range_like(const graph::TensorType& type) {
  if (type.rank() == 0)
    throw ValueError("Tensor.range_like needs a type with an axis to count along, got rank 0.");
  return detail::lift(
      "range_like",
      [](DType dtype, const graph::Shape& shape, graph::DeviceRef device) {
        const graph::Dim& last = shape[shape.rank() - 1];
        return graph::ops::broadcast_to(graph::ops::range(0, last, 1, dtype, device), shape);
      },
      type.dtype, type.shape, type.device);
}

Tensor Tensor::from_dim(const graph::Dim& dim) {
  if (in_graph_context()) return from_graph_value(graph::TensorValue(dim));
  if (!dim.is_static())
    throw ValueError(
        format("Tensor.from_dim({}): a symbolic dimension has no value in eager mode. Call it "
               "while a graph is built, where the size is known when it runs.",
               dim.to_string()));
  return Tensor(driver::Buffer::scalar(dim.value(), DType::int64));
}

// ---- what they are ----

graph::TensorType Tensor::type() const {
  const TensorState& self = *state();
  if (const detail::Placed* of = placed()) {
    if (of->shards.size() == 1) return Tensor(of->shards[0]).type();
    throw TypeError(
        format("A tensor that is distributed over {} has no single type; its layout says what it "
               "is.",
               of->mapping.to_string()));
  }
  if (!self.real()) {
    const graph::Type type = self.value.type();
    return type.is_buffer() ? type.buffer().as_tensor() : type.tensor();
  }
  graph::Shape dims;
  for (const std::int64_t extent : self.buffer.shape()) dims.push_back(extent);
  return graph::TensorType(self.buffer.dtype(), std::move(dims),
                           graph::DeviceRef(self.buffer.device()));
}

graph::Shape Tensor::shape() const {
  if (!placed()) return type().shape;
  graph::Shape shape = placed()->shape;
  if (graph::Shape::is_static(shape) || !real()) return shape;
  // A size that only running an op told; such axes are not split.
  const graph::Shape first = Tensor(placed()->shards[0]).shape();
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (!shape[axis].is_static()) shape[axis] = first[axis];
  return shape;
}
int Tensor::rank() const {
  if (placed()) return placed()->shape.rank();
  return real() ? state_->buffer.rank() : type().rank();
}
DType Tensor::dtype() const {
  if (placed()) return Tensor(placed()->shards[0]).dtype();
  return real() ? state_->buffer.dtype() : type().dtype;
}
driver::Device Tensor::device() const {
  if (is_distributed())
    throw ValueError(
        format("Cannot access single device on a distributed tensor spanning {} devices. Use "
               "tensor.mesh.devices instead.",
               num_shards()));
  if (placed()) return Tensor(placed()->shards[0]).device();
  return real() ? state_->buffer.device() : type().device.to_device();
}
TensorLayout Tensor::layout() const {
  if (placed()) return TensorLayout(dtype(), shape(), placed()->mapping);
  const graph::TensorType of = type();
  return TensorLayout(of.dtype, of.shape, LayoutDevice(device()));
}
std::int64_t Tensor::num_elements() const {
  if (!placed() && real()) return state_->buffer.num_elements();
  return graph::TensorType(dtype(), shape(), graph::DeviceRef::CPU()).num_elements();
}

bool Tensor::real() const { return state_->real(); }

void Tensor::realize(const char* what) const {
  const TensorState& self = *state();
  if (self.real()) return;
  std::vector<detail::StatePtr> waiting;
  for (const detail::StatePtr& part : detail::parts_of(state())) {
    if (part->real()) continue;
    if (!part->recording)
      throw TypeError(
          format("{}() asks for the value of a tensor of graph '{}', which has none while the "
                 "graph is built. Return the tensor from the graph and ask for it after a run.",
                 what, graph::Graph(part->value.graph_state()).name()));
    if (graph::is_of_region(part->recording->graph(), part->value))
      throw TypeError(
          format("{}() asks for the value of a tensor that a function of cond or while_loop "
                 "computes, which has none outside of a run. Return the tensor from the function "
                 "and ask for it afterwards.",
                 what));
    waiting.push_back(part);
  }
  while (!waiting.empty()) {
    const std::shared_ptr<Recording> recording = waiting[0]->recording;
    std::vector<detail::StatePtr> together;
    for (const detail::StatePtr& part : waiting)
      if (part->recording == recording) together.push_back(part);
    recording->realize(together, false);
    std::erase_if(waiting, [](const detail::StatePtr& part) { return part->real(); });
  }
}

const driver::Buffer& Tensor::driver_tensor() const {
  if (is_distributed())
    throw ValueError(
        format("Cannot access single buffer on a distributed tensor spanning {} devices. Use "
               "tensor.buffers instead.",
               num_shards()));
  if (!real()) throw TypeError("Can't get driver tensor for symbolic tensor");
  return placed() ? placed()->shards[0]->buffer : state_->buffer;
}

std::vector<driver::Buffer> Tensor::buffers() const {
  if (!real())
    throw TypeError(
        format("Can't get buffers for unrealized tensor {}. Realize it first.", to_string()));
  std::vector<driver::Buffer> all;
  for (const detail::StatePtr& part : detail::parts_of(state())) all.push_back(part->buffer);
  return all;
}

std::optional<std::string> Tensor::external_name() const {
  if (state()->external_name.empty()) return std::nullopt;
  return state_->external_name;
}

void Tensor::set_external_name(std::string name) const { state()->external_name = std::move(name); }

void Tensor::name_argument(std::string route) const {
  for (const detail::StatePtr& part : detail::parts_of(state())) part->argument = route;
}

std::vector<graph::Value> Tensor::graph_values() const {
  std::vector<graph::Value> values;
  for (const detail::StatePtr& part : detail::parts_of(state())) {
    if (part->real())
      throw TypeError(
          "The tensor is real: its elements are in memory, and it is no value of a graph.");
    values.push_back(part->value);
  }
  return values;
}

graph::TensorValue Tensor::tensorvalue() const {
  const TensorState& self = *state();
  if (DistributedCall* call = DistributedCall::current()) return call->input(state());
  if (self.placed) return whole_value().tensorvalue();
  Recording* recording = Recording::current();
  if (!self.real()) {
    const bool here =
        graph::Graph::has_current() && self.value.graph_state() == graph::Graph::current().state();
    if (here || !self.recording)
      return self.value.type().is_buffer() ? graph::ops::buffer_load(self.value)
                                           : self.value.tensor();
    realize();
  }
  if (!recording)
    return graph::held_constant(state(), [&] { return graph::ops::constant(self.buffer); });
  const graph::Value value = recording->input(state_.checked());
  return value.type().is_buffer() ? graph::ops::buffer_load(value) : value.tensor();
}

graph::BufferValue Tensor::buffervalue() const {
  TensorState& self = *state();
  if (self.placed) return whole_value().buffervalue();
  if (!self.real()) {
    const bool here =
        graph::Graph::has_current() && self.value.graph_state() == graph::Graph::current().state();
    if (!here && self.recording) realize();
  }
  if (self.real()) {
    if (Recording* recording = Recording::current()) return recording->buffer(state_.checked());
    throw TypeError(
        "A tensor whose elements are in memory cannot be written while a graph is built: the graph "
        "would hold a copy of it. Pass it to the function as an argument with a BufferLayout.");
  }
  if (!self.argument.empty())
    throw TypeError(format(
        "argument {} was staged as a tensor, which the function cannot write. Stage it with a "
        "BufferLayout instead of a TensorLayout.",
        self.argument));
  if (!self.value.type().is_buffer()) {
    const graph::BufferValue buffer =
        graph::ops::buffer_create(self.value.type().tensor().as_buffer());
    graph::ops::buffer_store(buffer, self.value);
    self.value = buffer;
  }
  return self.value.buffer();
}

// ---- values ----

Scalar Tensor::item() const {
  realize("item");
  const driver::Buffer& buffer = first_copy("item");
  if (buffer.num_elements() != 1)
    throw TypeError(format("item() needs a tensor with one element, but this one has shape {}.",
                           shape().repr()));
  return buffer.item();
}

Tensor::operator bool() const {
  realize("bool");
  if (num_elements() != 1)
    throw TypeError(
        format("The truth of a tensor with shape {} is not defined; only one of one "
               "element is true or false.",
               shape().repr()));
  return item().to<bool>();
}

Tensor Tensor::materialize() const {
  realize("materialize");
  if (placed() && placed()->shards.size() > 1) return to(LayoutDevice(driver::CPU()));
  const driver::Buffer& buffer = driver_tensor();
  return buffer.is_host() ? (placed() ? Tensor(placed()->shards[0]) : *this)
                          : Tensor(buffer.to(driver::CPU()));
}

// ---- methods ----

Tensor Tensor::T() const { return transpose(-2, -1); }
Tensor Tensor::sum(std::optional<int> axis) const { return functional::sum(*this, axis); }
Tensor Tensor::mean(std::optional<int> axis) const { return functional::mean(*this, axis); }
Tensor Tensor::prod(std::optional<int> axis) const { return functional::prod(*this, axis); }
Tensor Tensor::max(std::optional<int> axis) const { return functional::max(*this, axis); }
Tensor Tensor::min(std::optional<int> axis) const { return functional::min(*this, axis); }
Tensor Tensor::argmax(std::optional<int> axis) const { return functional::argmax(*this, axis); }
Tensor Tensor::cast(DType dtype) const { return functional::cast(*this, dtype); }
Tensor Tensor::reshape(const graph::Shape& shape) const {
  return functional::reshape(*this, shape);
}
Tensor Tensor::broadcast_to(const graph::Shape& shape) const {
  return functional::broadcast_to(*this, shape);
}
Tensor Tensor::permute(const std::vector<std::int64_t>& dims) const {
  return functional::permute(*this, dims);
}
Tensor Tensor::transpose(int dim_1, int dim_2) const {
  return functional::transpose(*this, dim_1, dim_2);
}
Tensor Tensor::squeeze(int axis) const { return functional::squeeze(*this, axis); }
Tensor Tensor::unsqueeze(int axis) const { return functional::unsqueeze(*this, axis); }

// ---- parts ----

Tensor::Region Tensor::operator[](std::initializer_list<graph::SliceIndex> indices) const {
  return Region(*this, std::vector<graph::SliceIndex>(indices));
}
Tensor::Region Tensor::operator[](std::vector<graph::SliceIndex> indices) const {
  return Region(*this, std::move(indices));
}

Tensor Tensor::Region::load() const {
  return detail::lift(
      "slice_tensor",
      [](const graph::TensorValueLike& x, const std::vector<graph::SliceIndex>& indices) {
        return graph::ops::slice_tensor(x, indices);
      },
      tensor_, indices_);
}

void Tensor::Region::store(const Tensor& source) const {
  if (tensor_.state()->placed || source.state()->placed)
    return detail::store_spread(tensor_, indices_, source);
  static const std::uint64_t id = detail::next_op_id();
  Call call("buffer_store_slice", id);
  detail::add_argument(call.arguments(), tensor_);
  detail::add_argument(call.arguments(), source);
  detail::add_argument(call.arguments(), indices_);
  if (const auto plan = call.plan(); plan && call.run(*plan)) return;
  call.record(true);
  // The source is read before the tensor becomes a buffer.
  const graph::TensorValue value = source.tensorvalue();
  graph::ops::buffer_store_slice(tensor_.buffervalue(), value, indices_);
  call.finish({});
}

// ---- operators ----

using Like = const TensorLike&;

Tensor operator-(const Tensor& x) { return functional::negate(x); }
Tensor operator~(const Tensor& x) { return functional::logical_not(x); }
Tensor operator+(Like lhs, Like rhs) { return functional::add(lhs, rhs); }
Tensor operator-(Like lhs, Like rhs) { return functional::sub(lhs, rhs); }
Tensor operator*(Like lhs, Like rhs) { return functional::mul(lhs, rhs); }
Tensor operator/(Like lhs, Like rhs) { return functional::div(lhs, rhs); }
Tensor operator%(Like lhs, Like rhs) { return functional::mod(lhs, rhs); }
Tensor operator==(Like lhs, Like rhs) { return functional::equal(lhs, rhs); }
Tensor operator!=(Like lhs, Like rhs) { return functional::not_equal(lhs, rhs); }
Tensor operator>(Like lhs, Like rhs) { return functional::greater(lhs, rhs); }
Tensor operator>=(Like lhs, Like rhs) { return functional::greater_equal(lhs, rhs); }
Tensor operator<(Like lhs, Like rhs) { return functional::greater(rhs, lhs); }
Tensor operator<=(Like lhs, Like rhs) { return functional::greater_equal(rhs, lhs); }
Tensor operator&(Like lhs, Like rhs) { return functional::logical_and(lhs, rhs); }
Tensor operator|(Like lhs, Like rhs) { return functional::logical_or(lhs, rhs); }
Tensor operator^(Like lhs, Like rhs) { return functional::logical_xor(lhs, rhs); }

LazyGuard::LazyGuard() : scope_(std::make_shared<Recording>("lazy", true)) {}

std::uint64_t detail::next_op_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace kiln::experimental
