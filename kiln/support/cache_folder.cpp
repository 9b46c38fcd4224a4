#include "kiln/support/cache_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <vector>

#include "kiln/support/environment.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

std::string chosen_folder() {
  if (const auto folder = environment("KILN_CACHE_DIR")) return *folder;
  if (const auto caches = environment("XDG_CACHE_HOME")) return *caches + "/kiln";
  if (const auto home = environment("HOME")) return *home + "/.cache/kiln";
  return "";
}

bool is_ours_alone(const std::string& folder) {
  std::error_code error;
  fs::create_directories(fs::path(folder).parent_path(), error);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return false;
  struct stat status;
  if (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return false;
  return status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

}  // namespace

std::string cache_folder() {
  if (!environment_flag("KILN_CACHE", true)) return "";
  std::string folder = chosen_folder();
  return !folder.empty() && is_ours_alone(folder) ? folder : "";
}

void sweep_cache(const std::string& folder, std::string_view extension, std::uint64_t budget) {
  struct Entry {
    fs::path path;
    fs::file_time_type used;
    std::uint64_t size;
  };
  std::vector<Entry> entries;
  std::uint64_t total = 0;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (const auto& file : fs::directory_iterator(folder, error)) {
    Entry entry{file.path(), file.last_write_time(error), 0};
    if (error) continue;
    if (entry.path.extension() == ".tmp" && now - entry.used > std::chrono::hours(1)) {
      fs::remove(entry.path, error);
      continue;
    }
    if (entry.path.extension() != extension) continue;
    entry.size = file.file_size(error);
    if (error) continue;
    total += entry.size;
    entries.push_back(std::move(entry));
  }
  if (total <= budget) return;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= budget) return;
    if (fs::remove(entry.path, error)) total -= entry.size;
  }
}

}  // namespace kiln
