#include "kiln/engine/compiled_model.h"

#include <istream>
#include <iterator>

#include "kiln/engine/pending_artifact.h"

namespace kiln::engine {

CompiledModel::CompiledModel(std::shared_ptr<const runtime::Artifact> artifact)
    : pending_(std::make_shared<PendingArtifact>()) {
  pending_->set(std::move(artifact));
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

const std::vector<ModelMetadata>& CompiledModel::metadata() const { return pending_->metadata(); }

MefInfo CompiledModel::info() const { return query_mef(*artifact()); }

void CompiledModel::wait() const { pending_->wait(); }

bool CompiledModel::done() const { return pending_->done(); }

std::exception_ptr CompiledModel::exception() const { return pending_->exception(); }

const std::shared_ptr<const runtime::Artifact>& CompiledModel::artifact() const {
  return pending_->artifact();
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
