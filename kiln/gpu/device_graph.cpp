#include "kiln/gpu/device_graph.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kiln/driver/cuda/completion.h"
#include "kiln/driver/cuda/device.h"
#include "kiln/gpu/device_info.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/process.h"

namespace kiln::gpu {

namespace cuda = driver::cuda;
using driver::Work;

std::string DeviceGraphNode::to_string() const { return format("DeviceGraphNode(id={})", id_); }

namespace detail {

struct GraphState {
  struct Use {
    driver::Buffer buffer;
    bool write;
  };

  cuda::CudaDevice* device = nullptr;  // null: the host
  cuda::NativeGraph graph = nullptr;
  cuda::NativeGraphExec exec = nullptr;
  /// Of the host; each depends on earlier ones alone, so their order is one that fits.
  std::vector<std::function<void()>> tasks;
  std::vector<Use> uses;
  std::vector<std::shared_ptr<const void>> kept;

  ~GraphState() {
    if (device == nullptr) return;
    cuda::after_present_work([device = device, graph = graph, exec = exec] {
      if (cuda::library().context_push(device->context()) != cuda::kSuccess) return;
      if (exec != nullptr) cuda::library().graph_exec_destroy(exec);
      if (graph != nullptr) cuda::library().graph_destroy(graph);
      cuda::Context ignored = nullptr;
      cuda::library().context_pop(&ignored);
    });
  }
};

namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

GraphBuild::GraphBuild(const DeviceContext& context)
    : context_(context), id_(next_id()), state_(std::make_shared<GraphState>()) {
  check_call("DeviceGraph.create");
  (void)context.queue();
  state_->device = dynamic_cast<cuda::CudaDevice*>(context.device().backend());
  if (state_->device == nullptr) return;
  const cuda::ContextScope scope(state_->device->context());
  cuda::check(cuda::library().graph_create(&state_->graph, 0), "cuGraphCreate",
              state_->device->id());
}

GraphBuild::~GraphBuild() = default;

std::vector<std::size_t> GraphBuild::resolve(const NodeOptions& options) const {
  std::vector<std::size_t> result;
  for (const DeviceGraphNode& node : options.dependencies) {
    if (node.graph_ != id_) throw ValueError("node belongs to another graph");
    result.push_back(node.id_);
  }
  for (const std::vector<std::size_t>& region : regions_)
    result.insert(result.end(), region.begin(), region.end());
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

std::vector<void*> GraphBuild::natives_of(const std::vector<std::size_t>& dependencies) const {
  std::vector<void*> result;
  for (std::size_t id : dependencies) result.push_back(natives_[id]);
  return result;
}

DeviceGraphNode GraphBuild::add(std::function<void()> task, void* native) {
  natives_.push_back(native);
  if (state_->device == nullptr) state_->tasks.push_back(std::move(task));
  return last();
}

DeviceGraphNode GraphBuild::last() const { return DeviceGraphNode(id_, natives_.size() - 1); }

void GraphBuild::keep(const driver::Buffer& buffer, bool write) {
  state_->uses.push_back({buffer, write});
}

void add_launch(const LaunchTarget& target, const Launch& launch, std::int64_t shared_bytes) {
  target.graph->add_launch(launch, shared_bytes, *target.dependencies->options);
}

DeviceGraphNode GraphBuild::add_launch(const Launch& launch, std::int64_t shared_bytes,
                                       const NodeOptions& options) {
  if (launch.function.device != context_.device())
    throw ValueError(format("function '{}' was compiled for {}, not {}", launch.function.name,
                            device_name(launch.function.device), device_name(context_.device())));
  const std::vector<std::size_t> dependencies = resolve(options);
  if (!launch.config.constant_memory.empty())
    throw NotImplementedError(
        format("{}: constant_memory is not available in graphs.", launch.call));
  void* native = nullptr;
  std::function<void()> task;
  if (state_->device == nullptr) {
    task = host_task(launch, shared_bytes);
  } else {
    cuda::KernelNodeParams params;
    params.function = static_cast<cuda::NativeFunction>(launch.function.native);
    for (int i = 0; i < 3; ++i) {
      params.grid[i] = static_cast<unsigned>(launch.config.grid_dim[i]);
      params.block[i] = static_cast<unsigned>(launch.config.block_dim[i]);
    }
    params.shared_bytes = static_cast<unsigned>(shared_bytes);
    params.arguments = const_cast<void**>(launch.arguments);
    const std::vector<void*> natives = natives_of(dependencies);
    const cuda::ContextScope scope(state_->device->context());
    cuda::NativeGraphNode node = nullptr;
    cuda::check(
        cuda::library().graph_add_kernel(
            &node, state_->graph, reinterpret_cast<const cuda::NativeGraphNode*>(natives.data()),
            natives.size(), &params),
        "cuGraphAddKernelNode", state_->device->id());
    std::vector<LaunchAttribute> attributes = launch.config.attributes;
    if (launch.config.cluster_dim && *launch.config.cluster_dim != Dim(1))
      attributes.push_back(LaunchAttribute::from_cluster_dim(*launch.config.cluster_dim));
    for (const LaunchAttribute& attribute : attributes) {
      if (attribute.id == LaunchAttribute::IGNORE) continue;
      if (cuda::library().graph_set_kernel_attribute == nullptr)
        throw NotImplementedError(
            format("{}: the driver has no launch attributes in graphs; {} was "
                   "asked for.",
                   launch.call, gpu::to_string(attribute.id)));
      cuda::check(
          cuda::library().graph_set_kernel_attribute(node, attribute.id, attribute.value.bytes),
          "cuGraphKernelNodeSetAttribute", state_->device->id());
    }
    native = node;
  }
  for (const BufferUse& use : launch.uses) keep(*use.buffer, use.write);
  if (launch.function.code) state_->kept.push_back(launch.function.code);
  if (launch.keep) state_->kept.push_back(launch.keep);
  return add(std::move(task), native);
}

DeviceGraphNode GraphBuild::add_copy(const driver::Buffer& to, const driver::Buffer& from,
                                     const NodeOptions& options) {
  for (const driver::Buffer* buffer : {&to, &from})
    if (buffer->device() != context_.device())
      throw ValueError(
          format("DeviceGraphBuilder.add_copy: a buffer lives on {}, but the graph is "
                 "built for {}.",
                 device_name(buffer->device()), device_name(context_.device())));
  if (to.num_elements() != from.num_elements())
    throw ValueError(
        format("DeviceGraphBuilder.add_copy: the destination has {} elements, but the "
               "source {}.",
               to.num_elements(), from.num_elements()));
  const std::size_t bytes = to.byte_size();
  if (bytes == 0) return add_empty(options);
  const std::vector<std::size_t> dependencies = resolve(options);
  void* native = nullptr;
  std::function<void()> task;
  if (state_->device == nullptr) {
    task = [to = to.data(), from = from.data(), bytes] { std::memmove(to, from, bytes); };
  } else {
    cuda::CopyNodeParams params;
    const auto describe = [](cuda::CopyEnd& end, const driver::Buffer& buffer) {
      end.memory_type = buffer.pinned() ? cuda::kMemoryHost : cuda::kMemoryDevice;
      end.host = buffer.data();
      end.device = reinterpret_cast<std::uintptr_t>(buffer.data());
    };
    describe(params.source, from);
    describe(params.destination, to);
    params.source.pitch = params.destination.pitch = params.width = bytes;
    params.source.height = params.destination.height = 1;
    const std::vector<void*> natives = natives_of(dependencies);
    const cuda::ContextScope scope(state_->device->context());
    cuda::NativeGraphNode node = nullptr;
    cuda::check(
        cuda::library().graph_add_copy(
            &node, state_->graph, reinterpret_cast<const cuda::NativeGraphNode*>(natives.data()),
            natives.size(), &params, state_->device->context()),
        "cuGraphAddMemcpyNode", state_->device->id());
    native = node;
  }
  keep(to, true);
  keep(from, false);
  return add(std::move(task), native);
}

DeviceGraphNode GraphBuild::add_fill(const driver::Buffer& buffer, const void* value,
                                     std::size_t width, const NodeOptions& options) {
  if (buffer.device() != context_.device())
    throw ValueError(
        format("DeviceGraphBuilder.add_memset: the buffer lives on {}, but the graph "
               "is built for {}.",
               device_name(buffer.device()), device_name(context_.device())));
  const auto count = static_cast<std::size_t>(buffer.num_elements());
  if (count == 0) return add_empty(options);
  const std::vector<std::size_t> dependencies = resolve(options);
  std::uint64_t bits = 0;
  std::memcpy(&bits, value, width);
  void* native = nullptr;
  std::function<void()> task;
  if (state_->device == nullptr) {
    task = [memory = buffer.data(), bits, width, count] {
      fill_elements(memory, bits, width, count);
    };
  } else {
    const cuda::ContextScope scope(state_->device->context());
    std::vector<void*> natives = natives_of(dependencies);
    const auto add_node = [&](const cuda::FillNodeParams& params) {
      cuda::NativeGraphNode node = nullptr;
      cuda::check(
          cuda::library().graph_add_fill(
              &node, state_->graph, reinterpret_cast<const cuda::NativeGraphNode*>(natives.data()),
              natives.size(), &params, state_->device->context()),
          "cuGraphAddMemsetNode", state_->device->id());
      natives = {node};
      native = node;
    };
    const auto address = reinterpret_cast<std::uintptr_t>(buffer.data());
    if (width < 8) {
      add_node({.destination = address,
                .value = static_cast<unsigned>(bits),
                .element_bytes = static_cast<unsigned>(width),
                .width = count});
    } else {
      // Each half is a column of width one.
      for (unsigned half = 0; half < 2; ++half)
        add_node({.destination = address + 4 * half,
                  .pitch = 8,
                  .value = static_cast<unsigned>(bits >> (32 * half)),
                  .element_bytes = 4,
                  .width = 1,
                  .height = count});
    }
  }
  keep(buffer, true);
  return add(std::move(task), native);
}

DeviceGraphNode GraphBuild::add_empty(const NodeOptions& options) {
  const std::vector<std::size_t> dependencies = resolve(options);
  cuda::NativeGraphNode node = nullptr;
  if (state_->device != nullptr) {
    const std::vector<void*> natives = natives_of(dependencies);
    const cuda::ContextScope scope(state_->device->context());
    cuda::check(cuda::library().graph_add_empty(
                    &node, state_->graph,
                    reinterpret_cast<const cuda::NativeGraphNode*>(natives.data()), natives.size()),
                "cuGraphAddEmptyNode", state_->device->id());
  }
  return add([] {}, node);
}

DeviceGraphNode GraphBuild::region(const std::function<void()>& work, const NodeOptions& options) {
  regions_.push_back(resolve(options));
  const std::size_t first = natives_.size();
  try {
    work();
  } catch (...) {
    regions_.pop_back();
    throw;
  }
  regions_.pop_back();
  const std::size_t added = natives_.size() - first;
  if (added == 1) return last();
  if (added == 0) return add_empty(options);
  NodeOptions all;
  for (std::size_t i = first; i < first + added; ++i)
    all.dependencies.push_back(DeviceGraphNode(id_, i));
  return add_empty(all);
}

std::shared_ptr<const GraphState> GraphBuild::finish() {
  if (state_->device != nullptr && !natives_.empty()) {
    const cuda::ContextScope scope(state_->device->context());
    cuda::check(cuda::library().graph_instantiate(&state_->exec, state_->graph, 0),
                "cuGraphInstantiate", state_->device->id());
  }
  return state_;
}

}  // namespace detail

void DeviceGraph::replay() const {
  check_call("DeviceGraph.replay");
  driver::QueueBackend& queue = *context_.queue().backend();
  const detail::GraphState& state = *state_;
  Work work;
  work.name = "graph";
  if (state.device == nullptr) {
    if (state.tasks.empty()) return;
    work.kind = Work::Kind::user_function;
    work.function = [kept = state_] {
      for (const std::function<void()>& task : kept->tasks) task();
    };
  } else {
    if (state.exec == nullptr) return;
    work.kind = Work::Kind::native;
    work.submit_argument = state.exec;
    work.submit = [](void* exec, std::uintptr_t stream) {
      cuda::check(cuda::library().graph_launch(static_cast<cuda::NativeGraphExec>(exec),
                                               reinterpret_cast<cuda::Stream>(stream)),
                  "cuGraphLaunch");
    };
  }
  const std::uint64_t value = queue.enqueue(std::move(work));
  for (const detail::GraphState::Use& use : state.uses)
    use.buffer.record_use_at(queue, value, use.write);
}

}  // namespace kiln::gpu
