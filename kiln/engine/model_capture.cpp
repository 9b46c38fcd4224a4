// Recorded executions. A replay calls the program on memory that is all there, with inputs that
// were checked and sizes that were solved when it was captured.

#include "kiln/engine/model_state.h"
#include "kiln/support/format.h"
#include "kiln/support/trace.h"

namespace kiln::engine {

using driver::Buffer;

std::uint64_t ModelState::one_key(std::span<const std::uint64_t> keys, const char* call,
                                  std::span<const Buffer> buffers) const {
  if (buffers.empty()) throw ValueError(format("Model.{} requires input buffers.", call));
  if (keys.empty()) throw ValueError("graph_keys must not be empty.");
  if (keys.size() > 1)
    throw ValueError(
        format("graph_keys holds {} keys, but the model runs on one device.", keys.size()));
  return keys[0];
}

std::shared_ptr<Capture> ModelState::captured(std::uint64_t key) {
  const std::lock_guard lock(captures_mutex_);
  const auto it = captures_.find(key);
  if (it == captures_.end())
    throw RuntimeError(format("No captured graph under key {}. Capture it first.", key));
  return it->second;
}

void ModelState::use_present_weights(Capture& capture) {
  Workspace& workspace = capture.workspace;
  if (workspace.weights != nullptr &&
      workspace.generation == generation_.load(std::memory_order_acquire)) [[likely]]
    return;
  std::shared_ptr<const WeightSet> old;  // dropped without the lock
  const std::lock_guard lock(mutex_);
  old = std::exchange(workspace.weights, weights_);
  workspace.generation = generation_.load(std::memory_order_relaxed);
  capture.call.weights = workspace.weights->data.data();
  capture.call.prepared = workspace.weights->prepared.memory.data();
}

/// Executes on inputs that are bound to the capture's workspace, and keeps its choices.
void ModelState::run_traced(std::span<const Buffer> buffers, Capture& capture) {
  capture.workspace.symbols.resize(graph->symbols.size());
  capture.workspace.inputs.resize(inputs.size());
  use_present_weights(capture);
  if (!bind_inputs(buffers, true, capture.workspace)) explain(buffers);
  std::unique_lock<std::mutex> serial;
  if (writes_inputs) {
    check_shared_memory(buffers);
    serial = std::unique_lock(serial_);
  }
  driver::SharedEntry entry(*queue.backend(), buffers);
  begin(buffers, true, entry);
  capture.outputs = Model::Outputs(graph->outputs.size());
  prepare(capture.workspace, capture.outputs, capture.call);
  capture.call.traced = 1;
  capture.call.choices = &capture.choices;
  run(&capture.call);
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (inputs[i].is_written) buffers[i].record_finished_write();
}

const Model::Outputs& ModelState::capture(std::span<const std::uint64_t> keys,
                                          std::span<const Buffer> buffers) {
  const std::uint64_t key = one_key(keys, "capture", buffers);
  check_executable(buffers.size());
  if (!graph->sized_by_data.empty())
    throw RuntimeError(
        format("The model '{}' cannot be captured: the size of what its op '{}' makes depends on "
               "data.",
               graph->name, graph->sized_by_data));
  auto capture = std::make_shared<Capture>();
  {
    const std::lock_guard lock(captures_mutex_);
    if (captures_.count(key) != 0)
      throw RuntimeError(format(
          "Graph keys already captured: {}. Release them with release_captured_graph first.", key));
  }
  run_traced(buffers, *capture);
  capture->call.runtime = &runtime::replay_table();
  capture->call.traced = 0;
  capture->touched.assign(buffers.begin(), buffers.end());
  capture->num_inputs = buffers.size();
  capture->touched.insert(capture->touched.end(), capture->outputs.begin(), capture->outputs.end());
  const std::lock_guard lock(captures_mutex_);
  const auto [it, fresh] = captures_.emplace(key, std::move(capture));
  if (!fresh)
    throw RuntimeError(
        format("Graph keys already captured: {}. Another thread captured it meanwhile.", key));
  return it->second->outputs;
}

void ModelState::check_same_memory(std::uint64_t key, const Capture& capture,
                                   std::span<const Buffer> buffers) const {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& given = buffers[i];
    const Buffer& own = capture.touched[i];
    if (given == own) [[likely]]
      continue;
    const char* difference = nullptr;
    if (!given)
      difference = "it is empty";
    else if (given.dtype() != own.dtype())
      difference = "its dtype is another one";
    else if (given.shape() != own.shape())
      difference = "its shape is another one";
    else if (given.data() != own.data() || given.strides() != own.strides() ||
             given.device() != own.device())
      difference = "it lies elsewhere";
    if (difference)
      throw RuntimeError(format(
          "Unsafe graph key reuse: input {} is not the buffer that key {} was captured with, "
          "for {}. Copy its elements into the captured buffer, or capture it under another "
          "key.",
          i, key, difference));
  }
}

bool ModelState::replay(std::span<const std::uint64_t> keys, std::span<const Buffer> buffers,
                        bool may_wait) {
  const std::uint64_t key = one_key(keys, "replay", buffers);
  check_executable(buffers.size());
  const std::shared_ptr<Capture> capture = captured(key);
  check_same_memory(key, *capture, buffers);
  const TraceSpan span(graph->name.c_str(), "replay");
  std::unique_lock running(capture->running, std::try_to_lock);
  if (!running.owns_lock()) {
    if (!may_wait) return false;
    running.lock();
  }
  std::unique_lock<std::mutex> serial;
  if (writes_inputs) [[unlikely]] {
    if (!may_wait) return false;
    serial = std::unique_lock(serial_);
  }
  use_present_weights(*capture);
  driver::SharedEntry entry(*queue.backend(), capture->touched);
  if (!begin(capture->touched, may_wait, entry)) return false;
  // Misaligned inputs were copied; their present contents count.
  if (!capture->workspace.copies.empty()) [[unlikely]] {
    auto copy = capture->workspace.copies.begin();
    for (std::size_t i = 0; i < buffers.size(); ++i)
      if (capture->workspace.inputs[i] != buffers[i].data()) {
        std::memcpy(copy->data(), buffers[i].data(), copy->byte_size());
        ++copy;
      }
  }
  capture->workspace.arena.reset();
  run(&capture->call);
  for (std::size_t i = 0; i < capture->touched.size(); ++i)
    if (writes(i)) capture->touched[i].record_finished_write();
  return true;
}

void ModelState::verify_replay(std::span<const std::uint64_t> keys,
                               std::span<const Buffer> buffers) {
  const std::uint64_t key = one_key(keys, "debug_verify_replay", buffers);
  check_executable(buffers.size());
  const std::shared_ptr<Capture> capture = captured(key);
  Capture now;
  run_traced(buffers, now);
  const auto differ = [&](const std::string& launch, const std::string& how) {
    throw RuntimeError(
        format("The launches of '{}' differ from those captured under key {}, first at '{}': {}.",
               graph->name, key, launch, how));
  };
  const std::vector<std::string> kernels = artifact->kernel_summaries(graph->name);
  for (std::size_t i = 0; i < now.workspace.symbols.size(); ++i)
    if (now.workspace.symbols[i] != capture->workspace.symbols[i])
      differ(kernels.empty() ? graph->name : kernels[0],
             format("'{}' was {} and is {}", graph->symbols[i], capture->workspace.symbols[i],
                    now.workspace.symbols[i]));
  const auto& before = capture->choices.launches;
  const auto& after = now.choices.launches;
  for (std::size_t i = 0; i < std::max(before.size(), after.size()); ++i) {
    const std::string was = i < before.size() ? before[i] : "nothing";
    const std::string is = i < after.size() ? after[i] : "nothing";
    if (was != is) differ(is, format("decision {} led to '{}' before", i, was));
  }
}

void ModelState::release(std::span<const std::uint64_t> keys) {
  if (keys.empty()) throw ValueError("graph_keys must not be empty.");
  std::vector<std::shared_ptr<Capture>> dropped;  // without the lock
  const std::lock_guard lock(captures_mutex_);
  for (const std::uint64_t key : keys)
    if (const auto it = captures_.find(key); it != captures_.end()) {
      dropped.push_back(std::move(it->second));
      captures_.erase(it);
    }
}

}  // namespace kiln::engine
