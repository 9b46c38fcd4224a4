#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "kiln/support/process.h"

namespace kiln::driver {

/// The host's memory: size classes (multiples of 64 bytes up to 1 KiB, then four a doubling), a
/// cache a thread for blocks up to 4 MiB, and a shared store behind it. Both are bounded in bytes
/// and in blocks; what does not fit goes back to the system at once. Process-wide and never
/// destroyed, because memory may be released while the process ends.
class CpuMemoryPool {
 public:
  static CpuMemoryPool& instance();

  /// At least `bytes` > 0, aligned to 64 bytes; contents undefined. Out of memory: ValueError.
  static void* allocate(std::size_t bytes) {
    auto* cache = static_cast<ThreadCache*>(kiln::detail::thread_state.memory_cache);
    if (bytes <= kMaxCachedBlock && cache) [[likely]] {
      Bin& bin = cache->bins[class_of(bytes)];
      if (bin.count > 0) [[likely]] {
        cache->bytes -= bin.size;
        return bin.blocks[--bin.count];
      }
    }
    return instance().allocate_slow(bytes);
  }
  /// `bytes` as given to `allocate`; any thread.
  static void release(void* memory, std::size_t bytes) noexcept {
    auto* cache = static_cast<ThreadCache*>(kiln::detail::thread_state.memory_cache);
    if (bytes <= kMaxCachedBlock && cache) [[likely]] {
      Bin& bin = cache->bins[class_of(bytes)];
      if (bin.count < bin.capacity && cache->bytes + bin.size <= kMaxThreadBytes) [[likely]] {
        cache->bytes += bin.size;
        bin.blocks[bin.count++] = memory;
        return;
      }
    }
    instance().release_slow(memory, class_of(bytes));
  }
  /// Frees the shared store and the calling thread's cache; other threads' caches follow when those
  /// threads next use the shared store. Returns the bytes.
  std::size_t trim() noexcept;
  /// Bytes that the shared store holds.
  std::size_t stored_bytes() const;
  /// Bytes that a request is rounded up to.
  static std::size_t block_size(std::size_t bytes);

 private:
  static constexpr int kClasses = 16 + 4 * 38;        // up to 2^48 bytes
  static constexpr int kThreadClasses = 16 + 4 * 12;  // up to 4 MiB
  static constexpr std::size_t kMaxCachedBlock = std::size_t{4} << 20;
  static constexpr std::size_t kMaxThreadBytes = std::size_t{32} << 20;
  static constexpr int kMaxBin = 32;

  struct Bin {
    int count = 0;
    int capacity = 0;
    std::size_t size = 0;
    void* blocks[kMaxBin];
  };
  struct ThreadCache {
    std::size_t bytes = 0;
    std::uint32_t trims = 0;
    Bin bins[kThreadClasses];
  };
  struct Store {
    std::vector<void*> blocks;
  };

  CpuMemoryPool();
  static int class_of(std::size_t bytes) {
    if (bytes <= 1024) return static_cast<int>((bytes + 63) / 64) - 1;
    const std::size_t below = bytes - 1;
    const int power = std::bit_width(below) - 1;
    return 16 + (power - 10) * 4 + static_cast<int>((below >> (power - 2)) & 3);
  }
  static std::size_t size_of(int size_class);
  void* allocate_slow(std::size_t bytes);
  void release_slow(void* memory, int size_class) noexcept;
  void put(void* memory, int size_class) noexcept;
  std::size_t flush(ThreadCache& cache) noexcept;
  [[noreturn]] void throw_out_of_memory(std::size_t bytes, const char* reason);

  mutable std::mutex mutex_;
  Store stores_[kClasses];
  std::size_t stored_bytes_ = 0;
  std::size_t stored_blocks_ = 0;
  std::size_t max_stored_bytes_;
  std::atomic<std::uint32_t> trims_{0};
};

/// Physical memory that this process may use, in bytes, and how much of it is free.
struct HostMemory {
  std::size_t total;
  std::size_t available;
};
HostMemory host_memory();

}  // namespace kiln::driver
