#pragma once

// Errors on their way out of the compiler say which op they are about.

#include <span>

#include "kiln/graph/ir.h"

namespace kiln::compiler {

/// Rethrows the exception in flight with a line "While compiling graph 'g', op 'add' (file:line)."
/// for each of `ops`, unless it has such lines already: the innermost place knows best. What is no
/// kiln::Error becomes one.
[[noreturn]] void rethrow_with_ops(std::span<const graph::ir::Op* const> ops);

/// The result of `work`, which is about `ops`.
template <typename Work>
decltype(auto) working_on(std::span<const graph::ir::Op* const> ops, const Work& work) {
  try {
    return work();
  } catch (...) {
    rethrow_with_ops(ops);
  }
}

template <typename Work>
decltype(auto) working_on(const graph::ir::Op& op, const Work& work) {
  const graph::ir::Op* one = &op;
  return working_on(std::span(&one, 1), work);
}

}  // namespace kiln::compiler
