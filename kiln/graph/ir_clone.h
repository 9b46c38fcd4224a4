#pragma once

#include <unordered_map>

#include "kiln/graph/ir.h"

namespace kiln::graph::ir {

/// A deep copy of one graph for `module`. `map`, when given, receives old value -> new value.
std::unique_ptr<Graph> clone_graph(const Graph& graph, Module* module,
                                   std::unordered_map<const Value*, Value*>* map = nullptr);

/// Checks that every op has the types its rules give and uses only values that come before it.
/// A violation: InternalError.
void verify(const Graph& graph);

}  // namespace kiln::graph::ir
