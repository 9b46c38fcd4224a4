#include "kiln/engine/mef_store.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "kiln/support/error.h"
#include "kiln/support/file.h"
#include "kiln/support/format.h"
#include "kiln/support/hash.h"

namespace kiln::engine {
namespace {

constexpr std::size_t kKeyDigits = 12;

const graph::ir::Graph& only_graph(const graph::ir::Module& module) {
  const graph::ir::Graph* found = nullptr;
  std::size_t count = 0;
  for (const auto& graph : module.graphs) {
    if (graph->is_subgraph) continue;
    found = graph.get();
    ++count;
  }
  if (count != 1)
    throw ValueError(format(
        "A store of precompiled MEFs holds one graph a file, but the module has {}.", count));
  return *found;
}

/// JSON with sorted keys: the types of inputs and outputs, chains left out.
std::string signature_of(const graph::ir::Graph& graph) {
  nlohmann::json inputs = nlohmann::json::array(), outputs = nlohmann::json::array();
  for (const auto& argument : graph.body->arguments)
    if (!argument->type.is_chain()) inputs.push_back(argument->type.to_text());
  if (const graph::ir::Op* end = graph.terminator())
    for (const graph::ir::Value* value : end->operands)
      if (!value->type.is_chain()) outputs.push_back(value->type.to_text());
  return nlohmann::json{{"inputs", inputs}, {"outputs", outputs}}.dump();
}

std::string key_of(const std::string& name, const std::string& signature) {
  std::string key;
  for (char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    key += plain ? c : '_';
  }
  return format("{}-{}", key, sha256(signature).substr(0, kKeyDigits));
}

/// Whether both came from one graph: what they say about it where they do, else their code.
bool same_graph(const runtime::Artifact& a, const runtime::Artifact& b) {
  const bool text = !a.section("ir").empty() && !b.section("ir").empty();
  const std::string_view kind = text ? "ir" : "code.cpu";
  return std::ranges::equal(a.section(kind), b.section(kind)) &&
         std::ranges::equal(a.section("constants"), b.section("constants"));
}

}  // namespace

std::shared_ptr<MefStore> MefStore::precompiled(std::string folder) {
  std::shared_ptr<MefStore> store(new MefStore(std::move(folder), false));
  if (!file_exists(store->manifest_path()))
    throw FileNotFoundError(
        format("{} has no manifest.json, so it was not written by a session exporting precompiled "
               "MEFs",
               store->folder_));
  store->read_manifest();
  return store;
}

std::shared_ptr<MefStore> MefStore::exporting(std::string folder) {
  std::shared_ptr<MefStore> store(new MefStore(std::move(folder), true));
  std::error_code error;
  std::filesystem::create_directories(store->folder_, error);
  if (error)
    throw RuntimeError(format("The folder '{}' for exported MEFs cannot be made: {}.",
                              store->folder_, error.message()));
  if (file_exists(store->manifest_path())) store->read_manifest();
  return store;
}

std::string MefStore::path_of(const std::string& key) const {
  return format("{}/{}.mef", folder_, key);
}

std::string MefStore::manifest_path() const { return folder_ + "/manifest.json"; }

void MefStore::read_manifest() {
  const auto manifest = nlohmann::json::parse(read_file(manifest_path()), nullptr, false);
  try {
    for (const auto& entry : manifest.at("graphs"))
      entries_[entry.at("key").get<std::string>()] = {entry.at("name").get<std::string>(),
                                                      entry.at("signature").get<std::string>()};
  } catch (const nlohmann::json::exception&) {
    throw RuntimeError(
        format("'{}' is no manifest of exported MEFs: it must list key, name and signature of each "
               "graph. Export the graphs again into an empty folder.",
               manifest_path()));
  }
}

void MefStore::write_manifest() const {
  nlohmann::json graphs = nlohmann::json::array();
  for (const auto& [key, entry] : entries_)
    graphs.push_back({{"key", key}, {"name", entry.name}, {"signature", entry.signature}});
  write_file(manifest_path(), nlohmann::json{{"graphs", graphs}}.dump(2) + "\n");
}

std::shared_ptr<const runtime::Artifact> MefStore::find(const graph::ir::Module& module) const {
  const graph::ir::Graph& graph = only_graph(module);
  const std::string signature = signature_of(graph);
  const std::string key = key_of(graph.name, signature);
  const std::lock_guard lock(mutex_);
  if (entries_.count(key)) return runtime::Artifact::read(path_of(key));
  std::vector<std::string> there;
  for (const auto& [known, entry] : entries_)
    there.push_back(format("'{}' with signature {}", entry.name, entry.signature));
  throw RuntimeError(format(
      "no precompiled artifact for graph '{}' with signature {} in {}. There are: {}.", graph.name,
      signature, folder_, there.empty() ? "none" : format("{}", join(there, "; "))));
}

void MefStore::add(const graph::ir::Module& module, const runtime::Artifact& artifact) {
  const graph::ir::Graph& graph = only_graph(module);
  const std::string signature = signature_of(graph);
  const std::string key = key_of(graph.name, signature);
  const std::lock_guard lock(mutex_);
  if (entries_.count(key) && file_exists(path_of(key)) &&
      !same_graph(*runtime::Artifact::read(path_of(key)), artifact))
    throw RuntimeError(
        format("a different graph named '{}' was already exported with the same input and output "
               "types, so their files in {} would have one name. Give the graphs different names, "
               "or export into an empty folder.",
               graph.name, folder_));
  artifact.write(path_of(key));
  entries_[key] = {graph.name, signature};
  write_manifest();
}

}  // namespace kiln::engine
