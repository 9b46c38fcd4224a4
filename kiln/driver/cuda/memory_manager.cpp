#include "kiln/driver/cuda/memory_manager.h"

#include <algorithm>

#include "kiln/support/environment.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::driver::cuda {
namespace {

constexpr std::int64_t kPercent = 95;
constexpr std::int64_t kChunkPercent = 2;
constexpr std::size_t kSmallestChunk = std::size_t{2} << 20;

std::string variable(const char* name) { return format("KILN_DEVICE_CONTEXT_{}", name); }

std::int64_t number(const char* name, std::int64_t least, std::int64_t most,
                    std::int64_t fallback) {
  return environment_integer(variable(name).c_str(), least, most).value_or(fallback);
}

std::size_t percent_of(std::size_t bytes, std::int64_t percent) {
  return static_cast<std::size_t>(static_cast<double>(bytes) * static_cast<double>(percent) / 100);
}

void set_chunk(MemorySettings& settings, const char* name) {
  const std::size_t chunk = percent_of(settings.cap, number(name, 1, 100, kChunkPercent));
  settings.chunk = std::min(settings.cap, std::max(chunk, kSmallestChunk));
}

std::string amount(std::size_t bytes) {
  return bytes == 0 ? "0B" : format("{}MB", (bytes + (std::size_t{1} << 20) - 1) >> 20);
}

}  // namespace

MemorySettings MemorySettings::for_device(std::size_t total) {
  MemorySettings settings;
  const std::int64_t percent = number("MEMORY_MANAGER_SIZE_PERCENT", 0, 100, kPercent);
  const std::int64_t size = number("MEMORY_MANAGER_SIZE", 1, INT64_MAX, 0);
  settings.cap = size > 0 ? static_cast<std::size_t>(size) : percent_of(total, percent);
  settings.caching = size > 0 || percent > 0;
  set_chunk(settings, "MEMORY_MANAGER_CHUNK_PERCENT");
  settings.log = environment_flag(variable("MEMORY_MANAGER_LOG").c_str(), false);
  settings.self_check = environment_flag(variable("MEMORY_MANAGER_SELF_CHECK").c_str(), false);
  if (const auto byte =
          environment_integer(variable("MEMORY_MANAGER_POISON_PATTERN").c_str(), 0, 255))
    settings.poison = static_cast<std::uint8_t>(*byte);
  return settings;
}

MemorySettings MemorySettings::for_host(std::size_t total) {
  MemorySettings settings = for_device(total);
  const std::int64_t size = number("HOST_MEMORY_MANAGER_SIZE", 1, INT64_MAX, 0);
  settings.cap = size > 0 ? static_cast<std::size_t>(size) : total / 2;
  settings.caching = true;
  set_chunk(settings, "HOST_MEMORY_MANAGER_CHUNK_PERCENT");
  return settings;
}

MemoryManager::MemoryManager(Source source, const MemorySettings& settings)
    : source_(std::move(source)), settings_(settings), cached_(kMostCached / kAlignment + 1) {}

void* MemoryManager::allocate(std::size_t bytes) {
  if (bytes > settings_.cap && settings_.caching)
    out_of_memory(bytes, "the request is above the cap");
  const std::size_t size = rounded(bytes);
  void* memory = nullptr;
  if (size <= kMostCached && settings_.caching) {
    const std::lock_guard lock(mutex_);
    std::vector<void*>& blocks = cached_[size / kAlignment];
    if (!blocks.empty()) [[likely]] {
      memory = blocks.back();
      blocks.pop_back();
      in_use_ += size;
    }
  }
  if (!memory) memory = allocate_slow(size);
  if (settings_.log) [[unlikely]]
    std::fprintf(stderr, "kiln: %s: allocated %zu bytes at %p\n", source_.pool.c_str(), bytes,
                 memory);
  return memory;
}

void* MemoryManager::allocate_slow(std::size_t size) {
  if (!settings_.caching) {
    void* memory = source_.allocate(size);
    if (!memory && source_.settle) {
      source_.settle();
      memory = source_.allocate(size);
    }
    if (!memory) out_of_memory(size, "the driver has no more memory");
    return memory;
  }
  for (const bool last : {false, true}) {
    {
      const std::lock_guard lock(mutex_);
      void* memory = take(size);
      if (!memory) {
        flush();
        memory = take(size);
      }
      if (!memory && grow(size)) memory = take(size);
      if (settings_.self_check) check_lists();
      if (memory) {
        in_use_ += size;
        return memory;
      }
    }
    // What was dropped comes back when the work that uses it is over.
    if (!last && source_.settle) source_.settle();
  }
  out_of_memory(size, "no free range is large enough");
}

void MemoryManager::release(void* memory, std::size_t bytes) noexcept {
  const std::size_t size = rounded(bytes);
  if (settings_.log) [[unlikely]]
    std::fprintf(stderr, "kiln: %s: freed %zu bytes at %p\n", source_.pool.c_str(), bytes, memory);
  if (!settings_.caching) {
    source_.release(memory);
    return;
  }
  const std::lock_guard lock(mutex_);
  in_use_ -= size;
  if (size <= kMostCached)
    cached_[size / kAlignment].push_back(memory);
  else
    give(reinterpret_cast<std::uintptr_t>(memory), size);
  if (settings_.self_check) [[unlikely]]
    check_lists();
}

/// The smallest range that has room, its front.
void* MemoryManager::take(std::size_t size) {
  const auto found = by_size_.lower_bound({size, 0});
  if (found == by_size_.end()) return nullptr;
  const auto [bytes, address] = *found;
  by_size_.erase(found);
  free_.erase(address);
  if (bytes > size) {
    free_.emplace(address + size, bytes - size);
    by_size_.emplace(bytes - size, address + size);
  }
  std::prev(chunks_.upper_bound(address))->second.used += size;
  return reinterpret_cast<void*>(address);
}

/// Makes a block a free range again, one with its neighbours in the same chunk.
void MemoryManager::give(std::uintptr_t block, std::size_t size) {
  const auto chunk = std::prev(chunks_.upper_bound(block));
  chunk->second.used -= size;
  std::uintptr_t begin = block, end = block + size;
  auto next = free_.lower_bound(block);
  if (next != free_.end() && next->first == end && end < chunk->first + chunk->second.bytes) {
    end += next->second;
    by_size_.erase({next->second, next->first});
    next = free_.erase(next);
  }
  if (next != free_.begin() && block > chunk->first) {
    const auto before = std::prev(next);
    if (before->first + before->second == block) {
      begin = before->first;
      by_size_.erase({before->second, before->first});
      free_.erase(before);
    }
  }
  free_.emplace(begin, end - begin);
  by_size_.emplace(end - begin, begin);
}

/// Puts the cached blocks back among the ranges.
void MemoryManager::flush() {
  for (std::size_t i = 0; i < cached_.size(); ++i) {
    for (void* block : cached_[i]) give(reinterpret_cast<std::uintptr_t>(block), i * kAlignment);
    cached_[i].clear();
  }
}

/// Takes a chunk from the driver that has room for `size`.
bool MemoryManager::grow(std::size_t size) {
  for (const bool trimmed : {false, true}) {
    if (trimmed && release_free_chunks() == 0) return false;
    const std::size_t room = settings_.cap - std::min(settings_.cap, held_);
    if (room < size && room + kAlignment <= size) continue;
    for (const std::size_t bytes : {std::max(std::min(settings_.chunk, room), size), size}) {
      void* memory = source_.allocate(bytes);
      if (!memory) continue;
      const auto address = reinterpret_cast<std::uintptr_t>(memory);
      const std::size_t usable = bytes / kAlignment * kAlignment;
      chunks_.emplace(address, Chunk{usable, 0});
      held_ += usable;
      free_.emplace(address, usable);
      by_size_.emplace(usable, address);
      return true;
    }
  }
  return false;
}

std::size_t MemoryManager::release_free_chunks() {
  std::size_t bytes = 0;
  for (auto chunk = chunks_.begin(); chunk != chunks_.end();) {
    if (chunk->second.used != 0) {
      ++chunk;
      continue;
    }
    by_size_.erase({chunk->second.bytes, chunk->first});
    free_.erase(chunk->first);
    source_.release(reinterpret_cast<void*>(chunk->first));
    bytes += chunk->second.bytes;
    held_ -= chunk->second.bytes;
    chunk = chunks_.erase(chunk);
  }
  return bytes;
}

std::size_t MemoryManager::trim() {
  const std::lock_guard lock(mutex_);
  flush();
  return release_free_chunks();
}

std::size_t MemoryManager::free_bytes() const {
  const std::lock_guard lock(mutex_);
  return held_ - in_use_;
}

void MemoryManager::check_lists() const {
  std::size_t cached = 0, free = 0, used = 0, held = 0;
  for (std::size_t i = 0; i < cached_.size(); ++i) cached += cached_[i].size() * i * kAlignment;
  for (const auto& [address, bytes] : free_) {
    free += bytes;
    KILN_CHECK(by_size_.contains({bytes, address}), "a free range has lost its place by size");
  }
  for (const auto& [address, chunk] : chunks_) {
    used += chunk.used;
    held += chunk.bytes;
  }
  KILN_CHECK(by_size_.size() == free_.size(), "the two lists of free ranges differ");
  KILN_CHECK(held == held_ && free + used == held, "bytes of the memory manager are lost");
  KILN_CHECK(cached <= used, "more blocks are cached than were taken");
}

void MemoryManager::out_of_memory(std::size_t bytes, const char* reason) {
  const std::lock_guard lock(mutex_);
  std::size_t blocks = free_.size();
  std::size_t cached = 0;
  for (std::size_t i = 0; i < cached_.size(); ++i) {
    blocks += cached_[i].size();
    cached += cached_[i].size() * i * kAlignment;
  }
  std::size_t free = cached;
  for (const auto& [address, size] : free_) free += size;
  throw ValueError(format(
      "Memory manager cannot satisfy allocation ({}): {} on [{}]@{} (request: {} ; free: {} ; "
      "free_blocks: {} ; available: {} ; chunk_size: {} ; chunk_count: {} ; cache_size: {} ; "
      "max_cache_size: {})",
      source_.pool, reason, source_.device, static_cast<const void*>(this), amount(bytes),
      amount(free), blocks, amount(source_.available()), amount(settings_.chunk), chunks_.size(),
      amount(held_), amount(settings_.cap)));
}

}  // namespace kiln::driver::cuda
