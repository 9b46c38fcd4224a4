#include <utility>

#include "emulator/api/copy_box.h"
#include "emulator/api/fill.h"
#include "emulator/api/graph.h"
#include "emulator/api/launch.h"

namespace kiln::emulator {
namespace {

// Adds a node that `fill(driver, node)` has described.
template <typename Fill>
CUresult add_node(CUgraphNode* handle, CUgraph graph_handle, const CUgraphNode* dependencies,
                  std::size_t count, CUgraphNodeType type, const Fill& fill) {
  return driver_call([&](Driver& driver) {
    const auto graph = resolve<Graph>(graph_handle);
    if (graph == nullptr || handle == nullptr || (count != 0 && dependencies == nullptr))
      return CUDA_ERROR_INVALID_VALUE;
    auto node = std::make_shared<GraphNode>();
    node->type = type;
    node->graph = graph;
    for (std::size_t i = 0; i < count; ++i) {
      const auto before = resolve<GraphNode>(dependencies[i]);
      if (before == nullptr || before->graph.lock() != graph) return CUDA_ERROR_INVALID_VALUE;
      for (const GraphNode* known : node->dependencies)
        if (known == before.get()) return CUDA_ERROR_INVALID_VALUE;
      node->dependencies.push_back(before.get());
    }
    if (const CUresult result = fill(driver, *node)) return result;
    *handle = publish<CUgraphNode>(node);
    if (*handle == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    std::lock_guard lock(graph->mutex);
    graph->nodes.push_back(std::move(node));
    return CUDA_SUCCESS;
  });
}

std::shared_ptr<Context> context_or_current(CUcontext handle) {
  if (handle != nullptr) return resolve<Context>(handle);
  const auto* current = current_context();
  return current == nullptr ? nullptr : *current;
}

CUDA_KERNEL_NODE_PARAMS widen(const CUDA_KERNEL_NODE_PARAMS_v1& narrow) {
  return {narrow.func,         narrow.gridDimX,  narrow.gridDimY,  narrow.gridDimZ,
          narrow.blockDimX,    narrow.blockDimY, narrow.blockDimZ, narrow.sharedMemBytes,
          narrow.kernelParams, narrow.extra,     nullptr,          nullptr};
}

}  // namespace

CUresult read_kernel_parameters(Driver& driver, const CUDA_KERNEL_NODE_PARAMS& parameters,
                                KernelWork& work, std::shared_ptr<Context>& context) {
  context = context_or_current(parameters.ctx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const auto handle =
      parameters.func != nullptr ? parameters.func : reinterpret_cast<CUfunction>(parameters.kern);
  const auto function = find_function(driver, context, handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // A function belongs to one context, whichever is current.
  context = std::static_pointer_cast<Context>(
      handles().find(function->module->context, ObjectKind::context));
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  LaunchRequest request;
  request.grid = {parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ};
  request.block = {parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ};
  request.dynamic_shared = parameters.sharedMemBytes;
  request.parameters = parameters.kernelParams;
  request.extra = parameters.extra;
  return prepare_launch(function, request, work);
}

}  // namespace kiln::emulator

using namespace kiln::emulator;

CUresult cuGraphAddKernelNode_v2(CUgraphNode* handle, CUgraph graph,
                                 const CUgraphNode* dependencies, std::size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return add_node(handle, graph, dependencies, count, CU_GRAPH_NODE_TYPE_KERNEL,
                  [&](Driver& driver, GraphNode& node) {
                    if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
                    return read_kernel_parameters(driver, *parameters,
                                                  node.work.emplace<KernelWork>(), node.context);
                  });
}

CUresult cuGraphAddKernelNode(CUgraphNode* handle, CUgraph graph, const CUgraphNode* dependencies,
                              std::size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS wide = widen(*parameters);
  return cuGraphAddKernelNode_v2(handle, graph, dependencies, count, &wide);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* handle, CUgraph graph, const CUgraphNode* dependencies,
                              std::size_t count, const CUDA_MEMCPY3D* parameters,
                              CUcontext context) {
  return add_node(handle, graph, dependencies, count, CU_GRAPH_NODE_TYPE_MEMCPY,
                  [&](Driver& driver, GraphNode& node) -> CUresult {
                    node.context = context_or_current(context);
                    if (node.context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
                    if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
                    CopyRequest request;
                    if (const CUresult result = read_box(*parameters, request)) return result;
                    bool to_pageable = false, from_pageable = false;
                    CopyWork& work = node.work.emplace<CopyWork>();
                    if (request.width == 0 || request.height == 0 || request.depth == 0)
                      return CUDA_ERROR_INVALID_VALUE;
                    return prepare_copy(driver, node.context->device, request, work, to_pageable,
                                        from_pageable);
                  });
}

CUresult cuGraphAddMemsetNode(CUgraphNode* handle, CUgraph graph, const CUgraphNode* dependencies,
                              std::size_t count, const CUDA_MEMSET_NODE_PARAMS* parameters,
                              CUcontext context) {
  return add_node(handle, graph, dependencies, count, CU_GRAPH_NODE_TYPE_MEMSET,
                  [&](Driver& driver, GraphNode& node) -> CUresult {
                    node.context = context_or_current(context);
                    if (node.context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
                    if (parameters == nullptr || parameters->width == 0 || parameters->height == 0)
                      return CUDA_ERROR_INVALID_VALUE;
                    return prepare_fill(
                        driver, node.context->device,
                        {parameters->dst, parameters->value, parameters->elementSize,
                         parameters->width, parameters->height, parameters->pitch},
                        node.work.emplace<FillWork>());
                  });
}

CUresult cuGraphAddHostNode(CUgraphNode* handle, CUgraph graph, const CUgraphNode* dependencies,
                            std::size_t count, const CUDA_HOST_NODE_PARAMS* parameters) {
  return add_node(handle, graph, dependencies, count, CU_GRAPH_NODE_TYPE_HOST,
                  [&](Driver&, GraphNode& node) {
                    if (parameters == nullptr || parameters->fn == nullptr)
                      return CUDA_ERROR_INVALID_VALUE;
                    node.work = HostWork{parameters->fn, parameters->userData, nullptr, nullptr};
                    return CUDA_SUCCESS;
                  });
}

CUresult cuGraphAddEmptyNode(CUgraphNode* handle, CUgraph graph, const CUgraphNode* dependencies,
                             std::size_t count) {
  return add_node(handle, graph, dependencies, count, CU_GRAPH_NODE_TYPE_EMPTY,
                  [](Driver&, GraphNode&) { return CUDA_SUCCESS; });
}

CUresult cuGraphAddEventRecordNode(CUgraphNode* handle, CUgraph graph,
                                   const CUgraphNode* dependencies, std::size_t count,
                                   CUevent event) {
  return add_node(handle, graph, dependencies, count, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
                  [&](Driver&, GraphNode& node) {
                    node.event = resolve<Event>(event);
                    return node.event == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
                  });
}

CUresult cuGraphAddEventWaitNode(CUgraphNode* handle, CUgraph graph,
                                 const CUgraphNode* dependencies, std::size_t count,
                                 CUevent event) {
  return add_node(handle, graph, dependencies, count, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
                  [&](Driver&, GraphNode& node) {
                    node.event = resolve<Event>(event);
                    return node.event == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
                  });
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* handle, CUgraph graph,
                                  const CUgraphNode* dependencies, std::size_t count,
                                  CUgraph child_handle) {
  return add_node(handle, graph, dependencies, count, CU_GRAPH_NODE_TYPE_GRAPH,
                  [&](Driver&, GraphNode& node) {
                    const auto child = resolve<Graph>(child_handle);
                    if (child == nullptr || child_handle == graph) return CUDA_ERROR_INVALID_VALUE;
                    node.child = clone_graph(*child, true);
                    return CUDA_SUCCESS;
                  });
}

namespace {

template <typename Body>
CUresult kernel_node_call(CUgraphNode handle, const Body& body) {
  return driver_call([&](Driver& driver) {
    const auto node = resolve<GraphNode>(handle);
    const auto graph = node == nullptr ? nullptr : node->graph.lock();
    if (graph == nullptr || node->type != CU_GRAPH_NODE_TYPE_KERNEL)
      return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(graph->mutex);
    return body(driver, *node);
  });
}

}  // namespace

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS* parameters) {
  return kernel_node_call(handle, [&](Driver&, GraphNode& node) {
    if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto& work = std::get<KernelWork>(node.work);
    // The pointers lead into the node and hold until it is changed or destroyed.
    node.parameter_pointers.clear();
    for (const Parameter& each : work.function->kernel().parameters)
      node.parameter_pointers.push_back(work.parameters.data() + each.offset);
    *parameters = {reinterpret_cast<CUfunction>(work.function->handle),
                   work.grid.x,
                   work.grid.y,
                   work.grid.z,
                   work.block.x,
                   work.block.y,
                   work.block.z,
                   work.dynamic_shared,
                   node.parameter_pointers.empty() ? nullptr : node.parameter_pointers.data(),
                   nullptr,
                   nullptr,
                   reinterpret_cast<CUcontext>(work.function->module->context)};
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_KERNEL_NODE_PARAMS wide{};
  const CUresult result = cuGraphKernelNodeGetParams_v2(handle, &wide);
  if (result != CUDA_SUCCESS) return result;
  *parameters = {wide.func,         wide.gridDimX,  wide.gridDimY,  wide.gridDimZ,
                 wide.blockDimX,    wide.blockDimY, wide.blockDimZ, wide.sharedMemBytes,
                 wide.kernelParams, wide.extra};
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode handle,
                                       const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return kernel_node_call(handle, [&](Driver& driver, GraphNode& node) -> CUresult {
    if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
    KernelWork work;
    std::shared_ptr<Context> context;
    if (const CUresult result = read_kernel_parameters(driver, *parameters, work, context))
      return result;
    node.work = std::move(work);
    node.context = std::move(context);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode handle,
                                    const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS wide = widen(*parameters);
  return cuGraphKernelNodeSetParams_v2(handle, &wide);
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec_handle, CUgraphNode handle,
                                           const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return driver_call([&](Driver& driver) -> CUresult {
    const auto exec = resolve<GraphExec>(exec_handle);
    if (exec == nullptr || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
    KernelWork work;
    std::shared_ptr<Context> context;
    if (const CUresult result = read_kernel_parameters(driver, *parameters, work, context))
      return result;
    std::lock_guard lock(exec->mutex);
    for (const auto& node : exec->graph->nodes) {
      if (node->original != reinterpret_cast<std::uint64_t>(handle) ||
          node->type != CU_GRAPH_NODE_TYPE_KERNEL)
        continue;
      if (node->context != context) return CUDA_ERROR_INVALID_VALUE;
      node->work = std::move(work);
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode handle,
                                        const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS wide = widen(*parameters);
  return cuGraphExecKernelNodeSetParams_v2(exec, handle, &wide);
}
