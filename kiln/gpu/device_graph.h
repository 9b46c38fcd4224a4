#pragma once

// Device graphs: work recorded once with its dependencies, and enqueued as one unit many times.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kiln/gpu/device_buffer.h"
#include "kiln/gpu/device_context.h"

namespace kiln::gpu {

/// A node of a graph that is being built; valid until its builder ends.
class DeviceGraphNode {
 public:
  /// "DeviceGraphNode(id=3)".
  std::string to_string() const;
  friend bool operator==(const DeviceGraphNode&, const DeviceGraphNode&) = default;

 private:
  friend class detail::GraphBuild;
  DeviceGraphNode(std::uint64_t graph, std::size_t id) : graph_(graph), id_(id) {}
  std::uint64_t graph_;
  std::size_t id_;
};

/// What a node waits for. An empty list makes a root; the order of adding means nothing.
struct NodeOptions {
  std::vector<DeviceGraphNode> dependencies = {};
};

namespace detail {

struct NodeDependencies {
  const NodeOptions* options;
};
struct GraphState;

/// The graph under construction, without types.
class GraphBuild {
 public:
  explicit GraphBuild(const DeviceContext& context);
  ~GraphBuild();
  GraphBuild(const GraphBuild&) = delete;
  GraphBuild& operator=(const GraphBuild&) = delete;

  const DeviceContext& context() const { return context_; }
  DeviceGraphNode add_launch(const Launch& launch, std::int64_t shared_bytes,
                             const NodeOptions& options);
  DeviceGraphNode add_copy(const driver::Buffer& to, const driver::Buffer& from,
                           const NodeOptions& options);
  DeviceGraphNode add_fill(const driver::Buffer& buffer, const void* value, std::size_t width,
                           const NodeOptions& options);
  DeviceGraphNode add_empty(const NodeOptions& options);
  DeviceGraphNode region(const std::function<void()>& work, const NodeOptions& options);
  /// The node that was added last.
  DeviceGraphNode last() const;
  std::shared_ptr<const GraphState> finish();

 private:
  std::vector<std::size_t> resolve(const NodeOptions& options) const;
  /// One more node: `task` on the host, `native` elsewhere.
  DeviceGraphNode add(std::function<void()> task, void* native);
  std::vector<void*> natives_of(const std::vector<std::size_t>& dependencies) const;
  void keep(const driver::Buffer& buffer, bool write);

  DeviceContext context_;
  std::uint64_t id_;
  std::shared_ptr<GraphState> state_;
  std::vector<void*> natives_;  // by node
  /// What every node depends on, by nested regions.
  std::vector<std::vector<std::size_t>> regions_;
};

}  // namespace detail

/// Adds nodes to a graph; valid during the call of `build` alone.
class DeviceGraphBuilder {
 public:
  explicit DeviceGraphBuilder(detail::GraphBuild& build) : build_(&build) {}

  /// A launch; checks as `DeviceContext::enqueue_function`.
  template <typename Handle, typename... A>
    requires std::is_base_of_v<detail::FunctionHandleBase, Handle>
  DeviceGraphNode add_function(const Handle& function, const LaunchConfig& config,
                               const NodeOptions& options, const A&... arguments) {
    const detail::NodeDependencies after{&options};
    detail::launch_handle({*build_, after}, kCall, function, config, arguments...);
    return build_->last();
  }
  template <typename... P, typename... A>
  DeviceGraphNode add_function(const Kernel<void(P...)>& kernel, const LaunchConfig& config,
                               const NodeOptions& options, const A&... arguments) {
    const detail::NodeDependencies after{&options};
    detail::launch_typed<P...>({*build_, after}, kernel.function(context().device()), kCall, config,
                               arguments...);
    return build_->last();
  }
  template <typename Body, typename... C>
  DeviceGraphNode add_function(const Closure<Body, C...>& closure, const LaunchConfig& config,
                               const NodeOptions& options = {}) {
    return add_function(context().compile_function(closure), config, options);
  }
  template <detail::PlainCallable F>
  DeviceGraphNode add_function(const F& callable, const LaunchConfig& config,
                               const NodeOptions& options = {}) {
    return add_function(context().compile_function(callable), config, options);
  }

  /// A copy between buffers of this context's device and its host memory. Lengths that differ,
  /// another device: ValueError.
  template <template <typename> class To, template <typename> class From, typename T>
  DeviceGraphNode add_copy(const To<T>& dst, const From<T>& src, const NodeOptions& options = {}) {
    return build_->add_copy(dst.kernel_memory(), src.kernel_memory(), options);
  }
  /// Every element becomes `value`.
  template <typename T>
  DeviceGraphNode add_memset(const DeviceBuffer<T>& dst, std::type_identity_t<T> value,
                             const NodeOptions& options = {}) {
    static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8,
                  "bitwidth of memset dtype must be one of [8,16,32,64]");
    return build_->add_fill(dst.kernel_memory(), &value, sizeof value, options);
  }
  /// A joining point without work.
  DeviceGraphNode add_empty(const NodeOptions& options = {}) { return build_->add_empty(options); }
  /// Runs `work(builder)`; every node it adds depends on the given ones, too. The result is the one
  /// node that was added, else an empty one that joins what was.
  template <typename F>
  DeviceGraphNode region(F&& work, const NodeOptions& options = {}) {
    return build_->region([&] { work(*this); }, options);
  }
  DeviceContext context() const { return build_->context(); }

 private:
  static constexpr const char* kCall = "DeviceGraphBuilder.add_function";
  detail::GraphBuild* build_;
};

/// A graph that can be enqueued as one unit. Addresses, sizes, scalars and shapes are those of when
/// it was built; it keeps its buffers and functions alive. A shared handle.
class DeviceGraph {
 public:
  /// Calls `build(builder)` once; what it throws passes through and leaves no graph.
  template <typename F>
  static DeviceGraph create(const DeviceContext& context, F&& build) {
    detail::GraphBuild graph(context);
    DeviceGraphBuilder builder(graph);
    build(builder);
    return DeviceGraph(context, graph.finish());
  }

  /// Enqueues the graph on its context's stream and returns; replays run one after another.
  void replay() const;
  DeviceContext context() const { return context_; }

 private:
  DeviceGraph(DeviceContext context, std::shared_ptr<const detail::GraphState> state)
      : context_(std::move(context)), state_(std::move(state)) {}
  DeviceContext context_;
  std::shared_ptr<const detail::GraphState> state_;
};

}  // namespace kiln::gpu
