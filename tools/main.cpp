// The `kiln` command. Results go to standard output; progress and errors, one sentence each, to
// standard error. Exit status: 0 done, 1 failed, 2 wrong usage.

#include <CLI/CLI.hpp>
#include <cstdio>

#include "kiln/driver/device.h"
#include "kiln/support/error.h"
#include "tools/commands.h"

namespace {

using namespace kiln::tools;

constexpr const char* kFile = "a MEF, or the text of graphs, which is compiled first";

void add_program_options(CLI::App& command, ProgramOptions& options) {
  command.add_option("file", options.file, kFile)->required();
  command.add_option("--input", options.inputs, "NAME=FILE.npy; inputs not given are random")
      ->allow_extra_args(false);
  command.add_option("--dim", options.dims, "NAME=N; symbolic dims not given are 1")
      ->allow_extra_args(false);
  command.add_option("--seed", options.seed, "seed of the random inputs");
  command.add_option("--weights", options.weights, "safetensors file or folder; may be repeated")
      ->allow_extra_args(false);
  command.add_option("--graph", options.graph, "which graph, for a file that holds several");
}

int run(int argc, char** argv) {
  CLI::App app("Runs, measures, inspects and compiles kiln programs.", "kiln");
  app.require_subcommand(1);
  app.set_version_flag("--version", kiln::version());

  RunOptions run_options;
  CLI::App* run = app.add_subcommand("run", "execute once and print the results");
  add_program_options(*run, run_options);
  run->add_option("--output", run_options.output, "folder that receives the results as .npy files");

  BenchOptions bench_options;
  CLI::App* bench =
      app.add_subcommand("bench", "measure the time of a call, of compile and of init");
  add_program_options(*bench, bench_options);
  bench->add_option("--threads", bench_options.threads, "threads for kernels; 0: all cores")
      ->check(CLI::Range(0, 1024));
  bench->add_option("--warmup", bench_options.warmup, "calls before the measured ones")
      ->check(CLI::NonNegativeNumber);
  bench->add_option("--repeat", bench_options.repeat, "calls to measure")
      ->check(CLI::Range(1, 1 << 30));

  InspectOptions inspect_options;
  CLI::App* inspect = app.add_subcommand(
      "inspect", "signature, weights, targets, fit, sections, kernels and memory plan");
  inspect->add_option("file", inspect_options.file, kFile)->required();
  inspect->add_flag("--json", inspect_options.json, "print as JSON");
  inspect->add_option("--extract", inspect_options.extract,
                      "write the machine code to this file, as a shared object");
  inspect->add_option("--level", inspect_options.level, "which code to extract, such as x86-64-v3");

  CompileCommandOptions compile_options;
  CLI::App* compile = app.add_subcommand("compile", "compile the text of graphs into a MEF");
  compile->add_option("file", compile_options.file, kFile)->required();
  compile->add_option("-o,--output", compile_options.output, "the MEF to write")->required();
  compile->add_option(
      "--target", compile_options.target,
      "processor to compile for, such as x86-64-v3 or generic; this host's if absent");
  compile->add_option("--weights", compile_options.weights, "safetensors to store in the MEF")
      ->allow_extra_args(false);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (run->parsed()) run_command(run_options);
  if (bench->parsed()) bench_command(bench_options);
  if (inspect->parsed()) inspect_command(inspect_options);
  if (compile->parsed()) compile_command(compile_options);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int status = run(argc, argv);
    if (std::fflush(stdout) != 0) {
      std::fprintf(stderr, "kiln: the results cannot be written to standard output\n");
      return 1;
    }
    return status;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "kiln: %s\n", error.message.c_str());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kiln: %s\n", error.what());
    return 1;
  }
}
