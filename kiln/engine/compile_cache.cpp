#include "kiln/engine/compile_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "kiln/support/environment.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::engine {
namespace {

namespace fs = std::filesystem;

std::string chosen_folder() {
  if (const auto folder = environment("KILN_CACHE_DIR")) return *folder;
  if (const auto caches = environment("XDG_CACHE_HOME")) return *caches + "/kiln";
  if (const auto home = environment("HOME")) return *home + "/.cache/kiln";
  return "";
}

/// Makes the folder if need be; whether it may be used: others who could write to it could make
/// this process run their code.
bool usable(const std::string& folder) {
  std::error_code error;
  fs::create_directories(fs::path(folder).parent_path(), error);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return false;
  struct stat status;
  if (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return false;
  return status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

}  // namespace

CompileCache::CompileCache(std::uint64_t budget) : budget_(budget) {
  if (!environment_flag("KILN_CACHE", true)) return;
  std::string folder = chosen_folder();
  if (!folder.empty() && usable(folder)) folder_ = std::move(folder);
}

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
  if (!enabled()) return;
  struct Entry {
    fs::path path;
    fs::file_time_type used;
    std::uint64_t size;
  };
  std::vector<Entry> entries;
  std::uint64_t total = 0;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (const auto& file : fs::directory_iterator(folder_, error)) {
    Entry entry{file.path(), file.last_write_time(error), 0};
    if (error) continue;
    // What a process that died has left half written.
    if (entry.path.extension() == ".tmp" && now - entry.used > std::chrono::hours(1)) {
      fs::remove(entry.path, error);
      continue;
    }
    if (entry.path.extension() != ".mef") continue;
    entry.size = file.file_size(error);
    if (error) continue;
    total += entry.size;
    entries.push_back(std::move(entry));
  }
  if (total <= budget_) return;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= budget_) return;
    if (fs::remove(entry.path, error)) total -= entry.size;
  }
}

}  // namespace kiln::engine
