#include "emulator/program/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kiln/support/cache_folder.h"
#include "kiln/support/error.h"
#include "kiln/support/file.h"
#include "kiln/support/format.h"
#include "kiln/support/hash.h"

namespace kiln::emulator {
namespace {

constexpr std::uint64_t kBudget = std::uint64_t{512} << 20;
constexpr std::size_t kHashBytes = sizeof(Hash128);

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

}  // namespace

ProgramCache::ProgramCache() : folder_(cache_folder()) {}

std::string ProgramCache::key_of(std::string_view text, const LoadOptions& options) {
  Hasher hasher;
  hasher.add(text).add(code_identity()).add(options.architecture);
  hasher.add(options.check_memory).add(options.check_init);
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
  if (stores.fetch_add(1) % 64 == 0) sweep_cache(folder_, ".kptx", kBudget);
}

}  // namespace kiln::emulator
