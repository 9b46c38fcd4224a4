#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kiln/runtime/artifact.h"

namespace kiln::engine {

/// Compiled artifacts on disk, one file each under a name that its contents decide. The folder is
/// KILN_CACHE_DIR, else `kiln` in $XDG_CACHE_HOME or ~/.cache; it must belong to this user alone.
/// KILN_CACHE=0 turns the cache off. Nothing about it is ever an error: an entry that is damaged or
/// cannot be read or written is as if it were not there. Safe between threads and processes.
class CompileCache {
 public:
  /// The cache that the environment names now. `budget` is the size in bytes that it is swept to.
  explicit CompileCache(std::uint64_t budget = kDefaultBudget);

  bool enabled() const { return !folder_.empty(); }
  const std::string& folder() const { return folder_; }
  /// The entry of this key, or null.
  std::shared_ptr<const runtime::Artifact> find(const std::string& key) const;
  void store(const std::string& key, const runtime::Artifact& artifact) const;
  /// Removes the entries that were not used for longest until the rest fits the budget.
  void sweep() const;

 private:
  static constexpr std::uint64_t kDefaultBudget = std::uint64_t{1} << 30;
  std::string path_of(const std::string& key) const;

  std::string folder_;  // empty: off
  std::uint64_t budget_;
};

}  // namespace kiln::engine
