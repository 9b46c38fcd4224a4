// Capture: what a captured stream is asked to do becomes nodes of a graph.
//
// A capture knows, for each stream that takes part, the nodes that the stream's next work comes
// after. A stream takes part from its first wait for an event that was recorded in a stream of the
// capture. Whatever would need the work to be done (a wait, an implicit order with the legacy
// stream, a dependency on work outside) is refused with the 900 series, and the capture is invalid
// from then on: only ending it is possible.

#include "emulator/api/capture.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

#include "emulator/engine/graph.h"

namespace kiln::emulator {
namespace {

std::mutex captures_mutex;
std::atomic<std::uint32_t> num_captures = 0;  // nobody pays for captures while there are none
std::vector<std::shared_ptr<Capture>>& captures() {
  static auto& list = *new std::vector<std::shared_ptr<Capture>>;
  return list;
}
thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

bool none_active() { return num_captures.load(std::memory_order_acquire) == 0; }

std::shared_ptr<GraphNode> add_node(Capture& capture, Stream& stream, CUgraphNodeType type,
                                    const std::shared_ptr<Context>& context) {
  auto node = std::make_shared<GraphNode>();
  node->type = type;
  node->context = context;
  node->graph = capture.graph;
  auto& heads = capture.heads[&stream];
  for (const auto& head : heads) node->dependencies.push_back(head.get());
  handles().add(node);
  heads = {node};
  std::lock_guard lock(capture.graph->mutex);
  capture.graph->nodes.push_back(node);
  return node;
}

// Ends a capture: its streams do work again.
void end_locked(const std::shared_ptr<Capture>& capture) {
  capture->over = true;
  for (auto& [stream, heads] : capture->heads) stream->capture = nullptr;
  capture->heads.clear();
  std::erase(captures(), capture);
  num_captures.fetch_sub(1, std::memory_order_release);
}

CUgraphNodeType type_of(const Work& work) {
  if (std::holds_alternative<KernelWork>(work)) return CU_GRAPH_NODE_TYPE_KERNEL;
  if (std::holds_alternative<CopyWork>(work)) return CU_GRAPH_NODE_TYPE_MEMCPY;
  if (std::holds_alternative<FillWork>(work)) return CU_GRAPH_NODE_TYPE_MEMSET;
  if (std::holds_alternative<HostWork>(work)) return CU_GRAPH_NODE_TYPE_HOST;
  if (std::holds_alternative<ValueWork>(work)) return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  return CU_GRAPH_NODE_TYPE_EMPTY;
}

// Whether every stream's last work comes before the origin's.
bool joined(Capture& capture) {
  std::set<const GraphNode*> before;
  std::vector<const GraphNode*> open;
  for (const auto& head : capture.heads[capture.origin]) open.push_back(head.get());
  while (!open.empty()) {
    const GraphNode* node = open.back();
    open.pop_back();
    if (!before.insert(node).second) continue;
    open.insert(open.end(), node->dependencies.begin(), node->dependencies.end());
  }
  for (const auto& [stream, heads] : capture.heads)
    for (const auto& head : heads)
      if (before.count(head.get()) == 0) return false;
  return true;
}

// The captures that the legacy stream would come after.
std::vector<std::shared_ptr<Capture>> captures_before(const Stream& stream) {
  std::vector<std::shared_ptr<Capture>> found;
  if (stream.order != Stream::Order::legacy) return found;
  for (const auto& capture : captures())
    for (const auto& [captured, heads] : capture->heads)
      if (captured->order == Stream::Order::blocking &&
          captured->context.lock() == stream.context.lock()) {
        found.push_back(capture);
        break;
      }
  return found;
}

}  // namespace

bool is_capturing(Driver&, Stream& stream) {
  if (none_active()) return false;
  std::lock_guard lock(captures_mutex);
  return stream.capture != nullptr;
}

CUresult capture_work(Driver&, Stream& stream, const std::shared_ptr<Context>& context, Work work) {
  std::lock_guard lock(captures_mutex);
  if (stream.capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (stream.capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  const CUgraphNodeType type = type_of(work);
  add_node(*stream.capture, stream, type, context)->work = std::move(work);
  return CUDA_SUCCESS;
}

CUresult capture_child(Stream& stream, Graph& graph) {
  std::lock_guard lock(captures_mutex);
  if (stream.capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (stream.capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  add_node(*stream.capture, stream, CU_GRAPH_NODE_TYPE_GRAPH, nullptr)->child =
      clone_graph(graph, true);
  return CUDA_SUCCESS;
}

CUresult check_implicit(Driver&, Stream& stream) {
  if (none_active()) return CUDA_SUCCESS;
  std::lock_guard lock(captures_mutex);
  return captures_before(stream).empty() ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

CUresult refuse_implicit(Driver&, Stream& stream) {
  if (none_active()) return CUDA_SUCCESS;
  std::lock_guard lock(captures_mutex);
  const auto before = captures_before(stream);
  for (const auto& capture : before) capture->invalid = true;
  return before.empty() ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

CUresult refuse_wait(Driver& driver, Stream& stream) {
  if (none_active()) return CUDA_SUCCESS;
  {
    std::lock_guard lock(captures_mutex);
    if (stream.capture != nullptr) {
      stream.capture->invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  return refuse_implicit(driver, stream);
}

void forget_capture(Event& event) {
  if (none_active()) return;
  std::lock_guard lock(captures_mutex);
  event.capture = nullptr;
  event.captured.clear();
}

CUresult refuse_during_capture() {
  if (none_active() || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  std::lock_guard lock(captures_mutex);
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : captures()) {
    const bool own = capture->thread == std::this_thread::get_id() &&
                     capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool anybodys = thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                          capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!own && !anybodys) continue;
    capture->invalid = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

bool is_captured(Driver&, Event& event) {
  if (none_active()) return false;
  std::lock_guard lock(captures_mutex);
  return event.capture != nullptr && !event.capture->over;
}

CUresult capture_record(Driver&, Stream& stream, const std::shared_ptr<Context>& context,
                        const std::shared_ptr<Event>& event, bool external) {
  std::lock_guard lock(captures_mutex);
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (external) {
    add_node(*capture, stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD, context)->event = event;
    return CUDA_SUCCESS;
  }
  event->capture = capture;
  const auto& heads = capture->heads[&stream];
  event->captured.assign(heads.begin(), heads.end());
  return CUDA_SUCCESS;
}

CUresult capture_wait(Driver& driver, Stream& stream, const std::shared_ptr<Context>& context,
                      const std::shared_ptr<Event>& event, bool external) {
  std::lock_guard lock(captures_mutex);
  const std::shared_ptr<Capture> capture = stream.capture;
  const std::shared_ptr<Capture> other =
      event->capture != nullptr && !event->capture->over ? event->capture : nullptr;
  if (capture != nullptr && capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (external && capture != nullptr) {
    add_node(*capture, stream, CU_GRAPH_NODE_TYPE_WAIT_EVENT, context)->event = event;
    return CUDA_SUCCESS;
  }
  if (other == nullptr) {
    // An event that was never recorded asks for nothing.
    std::lock_guard engine_lock(driver.engine.mutex());
    if (event->recorded == nullptr || capture == nullptr) return CUDA_SUCCESS;
    capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (other->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (capture != nullptr && capture != other) {
    capture->invalid = other->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (stream.order == Stream::Order::legacy) {
    other->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  stream.capture = other;
  auto& heads = other->heads[&stream];
  for (const auto& weak : event->captured) {
    auto node = weak.lock();
    if (node != nullptr && std::find(heads.begin(), heads.end(), node) == heads.end())
      heads.push_back(std::move(node));
  }
  return CUDA_SUCCESS;
}

void invalidate_capture(Driver&, Stream& stream) {
  if (none_active()) return;
  std::lock_guard lock(captures_mutex);
  if (stream.capture == nullptr) return;
  // The stream ends: nobody can end a capture that began in it.
  const std::shared_ptr<Capture> capture = stream.capture;
  capture->invalid = true;
  capture->heads.erase(&stream);
  stream.capture = nullptr;
  if (capture->origin == &stream) end_locked(capture);
}

void invalidate_capture(Driver&, Event& event) {
  std::lock_guard lock(captures_mutex);
  if (event.capture != nullptr) event.capture->invalid = true;
}

bool plain_edges(const CUgraphEdgeData* edges, std::size_t count) {
  for (std::size_t i = 0; edges != nullptr && i < count; ++i)
    if (edges[i].from_port != 0 || edges[i].to_port != 0 || edges[i].type != 0) return false;
  return true;
}

}  // namespace kiln::emulator

using namespace kiln::emulator;

namespace {

bool known(CUstreamCaptureMode mode) {
  return mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && mode <= CU_STREAM_CAPTURE_MODE_RELAXED;
}

CUresult begin(Stream& stream, std::shared_ptr<Graph> graph, CUstreamCaptureMode mode,
               std::vector<std::shared_ptr<GraphNode>> heads) {
  static std::uint64_t next_id = 1;
  if (!known(mode)) return CUDA_ERROR_INVALID_VALUE;
  if (stream.order == Stream::Order::legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  std::lock_guard lock(captures_mutex);
  if (stream.capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->graph = std::move(graph);
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = &stream;
  capture->id = next_id++;
  capture->heads[&stream] = std::move(heads);
  stream.capture = capture;
  captures().push_back(std::move(capture));
  num_captures.fetch_add(1, std::memory_order_release);
  return CUDA_SUCCESS;
}

// The nodes of handles, all of one graph; false when one is not.
bool nodes_of(const CUgraphNode* list, std::size_t count, const Graph& graph,
              std::vector<std::shared_ptr<GraphNode>>& found) {
  if (count != 0 && list == nullptr) return false;
  for (std::size_t i = 0; i < count; ++i) {
    auto node = resolve<GraphNode>(list[i]);
    if (node == nullptr || node->graph.lock().get() != &graph) return false;
    found.push_back(std::move(node));
  }
  return true;
}

}  // namespace

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  return stream_call(handle, [&](Driver&, Stream& stream, const std::shared_ptr<Context>&) {
    auto graph = std::make_shared<Graph>();
    if (publish<CUgraph>(graph) == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = begin(stream, graph, mode, {});
    if (result != CUDA_SUCCESS) handles().remove(graph->handle, ObjectKind::graph);
    return result;
  });
}

CUresult cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph_handle,
                                     const CUgraphNode* dependencies, const CUgraphEdgeData* edges,
                                     std::size_t count, CUstreamCaptureMode mode) {
  if (!plain_edges(edges, count)) return CUDA_ERROR_NOT_SUPPORTED;
  return stream_call(handle, [&](Driver&, Stream& stream, const std::shared_ptr<Context>&) {
    const auto graph = resolve<Graph>(graph_handle);
    std::vector<std::shared_ptr<GraphNode>> heads;
    if (graph == nullptr || !nodes_of(dependencies, count, *graph, heads))
      return CUDA_ERROR_INVALID_VALUE;
    return begin(stream, graph, mode, std::move(heads));
  });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  return stream_call(handle, [&](Driver&, Stream& stream, const std::shared_ptr<Context>&) {
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *graph = nullptr;
    std::lock_guard lock(captures_mutex);
    const std::shared_ptr<Capture> capture = stream.capture;
    if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != &stream) {
      capture->invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        capture->thread != std::this_thread::get_id())
      return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    const bool whole = !capture->invalid && joined(*capture);
    const bool invalid = capture->invalid;
    end_locked(capture);
    if (whole) {
      *graph = reinterpret_cast<CUgraph>(capture->graph->handle);
      return CUDA_SUCCESS;
    }
    return invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  });
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return cuStreamGetCaptureInfo_v2(handle, status, nullptr, nullptr, nullptr, nullptr);
}

CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, std::uint64_t* id) {
  return cuStreamGetCaptureInfo_v2(handle, status, id, nullptr, nullptr, nullptr);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status,
                                   std::uint64_t* id, CUgraph* graph,
                                   const CUgraphNode** dependencies, std::size_t* count) {
  return stream_call(handle, [&](Driver& driver, Stream& stream, const std::shared_ptr<Context>&) {
    if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult refused = check_implicit(driver, stream)) return refused;
    std::lock_guard lock(captures_mutex);
    Capture* capture = stream.capture.get();
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (capture == nullptr) return CUDA_SUCCESS;
    *status =
        capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (capture->invalid) return CUDA_SUCCESS;
    if (id != nullptr) *id = capture->id;
    if (graph != nullptr) *graph = reinterpret_cast<CUgraph>(capture->graph->handle);
    capture->answered.clear();
    for (const auto& head : capture->heads[&stream])
      capture->answered.push_back(reinterpret_cast<CUgraphNode>(head->handle));
    if (dependencies != nullptr) *dependencies = capture->answered.data();
    if (count != nullptr) *count = capture->answered.size();
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status,
                                   std::uint64_t* id, CUgraph* graph,
                                   const CUgraphNode** dependencies, const CUgraphEdgeData** edges,
                                   std::size_t* count) {
  // All edges are of the plain kind.
  if (edges != nullptr) *edges = nullptr;
  return cuStreamGetCaptureInfo_v2(handle, status, id, graph, dependencies, count);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode* list, std::size_t count,
                                           unsigned flags) {
  return stream_call(handle, [&](Driver&, Stream& stream, const std::shared_ptr<Context>&) {
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(captures_mutex);
    Capture* capture = stream.capture.get();
    if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    std::vector<std::shared_ptr<GraphNode>> nodes;
    if (!nodes_of(list, count, *capture->graph, nodes)) return CUDA_ERROR_INVALID_VALUE;
    auto& heads = capture->heads[&stream];
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) heads.clear();
    for (auto& node : nodes)
      if (std::find(heads.begin(), heads.end(), node) == heads.end())
        heads.push_back(std::move(node));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode* list,
                                              const CUgraphEdgeData* edges, std::size_t count,
                                              unsigned flags) {
  if (!plain_edges(edges, count)) return CUDA_ERROR_NOT_SUPPORTED;
  return cuStreamUpdateCaptureDependencies(handle, list, count, flags);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return driver_call([&](Driver&) {
    if (mode == nullptr || !known(*mode)) return CUDA_ERROR_INVALID_VALUE;
    *mode = std::exchange(thread_mode, *mode);
    return CUDA_SUCCESS;
  });
}
