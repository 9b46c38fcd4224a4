#include "kiln/engine/mef_info.h"

#include "kiln/support/format.h"

namespace kiln::engine {
namespace {

std::vector<TensorSpec> specs_of(const std::vector<runtime::TensorSignature>& tensors) {
  std::vector<TensorSpec> specs;
  specs.reserve(tensors.size());
  for (const runtime::TensorSignature& tensor : tensors) {
    std::vector<std::optional<std::int64_t>> shape;
    for (const graph::Dim& dim : tensor.shape)
      shape.push_back(dim.is_static() ? std::optional(dim.value()) : std::nullopt);
    specs.push_back({.dtype = tensor.dtype,
                     .name = tensor.name,
                     .shape = std::move(shape),
                     .device = tensor.device});
  }
  return specs;
}

void describe(MefInfo& info, const runtime::ArtifactHeader& header) {
  info.format_version = format("{}.{}", header.format_major, header.format_minor);
  info.kiln_version = header.kiln_version;
  info.runtime_interface = header.runtime_interface;
  info.targets = header.targets;
  info.accelerators = header.accelerators;
  for (const runtime::GraphSignature& graph : header.graphs)
    info.graphs.push_back(metadata_of(graph));
  for (const runtime::WeightSignature& weight : header.weights)
    info.weights.push_back({.name = weight.name,
                            .dtype = weight.dtype,
                            .shape = weight.shape.static_dims(),
                            .device = weight.device,
                            .carried = weight.offset.has_value()});
  info.custom_kernels = header.kernels;
}

}  // namespace

ModelMetadata metadata_of(const runtime::GraphSignature& graph) {
  return {.name = graph.name,
          .input_metadata = specs_of(graph.inputs),
          .output_metadata = specs_of(graph.outputs)};
}

namespace {

MefInfo info_of(const runtime::HeaderReport& report, const std::string& path) {
  MefInfo info{.readable = report.readable, .reasons = report.reasons};
  if (report.header) {
    describe(info, *report.header);
    for (std::string& reason : runtime::machine_reasons(*report.header, path))
      info.reasons.push_back(std::move(reason));
  }
  info.compatible = info.reasons.empty();
  return info;
}

}  // namespace

MefInfo query_mef(const std::string& path) { return info_of(runtime::read_header(path), path); }

MefInfo query_mef(std::span<const std::byte> bytes, const std::string& name) {
  return info_of(runtime::read_header(bytes, name), name);
}

MefInfo query_mef(const runtime::Artifact& artifact) {
  MefInfo info{.readable = true};
  describe(info, artifact.header());
  info.reasons = runtime::machine_reasons(artifact.header(), artifact.name());
  info.compatible = info.reasons.empty();
  return info;
}

}  // namespace kiln::engine
