#include <cstdio>
#include <nlohmann/json.hpp>

#include "kiln/runtime/image.h"
#include "kiln/support/error.h"
#include "kiln/support/file.h"
#include "kiln/support/format.h"
#include "tools/commands.h"
#include "tools/memory_plan.h"

namespace kiln::tools {
namespace {

using nlohmann::json;

json shape_json(const graph::Shape& shape) {
  json list = json::array();
  for (const graph::Dim& dim : shape) {
    if (dim.is_static())
      list.push_back(dim.value());
    else
      list.push_back(dim.to_string());
  }
  return list;
}

json tensors_json(const std::vector<runtime::TensorSignature>& tensors) {
  json list = json::array();
  for (const auto& tensor : tensors)
    list.push_back({{"name", tensor.name},
                    {"dtype", tensor.dtype.name()},
                    {"shape", shape_json(tensor.shape)},
                    {"device", tensor.device.to_string()},
                    {"buffer", tensor.is_buffer},
                    {"written", tensor.is_written}});
  return list;
}

/// The plan that the compiler wrote down, or an empty object.
json plan_of(const runtime::Artifact& artifact) {
  const auto bytes = artifact.section("plan");
  const char* begin = reinterpret_cast<const char*>(bytes.data());
  return parse_plan(begin, begin + bytes.size());
}

json describe(const engine::CompiledModel& compiled) {
  const runtime::Artifact& artifact = *compiled.artifact();
  const runtime::ArtifactHeader& header = artifact.header();
  const engine::MefInfo info = compiled.info();
  json graphs = json::array();
  for (const auto& graph : header.graphs) {
    json weights = json::array();
    for (std::uint32_t index : graph.weights) weights.push_back(header.weights[index].name);
    graphs.push_back({{"name", graph.name},
                      {"inputs", tensors_json(graph.inputs)},
                      {"outputs", tensors_json(graph.outputs)},
                      {"symbols", graph.symbols},
                      {"weights", weights},
                      {"kernels", artifact.kernel_summaries(graph.name)}});
  }
  json weights = json::array();
  for (const auto& weight : header.weights)
    weights.push_back({{"name", weight.name},
                       {"dtype", weight.dtype.name()},
                       {"shape", shape_json(weight.shape)},
                       {"device", weight.device.to_string()},
                       {"bytes", runtime::packed_bytes(weight.dtype, weight.shape)},
                       {"carried", weight.offset.has_value()}});
  json targets = json::array();
  for (const auto& target : header.targets)
    targets.push_back({{"triple", target.triple},
                       {"cpu", target.cpu},
                       {"level", target.level},
                       {"features", target.features}});
  json sections = json::array();
  for (const auto& section : header.sections)
    sections.push_back({{"kind", section.kind},
                        {"offset", section.offset},
                        {"length", section.length},
                        {"checksum", format("{:016x}", section.checksum)}});
  return {{"format_version", info.format_version},
          {"kiln_version", info.kiln_version},
          {"runtime_interface", info.runtime_interface},
          {"created_at", header.created_at},
          {"compatible", info.compatible},
          {"reasons", info.reasons},
          {"graphs", graphs},
          {"weights", weights},
          {"targets", targets},
          {"custom_kernels", info.custom_kernels},
          {"sections", sections},
          {"plan", plan_of(artifact)}};
}

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
  const json facts = describe(compiled);
  if (options.json)
    print_line(facts.dump(2, ' ', false, json::error_handler_t::replace));
  else
    print_text(facts);
}

}  // namespace kiln::tools
