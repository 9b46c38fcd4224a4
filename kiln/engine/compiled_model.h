#pragma once

#include <cstddef>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kiln/engine/async_value.h"
#include "kiln/engine/mef_info.h"
#include "kiln/engine/tensor_spec.h"
#include "kiln/engine/weights_registry.h"
#include "kiln/runtime/artifact.h"

namespace kiln::engine {

/// An artifact and what it says about its graphs.
struct CompiledArtifact {
  explicit CompiledArtifact(std::shared_ptr<const runtime::Artifact> made);

  std::shared_ptr<const runtime::Artifact> artifact;
  std::vector<ModelMetadata> metadata;
};

/// A compiled artifact: one or more graphs for stated targets, without weights. A small value;
/// copies share the artifact, which outlives the session that made it. It is initialised by
/// `InferenceSession::init` any number of times. Members wait for a compile that is still under way
/// and throw its error.
class CompiledModel {
 public:
  /// Writes the artifact to `path`, by way of a temporary file and a rename. Failures:
  /// RuntimeError.
  void export_mef(const std::string& path) const;
  /// The same with the data of all weights, so that the file runs alone. Weights that do not fit:
  /// ValueError, as for `InferenceSession::init`.
  void export_mef(const std::string& path, const WeightsRegistry& registry) const;

  /// Names of the graphs, in the order of the artifact.
  std::vector<std::string> names() const;
  std::size_t size() const { return metadata().size(); }
  const std::vector<ModelMetadata>& metadata() const;
  auto begin() const { return metadata().begin(); }
  auto end() const { return metadata().end(); }
  MefInfo info() const;
  /// "CompiledModel()".
  std::string repr() const { return "CompiledModel()"; }

  /// Blocks until the compile is over and throws what it failed with.
  void wait() const;
  /// Whether it is over, well or not. Does not block.
  bool done() const;
  /// The error it failed with, or null; does not block.
  std::exception_ptr exception() const;

  const std::shared_ptr<const runtime::Artifact>& artifact() const;

  explicit CompiledModel(std::shared_ptr<const runtime::Artifact> artifact);
  explicit CompiledModel(AsyncValue<CompiledArtifact> pending) : pending_(std::move(pending)) {}

 private:
  /// Waits and throws what the compile failed with.
  const CompiledArtifact& made() const;

  AsyncValue<CompiledArtifact> pending_;
};

/// Reads a MEF. Unreadable content: RuntimeError that says what is wrong. Neither the target's
/// hardware nor its processor features need be there.
CompiledModel read(const std::string& path);
/// The same from the rest of a stream.
CompiledModel read(std::istream& stream);
/// The same from bytes, which are copied.
CompiledModel read(std::span<const std::byte> bytes, const std::string& name = "<bytes>");

}  // namespace kiln::engine
