#include "kiln/engine/explain.h"

#include <nlohmann/json.hpp>

#include "kiln/engine/explain_page.h"
#include "kiln/engine/plan_internal.h"
#include "kiln/runtime/artifact.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::engine {
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

json describe_json(const CompiledModel& compiled) {
  const runtime::Artifact& artifact = *compiled.artifact();
  const runtime::ArtifactHeader& header = artifact.header();
  const MefInfo info = compiled.info();
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
          {"plan", parse_plan(artifact.section("plan"))}};
}

std::string text_of(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

}  // namespace

json parse_plan(std::span<const std::byte> text) {
  constexpr int kDeepest = 8;
  const auto shallow = [](int depth, json::parse_event_t, json&) { return depth <= kDeepest; };
  const char* begin = reinterpret_cast<const char*>(text.data());
  json plan = json::parse(begin, begin + text.size(), shallow, false);
  return plan.is_object() ? plan : json::object();
}

std::string describe(const CompiledModel& compiled) { return text_of(describe_json(compiled), 2); }

std::string explain(const CompiledModel& compiled, std::string_view name) {
  const auto ir = compiled.artifact()->section("ir");
  const json data = {{"file", name},
                     {"artifact", describe_json(compiled)},
                     {"ir", std::string(reinterpret_cast<const char*>(ir.data()), ir.size())}};
  // Within a script element nothing ends it but "</", so no text may begin a tag.
  std::string text;
  for (const char c : text_of(data, -1)) {
    if (c == '<')
      text += "\\u003c";
    else
      text += c;
  }
  std::string page(kExplainPage);
  constexpr std::string_view kPlace = "id=\"data\">{}</script>";
  const std::size_t at = page.find(kPlace);
  KILN_CHECK(at != std::string::npos, "the page has no place for its data");
  return page.replace(at + kPlace.find("{}"), 2, text);
}

}  // namespace kiln::engine
