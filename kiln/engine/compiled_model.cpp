#include "kiln/engine/compiled_model.h"

#include <istream>
#include <iterator>

namespace kiln::engine {

CompiledArtifact::CompiledArtifact(std::shared_ptr<const runtime::Artifact> made)
    : artifact(std::move(made)) {
  for (const auto& graph : artifact->header().graphs) metadata.push_back(metadata_of(graph));
}

CompiledModel::CompiledModel(std::shared_ptr<const runtime::Artifact> artifact) {
  pending_.set_result(CompiledArtifact(std::move(artifact)));
}

const CompiledArtifact& CompiledModel::made() const {
  pending_.wait();
  return pending_.result();
}

void CompiledModel::export_mef(const std::string& path) const { artifact()->write(path); }

void CompiledModel::export_mef(const std::string& path, const WeightsRegistry& registry) const {
  const auto& made = artifact();
  const std::vector<driver::Buffer> bound = bind_weights(*made, registry);
  std::vector<driver::Buffer> on_host;  // keeps copies of device memory alive
  std::vector<runtime::CarriedWeight> carried;
  for (std::size_t i = 0; i < bound.size(); ++i) {
    if (!bound[i]) continue;  // carried already
    on_host.push_back(bound[i].is_host() ? bound[i] : bound[i].copy(driver::CPU()));
    on_host.back().wait_for_host_read();
    carried.push_back({.weight = static_cast<std::uint32_t>(i),
                       .bytes = {static_cast<const std::byte*>(on_host.back().data()),
                                 on_host.back().byte_size()}});
  }
  made->write(path, carried);
}

std::vector<std::string> CompiledModel::names() const {
  std::vector<std::string> names;
  for (const ModelMetadata& graph : metadata()) names.push_back(graph.name);
  return names;
}

const std::vector<ModelMetadata>& CompiledModel::metadata() const { return made().metadata; }

MefInfo CompiledModel::info() const { return query_mef(*artifact()); }

void CompiledModel::wait() const { (void)made(); }

bool CompiledModel::done() const { return pending_.done(); }

std::exception_ptr CompiledModel::exception() const {
  return pending_.done() ? pending_.exception() : nullptr;
}

const std::shared_ptr<const runtime::Artifact>& CompiledModel::artifact() const {
  return made().artifact;
}

CompiledModel read(const std::string& path) { return CompiledModel(runtime::Artifact::read(path)); }

CompiledModel read(std::istream& stream) {
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  return read(std::as_bytes(std::span(text)), "<stream>");
}

CompiledModel read(std::span<const std::byte> bytes, const std::string& name) {
  return CompiledModel(runtime::Artifact::from_bytes(bytes, name));
}

}  // namespace kiln::engine
