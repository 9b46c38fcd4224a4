#include "kiln/engine/model_state.h"

#include "kiln/driver/order_checker.h"
#include "kiln/support/format.h"
#include "kiln/support/process.h"
#include "kiln/support/trace.h"

namespace kiln::engine {

using driver::Buffer;

namespace {

/// "[(6, 2), f32]" of what was passed.
std::string type_of(const Buffer& buffer) { return type_text(buffer.dtype(), buffer.shape()); }

/// "[(batch, 2), f32]" of what the graph takes.
std::string type_of(const runtime::TensorSignature& input) {
  std::vector<std::string> dims;
  for (const graph::Dim& dim : input.shape) dims.push_back(dim.to_string());
  return format("[({}), {}]", join(dims, ", "), input.dtype.text_name());
}

bool is_aligned(const void* data, std::uintptr_t alignment) {
  return (reinterpret_cast<std::uintptr_t>(data) & (alignment - 1)) == 0;
}

template <typename Entry>
Entry entry_of(const runtime::Image& image, const runtime::Artifact& artifact,
               const std::string& symbol) {
  void* address = image.symbol(symbol);
  if (address == nullptr)
    throw RuntimeError(
        format("'{}' is corrupted: its code has no entry '{}'", artifact.name(), symbol));
  return reinterpret_cast<Entry>(address);
}

}  // namespace

ModelState::ModelState(std::shared_ptr<const runtime::Artifact> made, std::size_t graph_index)
    : artifact(std::move(made)),
      graph(&artifact->header().graphs.at(graph_index)),
      metadata(metadata_of(*graph)) {
  std::vector<bool> defined(graph->symbols.size(), false);
  for (const runtime::TensorSignature& input : graph->inputs) {
    inputs.push_back({.device = input.device.is_cpu() ? driver::CPU().backend() : nullptr,
                      .dtype = input.dtype,
                      .is_buffer = input.is_buffer,
                      .is_written = input.is_written,
                      .alignment = static_cast<std::uint8_t>(input.dtype.align()),
                      .rank = static_cast<std::uint8_t>(input.shape.size()),
                      .first_dim = static_cast<std::uint32_t>(dims.size())});
    writes_inputs = writes_inputs || input.is_written;
    for (const graph::Dim& dim : input.shape) {
      if (dim.is_static()) {
        dims.push_back({.extent = dim.value()});
        continue;
      }
      const auto symbol = static_cast<std::size_t>(
          std::find(graph->symbols.begin(), graph->symbols.end(), dim.name()) -
          graph->symbols.begin());
      dims.push_back({.symbol = static_cast<std::int32_t>(symbol), .defines = !defined[symbol]});
      defined[symbol] = true;
    }
  }
}

ModelState::~ModelState() { delete spare_.load(); }

void ModelState::attach(std::shared_ptr<const runtime::Image> code) {
  run = entry_of<KilnEntry>(*code, *artifact, graph->run_symbol);
  if (!graph->init_symbol.empty()) init = entry_of<KilnEntry>(*code, *artifact, graph->init_symbol);
  const auto data = artifact->section("constants");
  constants = data.empty() ? nullptr : reinterpret_cast<const char*>(data.data());
  image = std::move(code);
}

// ---- weights -----------------------------------------------------------------------------------

void ModelState::load(const WeightsRegistry& registry) {
  if (image == nullptr) return;
  const std::vector<Buffer> bound = bind_weights(*artifact, registry);
  auto set = std::make_shared<WeightSet>(graph->prepared_slots);
  for (std::uint32_t index : graph->weights) {
    const runtime::WeightSignature& weight = artifact->header().weights[index];
    const auto alignment = static_cast<std::uintptr_t>(weight.alignment);
    if (!bound[index]) {
      // Carried weights lie aligned in the artifact, which the model keeps.
      set->data.push_back(artifact->carried_weight(index)->data());
      continue;
    }
    Buffer buffer = bound[index];
    buffer.wait_for_host_read();
    if (!is_aligned(buffer.data(), alignment)) {
      // New buffers start at multiples of 64; a weight that wants more gets room to move.
      if (alignment <= 64) {
        buffer = buffer.copy(driver::CPU());
      } else {
        const std::size_t bytes = buffer.byte_size();
        Buffer room(DType::uint8, {static_cast<std::int64_t>(bytes + alignment)});
        auto* start = static_cast<std::byte*>(room.data());
        start += (alignment - reinterpret_cast<std::uintptr_t>(start) % alignment) % alignment;
        std::memcpy(start, buffer.data(), bytes);
        set->owned.push_back(room);
        set->data.push_back(start);
        continue;
      }
    }
    set->data.push_back(buffer.data());
    set->owned.push_back(std::move(buffer));
  }
  if (init != nullptr) {
    runtime::Arena arena;
    runtime::Call call;
    static_cast<KilnCall&>(call) = {.runtime = &runtime::runtime_table(),
                                    .inputs = nullptr,
                                    .symbols = nullptr,
                                    .weights = set->data.data(),
                                    .constants = constants,
                                    .prepared = set->prepared.memory.data(),
                                    .num_threads = num_threads};
    call.artifact = artifact.get();
    call.graph = graph;
    call.print_settings = print_settings.get();
    call.arena = &arena;
    call.prepared_by = &set->prepared;
    init(&call);
  }
  // The old weights go without the lock: to drop one may run code that waits for a call.
  std::vector<std::unique_ptr<Workspace>> idle;  // they hold them, too
  std::unique_ptr<Workspace> spare;
  std::shared_ptr<const WeightSet> weights = std::move(set);
  const std::lock_guard lock(mutex_);
  weights_.swap(weights);
  generation_.fetch_add(1, std::memory_order_release);
  idle.swap(more_);
  spare.reset(spare_.exchange(nullptr));
}

// ---- workspaces --------------------------------------------------------------------------------

std::unique_ptr<Workspace> ModelState::take_workspace() {
  std::unique_ptr<Workspace> workspace(spare_.exchange(nullptr, std::memory_order_acquire));
  if (workspace != nullptr && workspace->generation == generation_.load(std::memory_order_acquire))
      [[likely]]
    return workspace;
  std::shared_ptr<const WeightSet> old;  // dropped without the lock
  const std::lock_guard lock(mutex_);
  if (workspace == nullptr && !more_.empty()) {
    workspace = std::move(more_.back());
    more_.pop_back();
  }
  if (workspace == nullptr) {
    workspace = std::make_unique<Workspace>();
    workspace->symbols.resize(graph->symbols.size());
    workspace->inputs.resize(inputs.size());
  }
  old = std::exchange(workspace->weights, weights_);
  workspace->generation = generation_.load(std::memory_order_relaxed);
  return workspace;
}

void ModelState::give_back(std::unique_ptr<Workspace> workspace) noexcept {
  workspace->arena.reset();
  if (!workspace->copies.empty()) workspace->copies.clear();
  if (workspace->generation != generation_.load(std::memory_order_acquire)) return;
  Workspace* expected = nullptr;
  if (spare_.compare_exchange_strong(expected, workspace.get(), std::memory_order_release,
                                     std::memory_order_relaxed)) {
    (void)workspace.release();
    return;
  }
  const std::lock_guard lock(mutex_);
  more_.push_back(std::move(workspace));
}

/// A workspace for the length of a call.
class ModelState::Lease {
 public:
  explicit Lease(ModelState& model) : model_(model), workspace_(model.take_workspace()) {}
  ~Lease() { model_.give_back(std::move(workspace_)); }
  Lease(const Lease&) = delete;
  Workspace* operator->() const { return workspace_.get(); }
  Workspace& operator*() const { return *workspace_; }

 private:
  ModelState& model_;
  std::unique_ptr<Workspace> workspace_;
};

// ---- calls -------------------------------------------------------------------------------------

/// Checks the inputs and fills in their addresses and the symbols; false when a check fails.
bool ModelState::bind_inputs(std::span<const Buffer> buffers, bool may_wait, Workspace& workspace) {
  const DimCheck* dim = dims.data();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    const InputCheck& check = inputs[i];
    if (!buffer) return false;
    if (!buffer.is_contiguous()) return false;
    if (buffer.dtype() != check.dtype) return false;
    const Shape& shape = buffer.shape();
    if (shape.size() != check.rank) return false;
    if (buffer.device().backend() != check.device && !(check.device != nullptr && buffer.pinned()))
      return false;
    const std::int64_t* extents = shape.data();
    for (std::size_t axis = 0; axis < check.rank; ++axis, ++dim) {
      const std::int64_t extent = extents[axis];
      if (dim->symbol < 0) {
        if (extent != dim->extent) return false;
      } else if (dim->defines) {
        workspace.symbols[static_cast<std::size_t>(dim->symbol)] = extent;
      } else if (workspace.symbols[static_cast<std::size_t>(dim->symbol)] != extent) {
        return false;
      }
    }
    workspace.inputs[i] = buffer.data();
    if (!is_aligned(buffer.data(), check.alignment)) [[unlikely]] {
      if (check.is_buffer)
        throw ValueError(format(
            "input {} is a buffer that the graph may write; it needs writable, aligned memory", i));
      if (!may_wait) return false;  // for room in a full queue
      workspace.copies.push_back(buffer.copy(driver::CPU()));
      workspace.inputs[i] = workspace.copies.back().data();
    }
  }
  return true;
}

/// Throws the error of the first check that fails, in the order of the checks.
void ModelState::explain(std::span<const Buffer> buffers) const {
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (!buffers[i])
      throw ValueError(format("input {} is an empty buffer handle; make a buffer first", i));
  for (const Buffer& buffer : buffers)
    if (!buffer.is_contiguous())
      throw ValueError(
          "kiln does not currently support executing non-contiguous tensors. Before passing these "
          "tensors, make a contiguous copy of them using .contiguous().");
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].device().backend() != inputs[i].device && !buffers[i].pinned())
      throw TypeError(
          format("expected argument {} to be on device Device(type={},id={}), but was on "
                 "device {}",
                 i, graph->inputs[i].device.is_cpu() ? "cpu" : "gpu", graph->inputs[i].device.id,
                 buffers[i].device().to_string()));
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const auto& shape = graph->inputs[i].shape;
    bool fits = buffers[i].dtype() == inputs[i].dtype && buffers[i].shape().size() == shape.size();
    for (std::size_t axis = 0; fits && axis < shape.size(); ++axis)
      fits = !shape[axis].is_static() || shape[axis].value() == buffers[i].shape()[axis];
    if (!fits)
      throw ValueError(
          format("Input at position {}: Buffer of type {} does not match expected type {}", i,
                 type_of(buffers[i]), type_of(graph->inputs[i])));
  }
  std::map<std::string_view, std::int64_t> solved;
  for (std::size_t i = 0; i < buffers.size(); ++i)
    for (std::size_t axis = 0; axis < graph->inputs[i].shape.size(); ++axis) {
      const graph::Dim& dim = graph->inputs[i].shape[axis];
      if (dim.is_static()) continue;
      const std::int64_t extent = buffers[i].shape()[axis];
      if (solved.emplace(dim.name(), extent).first->second != extent)
        throw ValueError(format(
            "symbolic dimension '{}' for input {} does not match prior uses of that dimension",
            dim.name(), i));
    }
  throw_internal_error("inputs fit", __FILE__, __LINE__, "a check of inputs failed without reason");
}

void ModelState::check_shared_memory(std::span<const Buffer> buffers) const {
  for (std::size_t i = 0; i < buffers.size(); ++i)
    for (std::size_t j = i + 1; j < buffers.size(); ++j) {
      if (!inputs[i].is_written && !inputs[j].is_written) continue;
      const auto* a = static_cast<const std::byte*>(buffers[i].data());
      const auto* b = static_cast<const std::byte*>(buffers[j].data());
      if (a < b + buffers[j].byte_size() && b < a + buffers[i].byte_size())
        throw ValueError(format("inputs {} and {} share memory that the graph writes", i, j));
    }
}

/// Enters the call's queues once nothing is pending that it must come after.
bool ModelState::begin(std::span<const Buffer> buffers, bool may_wait, driver::SharedEntry& entry) {
  check_call("Model.execute");
  const auto ready = [&] {
    for (std::size_t i = 0; i < buffers.size(); ++i)
      if (!entry.is_free(buffers[i], writes(i))) return false;
    return true;
  };
  // Looked at only after the entry: whatever comes later sees it and waits. Uses are waited for
  // without the entry, so that no two threads wait for each other.
  if (!driver::order_checker::enabled() && entry.try_enter()) [[likely]] {
    if (ready()) [[likely]]
      return true;
    entry.leave();
  }
  if (!may_wait) return false;
  const TraceSpan span("Model.execute", "wait");
  const auto wait = [&] {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      if (writes(i))
        buffers[i].wait_for_host_write();
      else
        buffers[i].wait_for_host_read();
    }
  };
  if (driver::order_checker::enabled()) {  // which learns from the waits
    queue.wait_for_present_work("Model.execute");
    wait();
  }
  // Places on the queues of the inputs wait for more than the inputs need: a last resort.
  constexpr int kRounds = 3;
  for (int round = 0;; ++round) {
    if (!entry.enter_in_turn(round >= kRounds))
      queue.wait_for_present_work("Model.execute");  // throws what the queue failed with
    else if (ready())
      return true;
    else
      entry.leave();
    wait();
  }
}

void ModelState::check_executable(std::size_t num_inputs) const {
  if (run == nullptr) [[unlikely]]
    throw RuntimeError(
        format("The model '{}' is a placeholder for hardware that is not there, so it "
               "cannot be executed.",
               graph->name));
  if (num_inputs != inputs.size()) [[unlikely]]
    throw ValueError(format("Number of inputs ({}) does not match expected number ({}) for model",
                            num_inputs, inputs.size()));
}

void ModelState::prepare(Workspace& workspace, Model::Outputs& outputs, runtime::Call& call) const {
  call.runtime = &runtime::runtime_table();
  call.inputs = workspace.inputs.data();
  call.symbols = workspace.symbols.data();
  call.weights = workspace.weights->data.data();
  call.constants = constants;
  call.prepared = workspace.weights->prepared.memory.data();
  call.num_threads = num_threads;
  call.traced = 0;
  call.artifact = artifact.get();
  call.graph = graph;
  call.print_settings = print_settings.get();
  call.arena = &workspace.arena;
  call.outputs = &outputs;
}

bool ModelState::execute(std::span<const Buffer> buffers, bool may_wait, Model::Outputs& outputs) {
  check_executable(buffers.size());
  const Lease workspace(*this);
  if (!bind_inputs(buffers, may_wait, *workspace)) [[unlikely]] {
    if (!may_wait) return false;
    explain(buffers);
  }
  const TraceSpan span(graph->name.c_str(), "model");
  std::unique_lock<std::mutex> serial;
  if (writes_inputs) [[unlikely]] {
    if (!may_wait) return false;
    check_shared_memory(buffers);
    serial = std::unique_lock(serial_);
  }

  driver::SharedEntry entry(*queue.backend(), buffers);
  if (!begin(buffers, may_wait, entry)) return false;
  outputs = Model::Outputs(graph->outputs.size());
  runtime::Call call;
  prepare(*workspace, outputs, call);
  run(&call);
  if (writes_inputs) [[unlikely]]
    for (std::size_t i = 0; i < buffers.size(); ++i)
      if (inputs[i].is_written) buffers[i].record_finished_write();
  return true;
}

}  // namespace kiln::engine
