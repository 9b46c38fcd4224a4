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
#include "kiln/support/log.h"
#include "kiln/support/ref.h"

namespace kiln::engine {

struct SessionOptions {
  /// Threads for kernels of the InferenceSession's models, the caller included. 0 or nothing:
  /// KILN_NUM_THREADS, else as many as there are cores for this process. Negative: ValueError.
  std::optional<std::int64_t> num_threads = std::nullopt;
  /// Folders for `compile_reusing_mefs`: one that an exporting session has filled, one to fill.
  /// Both: ValueError; the former without a manifest: FileNotFoundError.
  std::string precompiled_mefs = {};
  std::string export_mefs = {};
};

/// Run-time checks that are compiled into kernels of user libraries.
enum class AssertLevel : std::uint8_t { NONE, WARN, SAFE, ALL };

/// How an accelerator's matmul that splits its inner axis keeps partial sums: in the type of its
/// accumulators or in that of its result.
enum class SplitKReductionPrecision : std::uint8_t { ACCUM, OUTPUT };

/// Markers for an accelerator's profiler.
enum class GpuProfilingMode : std::uint8_t { off, on, detailed };

/// Values by their names. Unknown name: TypeError with the choices.
LogLevel kernel_log_level_from_string(std::string_view name);
AssertLevel assert_level_from_string(std::string_view name);
SplitKReductionPrecision split_k_reduction_precision_from_string(std::string_view name);
GpuProfilingMode gpu_profiling_mode_from_string(std::string_view name);

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
  /// As `compile`, but returns at once; a failure appears when the result is used.
  CompiledModel compile_async(const graph::ir::Module& module,
                              const CompileSettings& settings = {}) const;
  CompiledModel compile_async(const graph::Module& module,
                              const CompileSettings& settings = {}) const {
    return compile_async(module.ir(), settings);
  }
  CompiledModel compile_async(const graph::Graph& graph,
                              const CompileSettings& settings = {}) const {
    return compile_async(graph.module().ir(), settings);
  }
  CompiledModel compile_async(const std::string& path, const CompileSettings& settings = {}) const;
  CompiledModel compile_async(const char* path, const CompileSettings& settings = {}) const {
    return compile_async(std::string(path), settings);
  }
  CompiledModel compile_async(const CompiledModel& compiled, const CompileSettings& = {}) const {
    return compiled;
  }

  /// Compiles through the session's folder: reads the graph's file of `precompiled_mefs` and never
  /// compiles, or writes it to `export_mefs`; without a folder as `compile`. The module has exactly
  /// one top-level graph: else ValueError.
  CompiledModel compile_reusing_mefs(const graph::ir::Module& module,
                                     const CompileSettings& settings = {}) const;
  CompiledModel compile_reusing_mefs(const graph::Module& module,
                                     const CompileSettings& settings = {}) const {
    return compile_reusing_mefs(module.ir(), settings);
  }
  CompiledModel compile_reusing_mefs(const graph::Graph& graph,
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

  /// How `print` ops of the models made here show tensors, also of those already made. A
  /// binary style without a directory: ValueError.
  void set_debug_print_options(PrintStyle style = PrintStyle::COMPACT, int precision = 6,
                               const std::string& output_directory = "") const;

  /// Which lines kernels of user libraries log, and which checks are compiled into them, from the
  /// next compile on: the debug settings `op_log_level` and `assert_level` of the process. kiln's
  /// own ops log nothing and have their checks in at every level.
  void set_kernel_log_level(LogLevel level) const;
  void set_kernel_assert_level(AssertLevel level) const;
  /// Matters to accelerators only: kernels of the CPU do not split K.
  void set_split_k_reduction_precision(SplitKReductionPrecision) const {}
  /// Matters to accelerators only; a timeline of CPU work is what KILN_TRACE records.
  void gpu_profiling(GpuProfilingMode) const {}

  /// The debug settings of the process.
  static DebugConfig& debug() { return debug_config(); }

  /// "<kiln engine InferenceSession>", "<kiln engine InferenceSession(num_threads=4)>".
  std::string repr() const;

 private:
  struct State;
  Model init_one(const CompiledModel& compiled, const WeightsRegistry& registry,
                 const char* many) const;
  Shared<State> state_;
};

}  // namespace kiln::engine
