// The `kiln` command. Results go to standard output; progress and errors, one sentence each, to
// standard error. Exit status: 0 done, 1 failed, 2 wrong usage; `emulate` gives the program's own.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>

#include "kiln/driver/device.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/thread_pool.h"
#include "tools/commands.h"

namespace {

using namespace kiln::tools;

constexpr const char* kFile = "a MEF, or the text of graphs, which is compiled first";

void add_file(CLI::App& command, std::string& file, const char* what = kFile) {
  command.add_option("FILE", file, what)->type_name("")->required();
}

void add_weights(CLI::App& command, std::vector<std::string>& weights, const std::string& what) {
  command.add_option("--weights", weights, what)->type_name("PATH")->allow_extra_args(false);
}

/// Refuses what is no whole number of the range, "1e3" too.
CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
  return CLI::Validator(
      [=](std::string& text) {
        std::uint64_t value = 0;
        const char* end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        if (error == std::errc() && stop == end && value >= least && value <= most)
          return std::string();
        return kiln::format("'{}' is not a whole number from {} to {}", text, least, most);
      },
      "");
}

void add_program_options(CLI::App& command, ProgramOptions& options) {
  add_file(command, options.file);
  command.add_option("--input", options.inputs, "an input; those not given are random")
      ->type_name("NAME=FILE.npy")
      ->allow_extra_args(false);
  command.add_option("--dim", options.dims, "a symbolic dim; those not given are 1")
      ->type_name("NAME=N")
      ->allow_extra_args(false);
  command.add_option("--seed", options.seed, "seed of the random inputs")
      ->type_name("N")
      ->check(whole_number(0, std::numeric_limits<std::uint64_t>::max()));
  add_weights(command, options.weights, "safetensors file or folder");
  command.add_option("--graph", options.graph, "which graph, for a file that holds several")
      ->type_name("NAME");
  command.add_option("--threads", options.threads, "threads for kernels; 0: all cores")
      ->type_name("N")
      ->check(whole_number(0, kiln::ThreadPool::kMaxThreads));
}

/// What CLI11 says, without the end of line or full stop that some of its texts have.
std::string sentence(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '.')) text.pop_back();
  return text;
}

void check_command(const CLI::App& app, std::string_view given) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), given) == names.end())
    throw UsageError{
        kiln::format("There is no command '{}'; there are {}.", given, kiln::join(names, ", "))};
}

int run(int argc, char** argv) {
  CLI::App app("Runs, measures, inspects, explains and compiles kiln programs, and emulates GPUs.",
               "kiln");
  app.require_subcommand(1);
  app.set_version_flag("--version", kiln::version());

  RunOptions run_options;
  CLI::App* run = app.add_subcommand("run", "execute once and print the results");
  add_program_options(*run, run_options);
  run->add_option("--output", run_options.output, "folder that receives the results as .npy files")
      ->type_name("DIR");

  BenchOptions bench_options;
  CLI::App* bench =
      app.add_subcommand("bench", "measure the time of a call, of compile and of init");
  add_program_options(*bench, bench_options);
  bench->add_option("--warmup", bench_options.warmup, "calls before the measured ones")
      ->type_name("N")
      ->check(whole_number(0, 1 << 30));
  bench->add_option("--repeat", bench_options.repeat, "calls to measure")
      ->type_name("N")
      ->check(whole_number(1, 1 << 30));
  bench->add_flag("--json", bench_options.json, "print as JSON, times in seconds");

  InspectOptions inspect_options;
  CLI::App* inspect = app.add_subcommand(
      "inspect", "signature, weights, targets, fit, sections, kernels and memory plan");
  add_file(*inspect, inspect_options.file);
  inspect->add_flag("--json", inspect_options.json, "print as JSON");
  inspect
      ->add_option("--extract", inspect_options.extract,
                   "write the machine code to this file, as a shared object")
      ->type_name("PATH");
  inspect
      ->add_option("--level", inspect_options.level,
                   "which code to extract, such as x86-64-v3; absent: the one for this machine")
      ->type_name("LEVEL");

  ExplainOptions explain_options;
  CLI::App* explain = app.add_subcommand(
      "explain", "write a page that shows ops, kernels, bytes, flops and memory over time");
  add_file(*explain, explain_options.file);
  explain
      ->add_option("-o,--output", explain_options.output,
                   "the page; the file's name with .html in this folder if absent")
      ->type_name("OUT.html");

  CompileCommandOptions compile_options;
  CLI::App* compile = app.add_subcommand("compile", "compile the text of graphs into a MEF");
  add_file(*compile, compile_options.file,
           "the text of graphs; a MEF, to which --weights are added, will do too");
  compile->add_option("-o,--output", compile_options.output, "the MEF to write")
      ->type_name("OUT.mef")
      ->required();
  compile
      ->add_option("--target", compile_options.target,
                   "processor to compile for, such as x86-64-v3 or generic; this host's if absent")
      ->type_name("CPU");
  add_weights(*compile, compile_options.weights, "safetensors file or folder to store in the MEF");

  EmulateOptions emulate_options;
  CLI::App* emulate = app.add_subcommand(
      "emulate", "run a program on emulated GPUs: kiln emulate --devices 2 -- PROGRAM ARGS");
  const auto setting = [&](const char* name, std::string& value, const char* type,
                           const char* what) {
    emulate->add_option(name, value, what)->type_name(type);
  };
  setting("--devices", emulate_options.devices, "N", "how many devices there are; 1 if absent");
  setting("--memory", emulate_options.memory, "BYTES",
          "memory of each, such as 512M; a share of this machine's if absent");
  setting("--arch", emulate_options.arch, "N", "their architecture; 90, for sm_90, if absent");
  setting("--check", emulate_options.check, "LIST",
          "what is watched: memory, init, leak, with commas between them");
  setting("--seed", emulate_options.seed, "N", "makes the order of execution repeatable");
  setting("--fail", emulate_options.fail, "N:CODE", "the N-th driver call answers with this code");
  setting("--timeout", emulate_options.timeout, "SECONDS",
          "until kernels that wait for ever are reported");
  emulate
      ->add_option("PROGRAM", emulate_options.program, "the program and its arguments, behind --")
      ->type_name("")
      ->required();
  emulate->positionals_at_end();

  if (argc > 1 && argv[1][0] != '-') check_command(app, argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::string command = "kiln";
    for (const CLI::App* parsed : app.get_subcommands()) command += " " + parsed->get_name();
    throw UsageError{
        kiln::format("{}. '{} --help' lists what there is.", sentence(error.what()), command)};
  }
  if (run->parsed()) run_command(run_options);
  if (bench->parsed()) bench_command(bench_options);
  if (inspect->parsed()) inspect_command(inspect_options);
  if (explain->parsed()) explain_command(explain_options);
  if (compile->parsed()) compile_command(compile_options);
  if (emulate->parsed()) return emulate_command(emulate_options);
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
