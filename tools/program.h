#pragma once

// What the commands share: reading the file they are given and making its inputs.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/driver/buffer.h"
#include "kiln/engine/compiled_model.h"
#include "kiln/engine/inference_session.h"
#include "kiln/engine/model.h"

namespace kiln::tools {

/// A wrong use of the command line that only shows when an option is looked at closely.
struct UsageError {
  std::string message;
};

/// Options that say what to run.
struct ProgramOptions {
  std::string file;                  // MEF or IR text
  std::vector<std::string> weights;  // safetensors files or folders
  std::string graph;                 // which graph; empty: the only one
  std::vector<std::string> inputs;   // NAME=FILE.npy
  std::vector<std::string> dims;     // NAME=N
  std::uint64_t seed = 0;
  int threads = 0;  // for kernels; 0: all cores
};

/// Whether the file starts as a MEF does.
bool is_mef(const std::string& file);

/// Reads a MEF, or compiles IR text and shows how far that is when standard error is a terminal.
engine::CompiledModel open_program(const engine::InferenceSession& session,
                                   const std::string& file);

/// The weights of all files together.
engine::WeightsRegistry open_weights(const std::vector<std::string>& paths);

/// Makes the model that the options name.
engine::Model make_model(const engine::InferenceSession& session,
                         const engine::CompiledModel& compiled, const ProgramOptions& options);

/// The inputs of a call: those given as files, and random numbers of the given seed for the others.
/// Symbolic dims come from the files, then from `dims`, else they are 1. A file or dim that does
/// not fit the graph: ValueError that names both.
std::vector<driver::Buffer> make_inputs(const engine::CompiledModel& compiled,
                                        const engine::Model& model, const ProgramOptions& options);

/// Splits NAME=VALUE. No "=": UsageError.
std::pair<std::string, std::string> split_setting(const std::string& option,
                                                  const std::string& text);

/// "12.3 us" and so on.
std::string duration_text(double seconds);

}  // namespace kiln::tools
