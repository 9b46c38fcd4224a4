#include "tools/commands.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "kiln/driver/virtual_device.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "tools/npy.h"

namespace kiln::tools {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void print_line(const std::string& line) { std::printf("%s\n", line.c_str()); }

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    throw RuntimeError(format("The folder '{}' cannot be made: {}.", path, error.message()));
}

}  // namespace

void run_command(const RunOptions& options) {
  const engine::InferenceSession session({}, {.num_threads = options.threads});
  const engine::CompiledModel compiled = open_program(session, options.file);
  const engine::Model model = make_model(session, compiled, options);
  const std::vector<driver::Buffer> inputs = make_inputs(compiled, model, options);
  if (!options.output.empty()) make_folder(options.output);
  const auto outputs = model.execute(std::span<const driver::Buffer>(inputs));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = model.output_metadata()[i].name;
    print_line(format("{} = {}", name, outputs[i].to_string()));
    if (!options.output.empty())
      write_npy((std::filesystem::path(options.output) / (name + ".npy")).string(), outputs[i]);
  }
}

void bench_command(const BenchOptions& options) {
  const engine::InferenceSession session({}, {.num_threads = options.threads});
  auto start = std::chrono::steady_clock::now();
  const engine::CompiledModel compiled = open_program(session, options.file);
  const double compile_time = seconds_since(start);
  start = std::chrono::steady_clock::now();
  const engine::Model model = make_model(session, compiled, options);
  const double init_time = seconds_since(start);
  const std::vector<driver::Buffer> inputs = make_inputs(compiled, model, options);
  const std::span<const driver::Buffer> arguments(inputs);
  for (int i = 0; i < options.warmup; ++i) (void)model.execute(arguments);
  std::vector<double> times(static_cast<std::size_t>(options.repeat));
  for (double& time : times) {
    start = std::chrono::steady_clock::now();
    const auto outputs = model.execute(arguments);
    time = seconds_since(start);
  }
  std::sort(times.begin(), times.end());
  auto quantile = [&](double share) {
    const auto last = static_cast<double>(times.size() - 1);
    return times[static_cast<std::size_t>(share * last + 0.5)];
  };
  const double mean =
      std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  if (options.json) {
    const nlohmann::json facts{
        {"compile", compile_time},  {"init", init_time},        {"calls", options.repeat},
        {"warmup", options.warmup}, {"minimum", times.front()}, {"median", quantile(0.5)},
        {"p90", quantile(0.9)},     {"p99", quantile(0.99)},    {"mean", mean}};
    print_line(facts.dump(2));
    return;
  }
  print_line(format("compile  {}", duration_text(compile_time)));
  print_line(format("init     {}", duration_text(init_time)));
  print_line(format("calls    {} after {} to warm up", options.repeat, options.warmup));
  print_line(format("minimum  {}", duration_text(times.front())));
  print_line(format("median   {}", duration_text(quantile(0.5))));
  print_line(format("p90      {}", duration_text(quantile(0.9))));
  print_line(format("p99      {}", duration_text(quantile(0.99))));
  print_line(format("mean     {}", duration_text(mean)));
}

void refuse_same_file(const char* option, const std::string& source, const std::string& output) {
  std::error_code ignored;
  if (std::filesystem::equivalent(source, output, ignored))
    throw UsageError{
        format("{}: '{}' is the source itself, which would be replaced; give another file.", option,
               output)};
}

void compile_command(const CompileCommandOptions& options) {
  refuse_same_file("-o", options.file, options.output);
  if (!options.target.empty() && is_mef(options.file))
    throw UsageError{
        format("'{}' is compiled already, so --target cannot change what it is for; give the text "
               "of its graphs.",
               options.file)};
  try {
    driver::set_virtual_cpu_target(options.target);
  } catch (const ValueError&) {
    throw UsageError{
        format("--target: '{}' is not the name of a processor of this host's family. Give a name "
               "such as x86-64-v3, or generic for the lowest baseline.",
               options.target)};
  }
  const engine::InferenceSession session;
  const engine::CompiledModel compiled = open_program(session, options.file);
  if (options.weights.empty())
    compiled.export_mef(options.output);
  else
    compiled.export_mef(options.output, open_weights(options.weights));
}

}  // namespace kiln::tools
