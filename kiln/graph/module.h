#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kiln/graph/ir.h"
#include "kiln/support/ref.h"

namespace kiln::graph {

namespace detail {
struct ModuleState;
}

/// Several graphs that are compiled together: give it to each `Graph` as an option. A handle.
class Module {
 public:
  Module();

  /// The graphs that are no subgraphs, in the order they were added.
  std::vector<std::string> top_level_graph_names() const;
  /// The IR text of every graph, subgraphs included.
  std::string to_string() const;
  std::string to_text(const ir::TextOptions& options = {}) const;
  /// What the compiler reads.
  const ir::Module& ir() const;

  friend bool operator==(const Module&, const Module&) = default;

  explicit Module(std::shared_ptr<detail::ModuleState> state) : state_(std::move(state)) {}
  const std::shared_ptr<detail::ModuleState>& state() const { return state_.checked(); }

 private:
  Shared<detail::ModuleState> state_;
};

}  // namespace kiln::graph
