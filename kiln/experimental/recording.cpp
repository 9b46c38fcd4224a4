#include "kiln/experimental/recording.h"

#include <mutex>

#include "kiln/driver/device.h"
#include "kiln/dtype/strided_copy.h"
#include "kiln/experimental/default_session.h"
#include "kiln/experimental/execution.h"
#include "kiln/graph/ir.h"
#include "kiln/graph/ops.h"
#include "kiln/graph/recorded_graph.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::experimental {
namespace {

using detail::StatePtr;
using graph::OpKind;

thread_local std::vector<Recording*> active;

graph::TensorType type_of(const driver::Buffer& buffer) {
  graph::Shape shape;
  for (const std::int64_t extent : buffer.shape()) shape.push_back(extent);
  return graph::TensorType(buffer.dtype(), std::move(shape), graph::DeviceRef(buffer.device()));
}

/// Whether the op treats a number that it is given and an element that it reads alike. A power is
/// left out: most exponents have code of their own.
bool takes_number_as_input(OpKind kind) {
  switch (kind) {
    case OpKind::add:
    case OpKind::sub:
    case OpKind::mul:
    case OpKind::div:
    case OpKind::mod:
    case OpKind::max:
    case OpKind::min:
    case OpKind::equal:
    case OpKind::not_equal:
    case OpKind::greater:
    case OpKind::greater_equal:
    case OpKind::where:
    case OpKind::reshape:
    case OpKind::random_uniform:
    case OpKind::random_normal:
      return true;
    default:
      return false;
  }
}

bool has_other_reader(const graph::ir::Block& block, const graph::ir::Value* value) {
  for (const auto& op : block.ops) {
    if (!takes_number_as_input(op->kind))
      for (const graph::ir::Value* operand : op->operands)
        if (operand == value) return true;
    for (const auto& region : op->regions)
      if (has_other_reader(*region, value)) return true;
  }
  return false;
}

std::mutex& readers_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

}  // namespace

const engine::InferenceSession& default_session() {
  static const auto* session = [] {
    std::vector<driver::Device> devices;
    for (int i = 0; i < driver::accelerator_count(); ++i)
      if (const driver::Device device = driver::Accelerator(i); device.is_compatible())
        devices.push_back(device);
    return new engine::InferenceSession(std::move(devices));
  }();
  return *session;
}

Recording* Recording::current() noexcept {
  if (active.empty() || !graph::Graph::has_current()) return nullptr;
  Recording* last = active.back();
  return graph::Graph::current() == last->graph_ ? last : nullptr;
}

bool in_graph_context() noexcept {
  return graph::Graph::has_current() && Recording::current() == nullptr;
}

Recording::Scope::Scope(std::shared_ptr<Recording> recording)
    : graph_(recording->graph_), recording_(std::move(recording)) {
  active.push_back(recording_.get());
}

Recording::Scope::~Scope() {
  const auto it = std::find(active.rbegin(), active.rend(), recording_.get());
  if (it != active.rend()) active.erase(std::next(it).base());
}

graph::Value Recording::input(const StatePtr& tensor) {
  const auto [it, fresh] = known_.try_emplace(tensor.get(), sources_.size());
  if (!fresh) return sources_[it->second].value;
  try {
    const graph::Value value = graph::append_input(graph_, type_of(tensor->buffer));
    sources_.push_back({.value = value, .tensor = tensor, .buffer = tensor->buffer});
  } catch (...) {
    known_.erase(it);
    throw;
  }
  if (delayed_) read(*tensor);
  return sources_.back().value;
}

void Recording::read(detail::TensorState& tensor) {
  const std::lock_guard lock(readers_mutex());
  std::erase_if(tensor.readers, [](const auto& reader) { return reader.expired(); });
  tensor.readers.push_back(weak_from_this());
}

bool Recording::delay() {
  for (const auto& op : graph_.ir().body->ops)
    for (const auto& result : op->results)
      if (result->type.is_chain() && op->kind != OpKind::chain_create) return false;
  delayed_ = true;
  for (const Source& source : sources_)
    if (source.tensor) read(*source.tensor);
  return true;
}

graph::BufferValue Recording::buffer(const StatePtr& tensor) {
  detail::keep_for_readers(*tensor, this);
  const graph::Value value = input(tensor);
  return value.type().is_buffer() ? value.buffer() : graph::make_writable(graph_, value);
}

void detail::keep_for_readers(TensorState& tensor, const Recording* writer) {
  std::vector<std::weak_ptr<Recording>> readers;
  {
    const std::lock_guard lock(readers_mutex());
    if (tensor.readers.empty()) return;
    readers.swap(tensor.readers);
  }
  for (const auto& reader : readers)
    if (const auto other = reader.lock(); other && other.get() != writer)
      other->keep_contents(tensor);
}

graph::TensorValue Recording::number(const Scalar& number, std::size_t argument, DType dtype,
                                     graph::DeviceRef device) {
  const graph::Value value = graph::append_input(graph_, graph::TensorType(dtype, {}, device));
  sources_.push_back({.value = value, .number = number, .dtype = dtype, .argument = argument});
  return value.tensor();
}

void Recording::keep_contents(const detail::TensorState& tensor) {
  const auto it = known_.find(&tensor);
  if (it == known_.end()) return;
  Source& source = sources_[it->second];
  if (source.buffer == tensor.buffer) source.buffer = tensor.buffer.copy();
  known_.erase(it);  // a later use of the tensor is another input
}

Tensor Recording::wrap(const graph::Value& value) {
  const graph::ir::Value* ir = value.ir_value();
  if (!ir->producer && ir->block == graph_.ir().body.get()) {
    const Source& source = sources_[ir->index];
    if (source.tensor && source.buffer == source.tensor->buffer) return Tensor(source.tensor);
  }
  return wrap_own(value);
}

Tensor Recording::wrap_own(const graph::Value& value) {
  auto state = std::make_shared<detail::TensorState>();
  state->value = value;
  state->recording = shared_from_this();
  return Tensor(std::move(state));
}

void Recording::bake_numbers() {
  for (Source& source : sources_) {
    if (source.tensor || source.baked) continue;
    if (!has_other_reader(*graph_.ir().body, source.value.ir_value())) continue;
    const driver::Buffer data = driver::Buffer::scalar(source.number, source.dtype);
    graph::bake_input(graph_, source.value, data.data(), data.byte_size());
    source.baked = true;
  }
}

namespace {

/// The memory that a program works on, and where results in it go afterwards.
class Inputs {
 public:
  void add(const driver::Buffer& buffer, bool is_written) {
    is_written_.push_back(is_written);
    if (buffer.is_contiguous()) {
      buffers_.push_back(buffer);
      return;
    }
    if (is_written && !buffer.is_host())
      throw ValueError(format(
          "A tensor on {} of shape {} and strides {} cannot be written: its elements do not "
          "lie side by side. Write a contiguous() copy.",
          buffer.device().to_string(), buffer.shape().to_string(), buffer.strides().to_string()));
    buffers_.push_back(buffer.copy());
    if (is_written) written_.emplace_back(buffer, buffers_.back());
  }
  const std::vector<driver::Buffer>& buffers() {
    separate(buffers_, [&](std::size_t i) { return is_written_[i]; });
    return buffers_;
  }
  void write_back() const {
    for (const auto& [buffer, copy] : written_) {
      buffer.wait_for_host_write();
      copy_elements(buffer.dtype(), buffer.shape(),
                    {buffer.data(), buffer.starts_in_half_byte() ? 1 : 0, buffer.strides()},
                    {copy.data(), 0, copy.strides()});
      buffer.record_finished_write();
    }
  }

 private:
  std::vector<driver::Buffer> buffers_;
  std::vector<bool> is_written_;
  std::vector<std::pair<driver::Buffer, driver::Buffer>> written_;
};

}  // namespace

Recording::Run Recording::realize(std::span<const StatePtr> results, bool effects) {
  std::vector<graph::Value> values;
  std::vector<StatePtr> pending;
  for (const StatePtr& result : results) {
    if (result->real()) continue;
    pending.push_back(result);
    values.push_back(result->value);
    if (!result->value.type().is_buffer()) continue;
    const Scope scope(shared_from_this());
    values.back() = graph::ops::buffer_load(result->value);
  }
  bake_numbers();
  graph::GraphPart part = graph::extract(graph_, values, effects);
  Run run;
  // Without results and side effects only the terminator is there.
  if (part.module->graphs[0]->body->ops.size() == 1 && pending.empty()) return run;
  run.inputs = std::move(part.inputs);
  Inputs inputs;
  for (const std::size_t i : run.inputs) {
    const Source& source = sources_[i];
    inputs.add(source.tensor ? source.buffer : driver::Buffer::scalar(source.number, source.dtype),
               source.value.type().is_buffer());
  }
  detail::Execution execution = detail::run_recorded(*part.module, inputs.buffers(), !delayed_);
  engine::Model::Outputs& outputs = execution.outputs;
  run.model = std::move(execution.model);
  run.interpreted = !run.model;
  inputs.write_back();
  for (std::size_t i = 0; i < pending.size(); ++i) {
    pending[i]->buffer = outputs[i];
    pending[i]->value = {};
    pending[i]->recording = nullptr;
  }
  return run;
}

}  // namespace kiln::experimental
