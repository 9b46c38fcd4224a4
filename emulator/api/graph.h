#pragma once

#include <memory>

#include "emulator/api/capture.h"
#include "emulator/engine/graph.h"

namespace kiln::emulator {

/// Makes the launch of a graph into a captured stream a node of that capture.
CUresult capture_child(Stream& stream, Graph& graph);

/// The kernel work that parameters describe, for the context in them or the current one.
CUresult read_kernel_parameters(Driver& driver, const CUDA_KERNEL_NODE_PARAMS& parameters,
                                KernelWork& work, std::shared_ptr<Context>& context);

/// Ends the handles of a graph's nodes, and of its children's.
void retire_nodes(Graph& graph);

}  // namespace kiln::emulator
