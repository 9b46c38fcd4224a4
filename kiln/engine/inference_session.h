#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kiln/driver/device.h"
#include "kiln/engine/compiled_model.h"
#include "kiln/engine/debug_config.h"
#include "kiln/engine/model.h"
#include "kiln/engine/weights_registry.h"
#include "kiln/graph/graph.h"
#include "kiln/graph/ir.h"
#include "kiln/graph/module.h"
#include "kiln/runtime/compiler_interface.h"

namespace kiln::engine {

struct SessionOptions {
  /// Threads for kernels of this session's models, the caller included. 0 or nothing:
  /// KILN_NUM_THREADS, else as many as there are cores for this process. Negative: ValueError.
  std::optional<int> num_threads = std::nullopt;
};

struct CompileSettings {
  /// May change speed, never results.
  bool tile_based_fusion = false;
  /// Called from the compiling thread with how far it is; returning false cancels the compile with
  /// a RuntimeError.
  std::function<bool(const runtime::CompileProgress&)> progress = nullptr;
};

/// Compiles graphs and makes models of them. A small value; copies name the same session. Models
/// and artifacts outlive it. Safe from any thread: compilations of one session follow each other,
/// those of different sessions run in parallel.
class InferenceSession {
 public:
  /// Duplicates are removed and the host is appended when it is absent.
  explicit InferenceSession(std::vector<driver::Device> devices = {}, SessionOptions options = {});

  const std::vector<driver::Device>& devices() const;

  /// Compiles every top-level graph of `module`. Failures: RuntimeError that starts "Failed to
  /// compile the model." and quotes the user's source lines.
  CompiledModel compile(const graph::ir::Module& module,
                        const CompileSettings& settings = {}) const;
  CompiledModel compile(const graph::Module& module, const CompileSettings& settings = {}) const {
    return compile(module.ir(), settings);
  }
  /// Compiles the module of `graph`.
  CompiledModel compile(const graph::Graph& graph, const CompileSettings& settings = {}) const {
    return compile(graph.module().ir(), settings);
  }
  /// Reads the MEF at `path`; see `read`.
  CompiledModel compile(const std::string& path, const CompileSettings& settings = {}) const;
  CompiledModel compile(const char* path, const CompileSettings& settings = {}) const {
    return compile(std::string(path), settings);
  }
  CompiledModel compile(const CompiledModel& compiled, const CompileSettings& = {}) const {
    return compiled;
  }
  /// Returns at once; a failure appears when the result is used.
  CompiledModel compile_async(const graph::ir::Module& module,
                              const CompileSettings& settings = {}) const;

  /// Binds weights and makes the one graph of the artifact ready to run. More or fewer graphs:
  /// ValueError; weights that do not fit: ValueError; a machine that does not: RuntimeError.
  Model init(const CompiledModel& compiled, const WeightsRegistry& registry = {}) const;
  /// The same for every graph, in the order of the artifact. Equal names: RuntimeError.
  std::vector<std::pair<std::string, Model>> init_all(const CompiledModel& compiled,
                                                      const WeightsRegistry& registry = {}) const;
  /// `compile` and `init`; `model` is whatever `compile` takes.
  template <typename T>
  Model load(const T& model, const WeightsRegistry& registry = {},
             const CompileSettings& settings = {}) const {
    return init_one(compile(model, settings), registry, "load_all");
  }
  /// `compile` and `init_all`.
  template <typename T>
  std::vector<std::pair<std::string, Model>> load_all(const T& model,
                                                      const WeightsRegistry& registry = {},
                                                      const CompileSettings& settings = {}) const {
    return init_all(compile(model, settings), registry);
  }

  /// How `print` ops of all models of this session show tensors, also of those already made. A
  /// binary style without a directory: ValueError.
  void set_debug_print_options(PrintStyle style = PrintStyle::COMPACT, int precision = 6,
                               const std::string& output_directory = "") const;

  /// The debug settings of the process.
  static DebugConfig& debug() { return debug_config(); }

  /// "<kiln engine InferenceSession>", "<kiln engine InferenceSession(num_threads=4)>".
  std::string repr() const;

 private:
  struct State;
  Model init_one(const CompiledModel& compiled, const WeightsRegistry& registry,
                 const char* many) const;
  std::shared_ptr<State> state_;
};

}  // namespace kiln::engine
