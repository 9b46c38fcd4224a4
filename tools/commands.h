#pragma once

#include <string>

#include "tools/program.h"

namespace kiln::tools {

struct RunOptions : ProgramOptions {
  std::string output;  // folder for the results
};

struct BenchOptions : ProgramOptions {
  int warmup = 10;
  int repeat = 100;
  bool json = false;
};

struct InspectOptions {
  std::string file;
  bool json = false;
  std::string extract;  // receives a code image
  std::string level;    // of that image; empty: the one for this machine
};

struct ExplainOptions {
  std::string file;
  std::string output;  // of the page
};

struct CompileCommandOptions {
  std::string file;
  std::string output;
  std::string target;
  std::vector<std::string> weights;
};

struct EmulateOptions {
  std::string devices, memory, arch, check, seed, fail, timeout;  // as their variables take them
  std::vector<std::string> program;
};

/// UsageError when what an option writes would take the place of the file that is read.
void refuse_same_file(const char* option, const std::string& source, const std::string& output);

void run_command(const RunOptions& options);
void bench_command(const BenchOptions& options);
void inspect_command(const InspectOptions& options);
void explain_command(const ExplainOptions& options);
void compile_command(const CompileCommandOptions& options);
/// Returns the exit status of the program, as a shell gives it.
int emulate_command(const EmulateOptions& options);

}  // namespace kiln::tools
