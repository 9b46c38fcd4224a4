#pragma once

// Graphs that are recorded while code over tensors runs: they take inputs as these turn up, and
// parts of them become programs.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kiln/graph/graph.h"
#include "kiln/graph/ir.h"
#include "kiln/graph/value.h"

namespace kiln::graph {

/// A further input of a graph that is being built, which defines the symbols of its type.
Value append_input(const Graph& graph, const Type& type);
/// Has a graph know the symbols of the current one, if there is one.
void see_symbols(const Graph& graph);
/// Has `symbol` stand for `size` in the current graph, unless it stands for a size already.
void define_symbol(const std::string& symbol, const Dim& size);
/// Makes the tensor `input` a buffer. What has read it so far reads what the buffer holds at first.
BufferValue make_writable(const Graph& graph, const Value& input);

/// Whether a function of control flow is being recorded into the graph.
bool is_in_region(const Graph& graph);
/// Whether the value was made in such a function.
bool is_of_region(const Graph& graph, const Value& value);

/// Puts a constant in the place of the tensor `input`, which nothing reads any more.
void bake_input(const Graph& graph, const Value& input, const void* data, std::size_t size);

/// The constant of the current graph that holds the elements of `owner`; `make` makes it on first
/// use.
TensorValue held_constant(const std::shared_ptr<const void>& owner,
                          const std::function<TensorValue()>& make);

/// Applies `op`, of any graph, to values of the current one, with other attributes. What has no
/// operands makes what `op` makes, on `device`.
std::vector<Value> repeat_op(const ir::Op& op, const std::vector<Value>& operands,
                             ir::Attributes attributes, DeviceRef device);

/// Part of a graph.
struct GraphPart {
  std::unique_ptr<ir::Module> module;  // of this graph and the ones it calls
  /// The numbers in the whole graph of the inputs that the part takes, in its order.
  std::vector<std::size_t> inputs;
};
/// One op by itself, as a graph of its operands, chains aside, that gives its results. `inputs` are
/// the numbers of these operands.
GraphPart isolate(const ir::Op& op);
/// What computes `results`, which become its outputs; with `effects` also the side effects.
GraphPart extract(const Graph& graph, const std::vector<Value>& results, bool effects);

}  // namespace kiln::graph
