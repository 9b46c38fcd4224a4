#pragma once

// Passes from graph to graph. They work on a copy that belongs to the compiler.

#include <string_view>

#include "kiln/graph/ir.h"

namespace kiln::compiler {

/// The attribute that tells from which op of the user's an op was made, such as "layer_norm".
inline constexpr std::string_view kExpandedFrom = "expanded_from";

/// Of such ops, the attribute of the one whose result is that of the user's op but for its shape.
inline constexpr std::string_view kExpansionResult = "expansion_result";

/// What the user calls an op: the name of the one that it was made from, or its own.
std::string_view user_name(const graph::ir::Op& op);

/// Replaces calls of subgraphs by the ops of the callee. A symbol that nothing defines: ValueError.
void inline_calls(graph::ir::Graph& graph);

/// Checks that a graph that promises so runs on one accelerator alone. An op that does not:
/// RuntimeError.
void check_device_graph(const graph::ir::Graph& graph);

/// Attributes of a product that is an attention, and of the ops it takes in.
inline constexpr std::string_view kAttention = "attention";
inline constexpr std::string_view kInsideAttention = "inside_attention";

/// Whether a dim is a size whatever its symbols are, which are sizes themselves.
bool is_never_negative(const graph::Dim& dim);

/// Gives ranges whose length may come out negative a size of their own, which is then 0.
void size_ranges(graph::ir::Graph& graph);

/// Marks products that are attentions.
void find_attention(graph::ir::Graph& graph);

/// Moves permutes behind what is done between convolutions, so that they cancel.
void keep_channels_last(graph::ir::Graph& graph);

/// Writes softmax, the norms and products of halves with simpler ops.
void expand(graph::ir::Graph& graph);

/// How many kinds of positions, by the taps that reach them, a transposed convolution has along an
/// axis.
std::int64_t phases_of_transposed(const graph::ir::Op& op, std::size_t axis);

/// Removes ops whose results nobody uses and that have no side effect.
void remove_dead_ops(graph::ir::Graph& graph);

}  // namespace kiln::compiler
