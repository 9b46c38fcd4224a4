#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "kiln/graph/ir.h"
#include "kiln/runtime/artifact.h"

namespace kiln::engine {

/// A folder of MEFs, one a graph, named after the graph and the types of its inputs and outputs, so
/// that one machine compiles and another runs. Safe from any thread.
class MefStore {
 public:
  /// Reads the folder that an exporting store has filled. No manifest: FileNotFoundError.
  static std::shared_ptr<MefStore> precompiled(std::string folder);
  /// Fills the folder, which is made when it is missing.
  static std::shared_ptr<MefStore> exporting(std::string folder);

  bool is_exporting() const { return exporting_; }
  /// The artifact of the module's one top-level graph. None in the folder: RuntimeError that names
  /// those there are; a file that is refused: RuntimeError.
  std::shared_ptr<const runtime::Artifact> find(const graph::ir::Module& module) const;
  /// Writes the artifact and the manifest. A different graph of the same name and types was written
  /// before: RuntimeError.
  void add(const graph::ir::Module& module, const runtime::Artifact& artifact);

 private:
  struct Entry {
    std::string name;
    std::string signature;
  };

  MefStore(std::string folder, bool exporting)
      : folder_(std::move(folder)), exporting_(exporting) {}
  std::string path_of(const std::string& key) const;
  std::string manifest_path() const;
  void read_manifest();
  void write_manifest() const;

  std::string folder_;
  bool exporting_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // by key
};

}  // namespace kiln::engine
