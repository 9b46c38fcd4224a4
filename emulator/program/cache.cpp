#include "emulator/program/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>

#include "kiln/support/environment.h"
#include "kiln/support/error.h"
#include "kiln/support/file.h"
#include "kiln/support/format.h"
#include "kiln/support/hash.h"

namespace kiln::emulator {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kBudget = std::uint64_t{512} << 20;
constexpr std::size_t kHashBytes = sizeof(Hash128);

std::string chosen_folder() {
  if (const auto folder = environment("KILN_CACHE_DIR")) return *folder;
  if (const auto caches = environment("XDG_CACHE_HOME")) return *caches + "/kiln";
  if (const auto home = environment("HOME")) return *home + "/.cache/kiln";
  return "";
}

// Others who could write to the folder could make this process run their code.
bool usable(const std::string& folder) {
  std::error_code error;
  fs::create_directories(fs::path(folder).parent_path(), error);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return false;
  struct stat status;
  if (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return false;
  return status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// One list of fields serves both directions: `Writer` appends them, `Reader` takes them.
struct Writer {
  std::string bytes;
  template <typename T>
  void plain(const T& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(const std::string& value) {
    plain(std::uint64_t{value.size()});
    bytes += value;
  }
  template <typename T, typename Each>
  void list(const std::vector<T>& values, Each each) {
    plain(std::uint64_t{values.size()});
    for (const T& value : values) each(value);
  }
};

struct Reader {
  std::string_view bytes;
  bool good = true;
  std::string_view take(std::uint64_t count) {
    if (count > bytes.size()) {
      good = false;
      return {};
    }
    const std::string_view part = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return part;
  }
  template <typename T>
  void plain(T& value) {
    const std::string_view part = take(sizeof value);
    if (good) std::memcpy(static_cast<void*>(&value), part.data(), sizeof value);
  }
  void text(std::string& value) {
    std::uint64_t size = 0;
    plain(size);
    value = std::string(take(size));
  }
  template <typename T, typename Each>
  void list(std::vector<T>& values, Each each) {
    std::uint64_t size = 0;
    plain(size);
    // Each element has a byte at least.
    if (size > bytes.size()) good = false;
    for (std::uint64_t i = 0; good && i < size; ++i) each(values.emplace_back());
  }
};

template <typename Stream, typename Program>
void fields(Stream& s, Program& program) {
  s.list(program.kernels, [&](auto& kernel) {
    s.text(kernel.name);
    s.list(kernel.parameters, [&](auto& parameter) { s.plain(parameter); });
    s.plain(kernel.parameter_bytes);
    s.plain(kernel.static_shared_bytes);
    s.plain(kernel.local_bytes);
    s.plain(kernel.constant_bytes);
    s.plain(kernel.registers);
    s.plain(kernel.max_threads);
    s.plain(kernel.required_threads);
    s.plain(kernel.min_blocks);
  });
  s.list(program.traits, [&](auto& traits) { s.plain(traits); });
  s.list(program.variables, [&](auto& variable) {
    s.text(variable.name);
    s.plain(variable.space);
    s.plain(variable.bytes);
    s.plain(variable.alignment);
    s.list(variable.initial, [&](auto& byte) { s.plain(byte); });
    s.list(variable.relocations, [&](auto& relocation) { s.plain(relocation); });
  });
  s.list(program.source.lines, [&](auto& line) { s.plain(line); });
  s.list(program.source.files, [&](auto& file) { s.text(file); });
  s.text(program.object);
}

void sweep(const std::string& folder) {
  struct Entry {
    fs::path path;
    fs::file_time_type used;
    std::uint64_t size;
  };
  std::vector<Entry> entries;
  std::uint64_t total = 0;
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder, error)) {
    if (file.path().extension() != ".kptx") continue;
    Entry entry{file.path(), file.last_write_time(error), 0};
    entry.size = file.file_size(error);
    if (error) continue;
    total += entry.size;
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= kBudget) return;
    if (fs::remove(entry.path, error)) total -= entry.size;
  }
}

}  // namespace

ProgramCache::ProgramCache() {
  if (!environment_flag("KILN_CACHE", true)) return;
  std::string folder = chosen_folder();
  if (!folder.empty() && usable(folder)) folder_ = std::move(folder);
}

std::string ProgramCache::key_of(std::string_view text, const LoadOptions& options) {
  Hasher hasher;
  hasher.add(text).add(code_identity()).add(options.architecture);
  hasher.add(options.check_memory).add(options.check_init);
  hasher.add(options.check_race).add(options.check_sync);
  return hasher.finish128().to_string();
}

std::string ProgramCache::path_of(const std::string& key) const {
  return format("{}/{}.kptx", folder_, key);
}

bool ProgramCache::find(const std::string& key, CachedProgram& program) const {
  if (folder_.empty()) return false;
  const std::string path = path_of(key);
  if (::access(path.c_str(), R_OK) != 0) return false;
  try {
    const std::string content = read_file(path);
    if (content.size() < kHashBytes) return false;
    const std::string_view payload = std::string_view(content).substr(kHashBytes);
    const Hash128 hash = hash128(payload);
    if (std::memcmp(content.data(), &hash, kHashBytes) != 0) {
      ::unlink(path.c_str());
      return false;
    }
    Reader reader{payload};
    fields(reader, program);
    // The time of the file says when it was last of use.
    ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
    return reader.good && program.traits.size() == program.kernels.size();
  } catch (const Error&) {
    return false;
  }
}

void ProgramCache::store(const std::string& key, const CachedProgram& program) const {
  if (folder_.empty()) return;
  Writer writer;
  fields(writer, program);
  const Hash128 hash = hash128(writer.bytes);
  const std::string_view parts[] = {{reinterpret_cast<const char*>(&hash), kHashBytes},
                                    writer.bytes};
  try {
    write_file(path_of(key), parts);
  } catch (const Error&) {
    return;
  }
  // Looking through the folder for every entry would cost more than the entries save.
  static std::atomic<unsigned> stores{0};
  if (stores.fetch_add(1) % 64 == 0) sweep(folder_);
}

}  // namespace kiln::emulator
