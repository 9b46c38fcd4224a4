#pragma once

// Runs recorded graphs. Internal to kiln/experimental.

#include <memory>
#include <span>
#include <vector>

#include "kiln/driver/buffer.h"
#include "kiln/engine/model.h"
#include "kiln/graph/ir.h"

namespace kiln::experimental::detail {

/// The results of a module's first graph, and the program that made them; null when its ops ran one
/// by one.
struct Execution {
  engine::Model::Outputs outputs;
  std::shared_ptr<const engine::Model> model;
};
/// With `whole` it is one program in any case but for Executor::interpreter.
Execution run_recorded(const graph::ir::Module& module, std::span<const driver::Buffer> inputs,
                       bool whole);

}  // namespace kiln::experimental::detail
