#pragma once

// Passes from graph to graph. They work on a copy that belongs to the compiler.

#include <string_view>

#include "kiln/graph/ir.h"

namespace kiln::compiler {

/// The attribute that tells from which op of the user's an op was made, such as "layer_norm".
inline constexpr std::string_view kExpandedFrom = "expanded_from";

/// Replaces calls of subgraphs by the ops of the callee.
void inline_calls(graph::ir::Graph& graph);

/// Attributes of a product that is an attention, and of the ops it takes in.
inline constexpr std::string_view kAttention = "attention";
inline constexpr std::string_view kInsideAttention = "inside_attention";

/// Marks products that are attentions.
void find_attention(graph::ir::Graph& graph);

/// Writes softmax, the norms and products of halves with simpler ops.
void expand(graph::ir::Graph& graph);

/// Removes ops whose results nobody uses and that have no side effect.
void remove_dead_ops(graph::ir::Graph& graph);

}  // namespace kiln::compiler
