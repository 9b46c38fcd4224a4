#pragma once

#include <functional>
#include <unordered_map>

#include "kiln/graph/ir.h"

namespace kiln::graph::ir {

/// Which ops and arguments of a graph's body a copy takes over; what stays uses nothing else.
struct CloneFilter {
  std::function<bool(const Op&)> op;
  std::function<bool(const Value&)> argument;
};
/// A deep copy of one graph for `module`. `map`, when given, receives old value -> new value.
std::unique_ptr<Graph> clone_graph(const Graph& graph, Module* module,
                                   std::unordered_map<const Value*, Value*>* map = nullptr,
                                   const CloneFilter* filter = nullptr);

/// Checks that every op has the types its rules give and uses only values that come before it.
/// A violation: InternalError.
void verify(const Graph& graph);

}  // namespace kiln::graph::ir
