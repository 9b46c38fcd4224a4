#include <cstring>

#include "emulator/api/graph.h"

using namespace kiln::emulator;

namespace {

constexpr std::uint64_t kFlags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                 CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                 CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

CUresult instantiate(CUgraphExec* handle, CUgraph graph_handle, std::uint64_t flags,
                     CUgraphInstantiateResult& outcome) {
  return driver_call([&](Driver&) {
    outcome = CUDA_GRAPH_INSTANTIATE_ERROR;
    const auto graph = resolve<Graph>(graph_handle);
    if (graph == nullptr || handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) {
      outcome = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    if ((flags & ~kFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
    auto exec = std::make_shared<GraphExec>();
    exec->graph = clone_graph(*graph, false);
    if (!flatten(*exec->graph, exec->flat)) {
      outcome = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
      return CUDA_ERROR_INVALID_VALUE;
    }
    *handle = publish<CUgraphExec>(exec);
    if (*handle == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    outcome = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return CUDA_SUCCESS;
  });
}

// Whether both graphs have the same nodes and edges, in the order that they were added; `which`
// is the node that differs.
CUgraphExecUpdateResult compare(const Graph& old, const Graph& now, std::size_t& which) {
  which = 0;
  if (old.nodes.size() != now.nodes.size()) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  std::unordered_map<const GraphNode*, std::size_t> old_numbers, numbers;
  for (std::size_t i = 0; i < old.nodes.size(); ++i) {
    old_numbers[old.nodes[i].get()] = i;
    numbers[now.nodes[i].get()] = i;
  }
  for (which = 0; which < old.nodes.size(); ++which) {
    const GraphNode &before = *old.nodes[which], &after = *now.nodes[which];
    if (before.type != after.type) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (before.dependencies.size() != after.dependencies.size())
      return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (std::size_t i = 0; i < before.dependencies.size(); ++i)
      if (old_numbers[before.dependencies[i]] != numbers[after.dependencies[i]])
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if (before.context != after.context)
      return before.type == CU_GRAPH_NODE_TYPE_KERNEL ? CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED
                                                      : CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    if (before.child == nullptr) continue;
    std::size_t inner = 0;
    const CUgraphExecUpdateResult result = compare(*before.child, *after.child, inner);
    if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return result;
  }
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUresult launch(Driver& driver, Stream& stream, const std::shared_ptr<Context>& context,
                GraphExec& exec) {
  std::lock_guard lock(exec.mutex);
  const std::size_t count = exec.flat.nodes.size();
  std::vector<OperationPointer> operations(count), also{exec.last}, waited(count);
  for (std::size_t i = 0; i < count; ++i) {
    operations[i] = std::make_shared<Operation>();
    operations[i]->context = context;
    operations[i]->priority = stream.priority;
    const GraphNode* node = exec.flat.nodes[i];
    if (node == nullptr) continue;
    operations[i]->work = node->work;
    if (node->context != nullptr) operations[i]->context = node->context;
    if (const int error = operations[i]->context->error.load()) return static_cast<CUresult>(error);
  }
  {
    std::lock_guard engine_lock(driver.engine.mutex());
    for (std::size_t i = 0; i < count; ++i) {
      const GraphNode* node = exec.flat.nodes[i];
      if (node == nullptr || node->event == nullptr) continue;
      if (node->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) waited[i] = node->event->recorded;
      if (node->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) node->event->recorded = operations[i];
    }
  }
  exec.last = driver.engine.submit_graph(stream, operations, exec.flat.before, waited, also);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  CUgraphInstantiateResult outcome;
  return instantiate(exec, graph, flags, outcome);
}

// The form of older interfaces, which tells about errors in a buffer.
CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log,
                               std::size_t log_bytes) {
  if (error_node != nullptr) *error_node = nullptr;
  if (log != nullptr && log_bytes != 0) log[0] = 0;
  CUgraphInstantiateResult outcome;
  return instantiate(exec, graph, 0, outcome);
}

CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log,
                            std::size_t log_bytes) {
  return cuGraphInstantiate_v2(exec, graph, error_node, log, log_bytes);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  parameters->hErrNode_out = nullptr;
  return instantiate(exec, graph, parameters->flags, parameters->result_out);
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  return driver_call([&](Driver&) {
    return retire<GraphExec>(handle) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

CUresult cuGraphUpload(CUgraphExec handle, CUstream stream_handle) {
  return stream_call(stream_handle, [&](Driver&, Stream&, const std::shared_ptr<Context>&) {
    return resolve<GraphExec>(handle) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  return stream_call(stream_handle,
                     [&](Driver& driver, Stream& stream, const std::shared_ptr<Context>& context) {
                       const auto exec = resolve<GraphExec>(handle);
                       if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
                       if (const CUresult refused = refuse_implicit(driver, stream)) return refused;
                       if (is_capturing(driver, stream)) return capture_child(stream, *exec->graph);
                       return launch(driver, stream, context, *exec);
                     });
}

CUresult cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph graph_handle,
                              CUgraphExecUpdateResultInfo* information) {
  return driver_call([&](Driver&) {
    const auto exec = resolve<GraphExec>(handle);
    const auto graph = resolve<Graph>(graph_handle);
    if (exec == nullptr || graph == nullptr || information == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *information = {CU_GRAPH_EXEC_UPDATE_SUCCESS, nullptr, nullptr};
    const auto now = clone_graph(*graph, false);
    std::lock_guard lock(exec->mutex);
    std::size_t which = 0;
    information->result = compare(*exec->graph, *now, which);
    if (information->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
      if (which < now->nodes.size())
        information->errorNode = reinterpret_cast<CUgraphNode>(now->nodes[which]->original);
      return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    // Nodes go by the handles of the graph that was instantiated.
    for (std::size_t i = 0; i < now->nodes.size(); ++i)
      now->nodes[i]->original = exec->graph->nodes[i]->original;
    exec->graph = now;
    flatten(*exec->graph, exec->flat);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* error_node,
                           CUgraphExecUpdateResult* result) {
  CUgraphExecUpdateResultInfo information{};
  const CUresult answer = cuGraphExecUpdate_v2(exec, graph, &information);
  if (error_node != nullptr) *error_node = information.errorNode;
  if (result != nullptr) *result = information.result;
  return answer;
}
