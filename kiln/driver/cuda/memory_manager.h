#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace kiln::driver::cuda {

/// What the environment says about the memory of a device (KILN_DEVICE_CONTEXT_…) or of the pinned
/// memory of the host.
struct MemorySettings {
  std::size_t cap = 0;    // bytes that the manager may hold
  std::size_t chunk = 0;  // bytes it grows by
  bool caching = true;
  bool log = false;
  bool self_check = false;
  std::optional<std::uint8_t> poison;  // written over every fresh block by whoever allocates

  /// Of a device with `total` bytes.
  static MemorySettings for_device(std::size_t total);
  /// Of pinned memory; without a cap half of `total`.
  static MemorySettings for_host(std::size_t total);
};

/// The caching manager of one kind of memory: takes it from the driver in chunks and hands out
/// blocks, aligned to 256 bytes. A block that comes back is kept under its size, so that steady
/// work calls no driver; what is kept is put together again when a size is not there. Thread-safe.
class MemoryManager {
 public:
  struct Source {
    std::string pool;                            // as errors call it
    std::string device;                          // "Device(type=gpu,id=0)"
    std::function<void*(std::size_t)> allocate;  // null when there is no memory
    std::function<void(void*)> release;
    std::function<std::size_t()> available;
    /// Waits until memory that is on its way back has arrived.
    std::function<void()> settle;
  };

  MemoryManager(Source source, const MemorySettings& settings);

  /// `bytes` > 0. Out of memory: ValueError.
  void* allocate(std::size_t bytes);
  /// `bytes` as given to `allocate`.
  void release(void* memory, std::size_t bytes) noexcept;
  /// Gives chunks without a used block back to the driver; returns their bytes.
  std::size_t trim();
  /// Bytes that are held but not handed out.
  std::size_t free_bytes() const;
  const MemorySettings& settings() const { return settings_; }

 private:
  static constexpr std::size_t kAlignment = 256;
  static constexpr std::size_t kMostCached = std::size_t{1}
                                             << 20;  // larger blocks go to the ranges

  struct Chunk {
    std::size_t bytes = 0;
    std::size_t used = 0;  // in blocks that are handed out or cached
  };

  static std::size_t rounded(std::size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  void* allocate_slow(std::size_t size);
  void* take(std::size_t size);
  void give(std::uintptr_t block, std::size_t size);
  void flush();
  bool grow(std::size_t size);
  std::size_t release_free_chunks();
  void check_lists() const;
  [[noreturn]] void out_of_memory(std::size_t bytes, const char* reason);

  Source source_;
  MemorySettings settings_;
  mutable std::mutex mutex_;
  std::vector<std::vector<void*>> cached_;                    // by size / kAlignment
  std::map<std::uintptr_t, std::size_t> free_;                // ranges by address
  std::set<std::pair<std::size_t, std::uintptr_t>> by_size_;  // the same, smallest first
  std::map<std::uintptr_t, Chunk> chunks_;
  std::size_t held_ = 0;    // bytes of chunks
  std::size_t in_use_ = 0;  // bytes handed out
};

}  // namespace kiln::driver::cuda
