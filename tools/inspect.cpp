#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "kiln/engine/explain.h"
#include "kiln/runtime/image.h"
#include "kiln/support/error.h"
#include "kiln/support/file.h"
#include "kiln/support/format.h"
#include "tools/commands.h"
#include "tools/memory_plan.h"

namespace kiln::tools {
namespace {

using nlohmann::json;

std::string tensor_line(const json& tensor) {
  std::vector<std::string> dims;
  for (const json& dim : tensor["shape"])
    dims.push_back(dim.is_string() ? dim.get<std::string>()
                                   : format("{}", dim.get<std::int64_t>()));
  return format("{}: {} [{}] on {}{}", tensor["name"].get<std::string>(),
                tensor["dtype"].get<std::string>(), join(dims, ", "),
                tensor["device"].get<std::string>(),
                tensor.value("written", false)  ? ", written in place"
                : tensor.value("buffer", false) ? ", a buffer that is only read"
                                                : "");
}

void print_line(const std::string& line) { std::printf("%s\n", line.c_str()); }

void print_text(const json& facts) {
  print_line(format("format {}, made by kiln {}, runtime interface {}",
                    facts["format_version"].get<std::string>(),
                    facts["kiln_version"].get<std::string>(),
                    facts["runtime_interface"].get<int>()));
  print_line(facts["compatible"].get<bool>() ? "fits this machine" : "does not fit this machine:");
  for (const json& reason : facts["reasons"]) print_line("  " + reason.get<std::string>());
  for (const json& graph : facts["graphs"]) {
    print_line(format("\ngraph {}", graph["name"].get<std::string>()));
    for (const json& input : graph["inputs"]) print_line("  input  " + tensor_line(input));
    for (const json& output : graph["outputs"]) print_line("  output " + tensor_line(output));
    for (const json& weight : graph["weights"]) print_line("  weight " + weight.get<std::string>());
    for (const json& kernel : graph["kernels"]) print_line("  kernel " + kernel.get<std::string>());
  }
  if (!facts["weights"].empty()) print_line("\nweights");
  for (const json& weight : facts["weights"])
    print_line(format("  {}, {} bytes{}", tensor_line(weight), weight["bytes"].get<std::uint64_t>(),
                      weight["carried"].get<bool>() ? ", carried" : ""));
  print_line("\ntargets");
  for (const json& target : facts["targets"])
    print_line(format("  {} {} ({}): {}", target["triple"].get<std::string>(),
                      target["cpu"].get<std::string>(), target["level"].get<std::string>(),
                      join(target["features"].get<std::vector<std::string>>(), " ")));
  print_line("\nsections");
  for (const json& section : facts["sections"])
    print_line(format("  {:<10} {:>12} bytes at {}", section["kind"].get<std::string>(),
                      section["length"].get<std::uint64_t>(),
                      section["offset"].get<std::uint64_t>()));
  const std::string memory = memory_plan_text(facts["plan"]);
  std::fwrite(memory.data(), 1, memory.size(), stdout);
}

void extract(const runtime::Artifact& artifact, const InspectOptions& options) {
  refuse_same_file("--extract", options.file, options.extract);
  std::span<const std::byte> image;
  if (options.level.empty()) {
    image = artifact.section(runtime::select_image(artifact));
  } else {
    std::vector<std::string> levels;
    for (const auto& section : artifact.header().sections) {
      if (section.kind != "code.cpu") continue;
      levels.push_back(artifact.header().targets[*section.target].level);
      if (levels.back() == options.level) image = artifact.section(section);
    }
    if (image.empty())
      throw UsageError{format("'{}' has no code for level '{}'; it has {}.", options.file,
                              options.level, join(levels, ", "))};
  }
  write_file(options.extract, {reinterpret_cast<const char*>(image.data()), image.size()});
}

}  // namespace

void inspect_command(const InspectOptions& options) {
  if (!options.level.empty() && options.extract.empty())
    throw UsageError{"--level chooses what --extract writes; give --extract PATH too."};
  const engine::InferenceSession session;
  const engine::CompiledModel compiled = open_program(session, options.file);
  if (!options.extract.empty()) {
    extract(*compiled.artifact(), options);
    return;
  }
  const std::string facts = engine::describe(compiled);
  if (options.json)
    print_line(facts);
  else
    print_text(json::parse(facts));
}

void explain_command(const ExplainOptions& options) {
  const engine::InferenceSession session;
  const std::filesystem::path file(options.file);
  const std::string output =
      options.output.empty() ? file.stem().string() + ".html" : options.output;
  refuse_same_file("-o", options.file, output);
  write_file(output,
             engine::explain(open_program(session, options.file), file.filename().string()));
  print_line(format("wrote {}", output));
}

}  // namespace kiln::tools
