#pragma once

// How what tensors record at once is run.

#include <cstdint>
#include <string_view>

#include "kiln/support/error.h"

namespace kiln::experimental {

/// A graph that an executor cannot run.
class UnsupportedGraphError : public RuntimeError {
 public:
  using RuntimeError::RuntimeError;
};

/// What runs the graph of a function of one graph or of a lazy block. An op that is called by
/// itself is always one compiled program.
///   composite    the first time a graph of at most `KILN_INTERPRETER_MAX_OPS` ops (1024) is met,
///                its ops run one by one; others, and graphs that come again, are compiled.
///   interpreter  ops run one by one, each by a program that is made once for its types. A graph
///                that is larger, or has an op that runs others: UnsupportedGraphError.
///   compile      a graph is compiled as a whole.
///   jit          as the interpreter until a compilation in the background is there.
/// Compiled programs are found again by the structure of the graph.
enum class Executor : std::uint8_t { composite, interpreter, compile, jit };
std::string_view to_string(Executor executor);
/// An unknown name: ValueError.
Executor executor_from_string(std::string_view name);

/// The one in force: that of the innermost guard of this thread, else the process's, which is
/// `KILN_EAGER_EXECUTOR` or composite.
Executor default_executor();
/// Changes the process's.
void set_default_executor(Executor executor);

/// Sets the executor of this thread until it goes out of scope; guards nest.
class ExecutorGuard {
 public:
  explicit ExecutorGuard(Executor executor);
  ~ExecutorGuard();
  ExecutorGuard(const ExecutorGuard&) = delete;
  ExecutorGuard& operator=(const ExecutorGuard&) = delete;

 private:
  Executor executor_;
  const Executor* outer_;
};

}  // namespace kiln::experimental
