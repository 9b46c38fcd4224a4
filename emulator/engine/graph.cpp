#include "emulator/engine/graph.h"

#include <algorithm>

namespace kiln::emulator {

std::shared_ptr<Graph> clone_graph(Graph& graph, bool known) {
  auto copy = std::make_shared<Graph>();
  std::lock_guard lock(graph.mutex);
  std::unordered_map<const GraphNode*, GraphNode*> copies;
  for (const auto& node : graph.nodes) {
    auto made = std::make_shared<GraphNode>();
    made->type = node->type;
    made->work = node->work;
    made->context = node->context;
    made->event = node->event;
    made->graph = copy;
    made->original = node->handle;
    if (node->child != nullptr) made->child = clone_graph(*node->child, known);
    copies[node.get()] = made.get();
    if (known) handles().add(made);
    copy->nodes.push_back(std::move(made));
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    for (const GraphNode* before : graph.nodes[i]->dependencies)
      copy->nodes[i]->dependencies.push_back(copies.at(before));
  return copy;
}

namespace {

// Appends a graph whose first nodes come after `start`; returns its last places.
bool append(Graph& graph, const std::vector<std::uint32_t>& start, FlatGraph& flat,
            std::vector<std::uint32_t>& last) {
  std::lock_guard lock(graph.mutex);
  // Nodes whose dependencies are all placed, until no more can be.
  std::unordered_map<const GraphNode*, std::uint32_t> places;
  std::unordered_map<const GraphNode*, bool> followed;
  std::unordered_map<const GraphNode*, std::size_t> missing;
  std::unordered_map<const GraphNode*, std::vector<const GraphNode*>> followers;
  std::vector<const GraphNode*> ready;
  for (const auto& node : graph.nodes) {
    missing[node.get()] = node->dependencies.size();
    for (const GraphNode* before : node->dependencies) {
      followed[before] = true;
      followers[before].push_back(node.get());
    }
    if (node->dependencies.empty()) ready.push_back(node.get());
  }
  for (std::size_t next = 0; next < ready.size(); ++next) {
    const GraphNode* node = ready[next];
    std::vector<std::uint32_t> before;
    for (const GraphNode* each : node->dependencies) before.push_back(places.at(each));
    if (node->dependencies.empty()) before = start;
    if (node->child != nullptr) {
      std::vector<std::uint32_t> ends;
      if (!append(*node->child, before, flat, ends)) return false;
      before = ends.empty() ? before : ends;
    }
    places[node] = static_cast<std::uint32_t>(flat.nodes.size());
    if (!followed[node]) last.push_back(places[node]);
    flat.nodes.push_back(node->child != nullptr ? nullptr : node);
    flat.before.push_back(std::move(before));
    for (const GraphNode* each : followers[node])
      if (--missing[each] == 0) ready.push_back(each);
  }
  return ready.size() == graph.nodes.size();
}

}  // namespace

bool flatten(Graph& graph, FlatGraph& flat) {
  flat = {};
  std::vector<std::uint32_t> last;
  return append(graph, {}, flat, last);
}

}  // namespace kiln::emulator
