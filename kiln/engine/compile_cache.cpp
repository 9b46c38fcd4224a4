#include "kiln/engine/compile_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "kiln/support/cache_folder.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::engine {
CompileCache::CompileCache(std::uint64_t budget) : folder_(cache_folder()), budget_(budget) {}

std::string CompileCache::path_of(const std::string& key) const {
  return format("{}/{}.mef", folder_, key);
}

std::shared_ptr<const runtime::Artifact> CompileCache::find(const std::string& key) const {
  if (!enabled()) return nullptr;
  const std::string path = path_of(key);
  if (::access(path.c_str(), R_OK) != 0) return nullptr;
  try {
    auto artifact = runtime::Artifact::read(path);
    // The time of the file says when it was last of use.
    ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
    return artifact;
  } catch (const Error&) {
    ::unlink(path.c_str());
    return nullptr;
  }
}

void CompileCache::store(const std::string& key, const runtime::Artifact& artifact) const {
  if (!enabled() || artifact.bytes().size() > budget_ / 4) return;
  try {
    artifact.write(path_of(key));
  } catch (const Error&) {
    return;
  }
  // Looking through the folder for every entry would cost more than the entries save.
  static std::atomic<unsigned> stores{0};
  if (stores.fetch_add(1) % 64 == 0) sweep();
}

void CompileCache::sweep() const {
  if (enabled()) sweep_cache(folder_, ".mef", budget_);
}

}  // namespace kiln::engine
