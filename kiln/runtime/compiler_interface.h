#pragma once

// How the engine reaches libkiln_compiler, which is opened when the first graph must be compiled.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "kiln/graph/ir.h"
#include "kiln/runtime/artifact.h"

namespace kiln::runtime {

/// Raised when the interface below changes; a compiler library of another version is refused.
inline constexpr int kCompilerInterfaceVersion = 1;

/// How far a compile is: `done` of `total` steps, and what runs now, such as "kernel matmul+gelu".
struct CompileProgress {
  int done = 0;
  int total = 0;
  std::string_view what;
};

struct CompileOptions {
  /// "" for this host, "generic", or a processor name such as "x86-64-v3".
  std::string cpu_target;
  /// Check the results of every op that makes floats for NaN and infinities.
  bool nan_check = false;
  /// Folder that receives the IR after each stage; empty: none.
  std::string ir_output_dir;
  /// Threads that compile kernels, the caller included.
  int num_threads = 1;
  /// Called from the compiling thread; may be empty. Returning false cancels: RuntimeError.
  std::function<bool(const CompileProgress&)> progress;
};

/// Implemented by libkiln_compiler. Safe from any thread.
class Compiler {
 public:
  virtual ~Compiler() = default;
  /// Compiles every top-level graph of `module`. Failures: RuntimeError with the diagnostics and
  /// the user's source lines. `module` is not changed.
  virtual ArtifactContents compile(const graph::ir::Module& module,
                                   const CompileOptions& options) = 0;
  /// The name and features that `cpu_target` stands for. Unknown name: ValueError.
  virtual CpuTarget resolve_target(std::string_view cpu_target) = 0;
};

/// The one symbol that libkiln_compiler exports: returns the compiler (owned by the library), or
/// null when it does not speak `version`.
using CompilerEntry = Compiler* (*)(int version);
inline constexpr const char* kCompilerEntryName = "kiln_compiler_entry";

}  // namespace kiln::runtime
