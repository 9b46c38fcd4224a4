#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kiln/engine/tensor_spec.h"
#include "kiln/runtime/artifact.h"

namespace kiln::engine {

/// What a MEF is made for and whether it could be loaded here, told from its header.
struct MefInfo {
  struct Weight {
    std::string name;
    DType dtype = DType::float32;
    std::vector<std::int64_t> shape;
    graph::DeviceRef device;
    bool carried = false;  // the file holds its data
  };
  bool readable = false;             // magic, length and checksum of the header are good
  bool compatible = false;           // it could be loaded here
  std::vector<std::string> reasons;  // why not: one sentence for every failing condition
  std::string format_version;        // "1.0"; empty when it cannot be told, like all that follows
  std::string kiln_version;
  int runtime_interface = 0;
  std::vector<runtime::CpuTarget> targets;
  std::vector<runtime::AcceleratorTarget> accelerators;
  std::vector<ModelMetadata> graphs;
  std::vector<Weight> weights;
  std::vector<std::string> custom_kernels;
};

/// Reads magic and header of the file at `path`, nothing else. A missing file: RuntimeError.
MefInfo query_mef(const std::string& path);
/// The same for the bytes of a file; `name` stands for its path in reasons.
MefInfo query_mef(std::span<const std::byte> bytes, const std::string& name);
/// The same for an artifact in memory.
MefInfo query_mef(const runtime::Artifact& artifact);

/// Inputs and outputs of one graph as they are shown.
ModelMetadata metadata_of(const runtime::GraphSignature& graph);

}  // namespace kiln::engine
