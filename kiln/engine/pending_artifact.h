#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "kiln/engine/mef_info.h"
#include "kiln/runtime/artifact.h"

namespace kiln::engine {

/// An artifact that is there or is being made on another thread.
class PendingArtifact {
 public:
  void set(std::shared_ptr<const runtime::Artifact> artifact) {
    std::vector<ModelMetadata> metadata;
    for (const auto& graph : artifact->header().graphs) metadata.push_back(metadata_of(graph));
    const std::lock_guard lock(mutex_);
    artifact_ = std::move(artifact);
    metadata_ = std::move(metadata);
    done_ = true;
    changed_.notify_all();
  }
  void set_exception(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    done_ = true;
    changed_.notify_all();
  }
  bool done() const {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  std::exception_ptr exception() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  /// Both wait and throw the error of the making.
  const std::shared_ptr<const runtime::Artifact>& artifact() const {
    wait();
    return artifact_;
  }
  const std::vector<ModelMetadata>& metadata() const {
    wait();
    return metadata_;
  }
  void wait() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    if (error_) std::rethrow_exception(error_);
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;
  std::shared_ptr<const runtime::Artifact> artifact_;
  std::vector<ModelMetadata> metadata_;
  std::exception_ptr error_;
};

}  // namespace kiln::engine
