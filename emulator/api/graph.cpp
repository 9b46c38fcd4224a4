#include "emulator/api/graph.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "kiln/support/format.h"

namespace kiln::emulator {

void retire_nodes(Graph& graph) {
  std::lock_guard lock(graph.mutex);
  for (const auto& node : graph.nodes) {
    handles().remove(node->handle, ObjectKind::node);
    if (node->child != nullptr) retire_nodes(*node->child);
  }
}

namespace {

const char* name_of(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return "KERNEL";
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return "MEMCPY";
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return "MEMSET";
    case CU_GRAPH_NODE_TYPE_HOST:
      return "HOST";
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return "GRAPH";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return "EVENT_WAIT";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return "EVENT_RECORD";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return "BATCH_MEM_OP";
    default:
      return "EMPTY";
  }
}

std::string label_of(const GraphNode& node) {
  if (const auto* kernel = std::get_if<KernelWork>(&node.work))
    return format("{}\\n{}\\n<<<({},{},{}),({},{},{}),{}>>>", name_of(node.type),
                  kernel->function->kernel().name, kernel->grid.x, kernel->grid.y, kernel->grid.z,
                  kernel->block.x, kernel->block.y, kernel->block.z, kernel->dynamic_shared);
  if (const auto* copy = std::get_if<CopyWork>(&node.work))
    return format("{}\\n{} bytes", name_of(node.type), copy->bytes());
  if (const auto* fill = std::get_if<FillWork>(&node.work))
    return format("{}\\n{} bytes of {:#x}", name_of(node.type), fill->bytes(), fill->value);
  return name_of(node.type);
}

// Nodes and edges of a graph, numbered as they were added; children as clusters.
void print_nodes(Graph& graph, const std::string& prefix, std::string& text) {
  std::lock_guard lock(graph.mutex);
  std::unordered_map<const GraphNode*, std::size_t> numbers;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = *graph.nodes[i];
    numbers[&node] = i;
    text += format("  \"{}{}\" [shape=box, label=\"{}{}\\n{}\"];\n", prefix, i, prefix, i,
                   label_of(node));
    if (node.child == nullptr) continue;
    text += format("  subgraph \"cluster_{}{}\" {{\n", prefix, i);
    print_nodes(*node.child, format("{}{}.", prefix, i), text);
    text += "  }\n";
  }
  for (const auto& node : graph.nodes)
    for (const GraphNode* before : node->dependencies)
      text +=
          format("  \"{}{}\" -> \"{}{}\";\n", prefix, numbers[before], prefix, numbers[node.get()]);
}

template <typename Body>
CUresult graph_call(CUgraph handle, const Body& body) {
  return driver_call([&](Driver& driver) {
    const auto graph = resolve<Graph>(handle);
    return graph == nullptr ? CUDA_ERROR_INVALID_VALUE : body(driver, *graph);
  });
}

// Answers a list: its length when the caller has no place, else as much as there is place for.
template <typename Handle>
void answer(const std::vector<Handle>& found, Handle* to, std::size_t* count) {
  if (to != nullptr) {
    for (std::size_t i = 0; i < *count; ++i) to[i] = i < found.size() ? found[i] : nullptr;
    *count = std::min(*count, found.size());
  } else {
    *count = found.size();
  }
}

CUgraphNode handle_of(const GraphNode* node) { return reinterpret_cast<CUgraphNode>(node->handle); }

}  // namespace
}  // namespace kiln::emulator

using namespace kiln::emulator;

CUresult cuGraphCreate(CUgraph* handle, unsigned flags) {
  return driver_call([&](Driver&) {
    if (handle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *handle = publish<CUgraph>(std::make_shared<Graph>());
    return *handle == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroy(CUgraph handle) {
  return driver_call([&](Driver&) {
    const auto graph = retire<Graph>(handle);
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    retire_nodes(*graph);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphClone(CUgraph* handle, CUgraph original) {
  return graph_call(original, [&](Driver&, Graph& graph) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *handle = publish<CUgraph>(clone_graph(graph, true));
    return *handle == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  });
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, std::size_t* count) {
  return graph_call(handle, [&](Driver&, Graph& graph) {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(graph.mutex);
    std::vector<CUgraphNode> found;
    for (const auto& node : graph.nodes) found.push_back(handle_of(node.get()));
    answer(found, nodes, count);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphGetEdges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, std::size_t* count) {
  return graph_call(handle, [&](Driver&, Graph& graph) {
    if (count == nullptr || (from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(graph.mutex);
    std::vector<CUgraphNode> starts, ends;
    for (const auto& node : graph.nodes)
      for (const GraphNode* before : node->dependencies) {
        starts.push_back(handle_of(before));
        ends.push_back(handle_of(node.get()));
      }
    std::size_t same = *count;
    answer(starts, from, count);
    answer(ends, to, &same);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphGetEdges_v2(CUgraph handle, CUgraphNode* from, CUgraphNode* to,
                            CUgraphEdgeData* edges, std::size_t* count) {
  const CUresult result = cuGraphGetEdges(handle, from, to, count);
  if (result == CUDA_SUCCESS && edges != nullptr && from != nullptr)
    std::fill_n(edges, *count, CUgraphEdgeData{});
  return result;
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  return driver_call([&](Driver&) {
    const auto node = resolve<GraphNode>(handle);
    if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *type = node->type;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphNodeGetDependencies(CUgraphNode handle, CUgraphNode* nodes, std::size_t* count) {
  return driver_call([&](Driver&) {
    const auto node = resolve<GraphNode>(handle);
    const auto graph = node == nullptr ? nullptr : node->graph.lock();
    if (graph == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(graph->mutex);
    std::vector<CUgraphNode> found;
    for (const GraphNode* before : node->dependencies) found.push_back(handle_of(before));
    answer(found, nodes, count);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode handle, CUgraphNode* nodes,
                                       CUgraphEdgeData* edges, std::size_t* count) {
  const CUresult result = cuGraphNodeGetDependencies(handle, nodes, count);
  if (result == CUDA_SUCCESS && edges != nullptr && nodes != nullptr)
    std::fill_n(edges, *count, CUgraphEdgeData{});
  return result;
}

CUresult cuGraphAddDependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                std::size_t count) {
  return graph_call(handle, [&](Driver&, Graph& graph) {
    if (count != 0 && (from == nullptr || to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    std::vector<std::pair<std::shared_ptr<GraphNode>, std::shared_ptr<GraphNode>>> edges;
    for (std::size_t i = 0; i < count; ++i) {
      auto start = resolve<GraphNode>(from[i]), end = resolve<GraphNode>(to[i]);
      if (start == nullptr || end == nullptr || start == end ||
          start->graph.lock().get() != &graph || end->graph.lock().get() != &graph)
        return CUDA_ERROR_INVALID_VALUE;
      edges.emplace_back(std::move(start), std::move(end));
    }
    std::lock_guard lock(graph.mutex);
    for (const auto& [start, end] : edges)
      if (std::find(end->dependencies.begin(), end->dependencies.end(), start.get()) !=
          end->dependencies.end())
        return CUDA_ERROR_INVALID_VALUE;
    for (const auto& [start, end] : edges) end->dependencies.push_back(start.get());
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphAddDependencies_v2(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* edges, std::size_t count) {
  if (!plain_edges(edges, count)) return CUDA_ERROR_NOT_SUPPORTED;
  return cuGraphAddDependencies(handle, from, to, count);
}

CUresult cuGraphDebugDotPrint(CUgraph handle, const char* path, unsigned) {
  return graph_call(handle, [&](Driver&, Graph& graph) {
    if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::string text = "digraph graph_1 {\n";
    print_nodes(graph, "node_", text);
    text += "}\n";
    std::FILE* file = std::fopen(path, "we");
    if (file == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    return std::fclose(file) == 0 && written ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
  });
}
