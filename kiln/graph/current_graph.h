#pragma once

#include <span>

#include "kiln/graph/graph_state.h"

namespace kiln::graph::detail {

/// The current graph, for an op on `operands`. None: ValueError when one of them is a weight, which
/// joins the graph that uses it, else LookupError.
const std::shared_ptr<GraphState>& current_graph_for(std::span<const Value> operands);

}  // namespace kiln::graph::detail
