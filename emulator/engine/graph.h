#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "emulator/engine/operation.h"
#include "emulator/engine/stream.h"

namespace kiln::emulator {

struct Graph;

/// A piece of work of a graph. What it is lies in `work`, or in `event` or `child`.
struct GraphNode : Object {
  static constexpr ObjectKind kKind = ObjectKind::node;
  GraphNode() : Object(kKind) {}

  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  Work work;
  std::shared_ptr<Context> context;  // null: that of the stream it is launched into
  std::shared_ptr<Event> event;      // of record and wait nodes
  std::shared_ptr<Graph> child;
  std::weak_ptr<Graph> graph;
  std::vector<GraphNode*> dependencies;   // of the same graph, in the order they were added
  std::uint64_t original = 0;             // handle of the node that it is a copy of
  std::vector<void*> parameter_pointers;  // what cuGraphKernelNodeGetParams answered
};

/// Nodes and what each comes after. The graph's lock is for its nodes, too.
struct Graph : Object, std::enable_shared_from_this<Graph> {
  static constexpr ObjectKind kKind = ObjectKind::graph;
  Graph() : Object(kKind) {}

  std::mutex mutex;
  std::vector<std::shared_ptr<GraphNode>> nodes;  // in the order they were added
};

/// A copy of a graph, with handles for its nodes when `known`.
std::shared_ptr<Graph> clone_graph(Graph& graph, bool known);

/// A graph in the order of its execution: children are part of the list.
struct FlatGraph {
  std::vector<const GraphNode*> nodes;  // null: a place in the order only
  std::vector<std::vector<std::uint32_t>> before;
};
/// False when the nodes wait for each other in a circle.
bool flatten(Graph& graph, FlatGraph& flat);

/// What can be launched: its own copy of a graph.
struct GraphExec : Object {
  static constexpr ObjectKind kKind = ObjectKind::graph_exec;
  GraphExec() : Object(kKind) {}

  std::mutex mutex;
  std::shared_ptr<Graph> graph;
  FlatGraph flat;
  OperationPointer last;  // launches of one graph come after each other
};

/// Work that is recorded into a graph instead of done. All captures share one lock.
struct Capture {
  std::shared_ptr<Graph> graph;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  Stream* origin = nullptr;
  std::uint64_t id = 0;
  bool invalid = false;
  bool over = false;
  /// The streams that take part, and what their next work comes after.
  std::unordered_map<Stream*, std::vector<std::shared_ptr<GraphNode>>> heads;
  std::vector<CUgraphNode> answered;  // what cuStreamGetCaptureInfo answered last
};

}  // namespace kiln::emulator
