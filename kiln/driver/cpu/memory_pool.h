#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace kiln::driver {

/// The host's memory: size classes (multiples of 64 bytes up to 1 KiB, then four a doubling), a
/// cache a thread for blocks up to 4 MiB, and a shared store behind it. Both are bounded in bytes
/// and in blocks; what does not fit goes back to the system at once. Process-wide and never
/// destroyed, because memory may be released while the process ends.
class CpuMemoryPool {
 public:
  static CpuMemoryPool& instance();

  /// At least `bytes` > 0, aligned to 64 bytes; contents undefined. Out of memory: ValueError.
  void* allocate(std::size_t bytes);
  /// `bytes` as given to `allocate`; any thread.
  void release(void* memory, std::size_t bytes) noexcept;
  /// Frees the shared store and the calling thread's cache; other threads' caches follow when those
  /// threads next use the shared store. Returns the bytes.
  std::size_t trim() noexcept;
  /// Bytes that the shared store holds.
  std::size_t stored_bytes() const;
  /// Bytes that a request is rounded up to.
  static std::size_t block_size(std::size_t bytes);

 private:
  struct ThreadCache;
  struct Store {
    std::vector<void*> blocks;
  };
  static constexpr int kClasses = 16 + 4 * 38;

  CpuMemoryPool();
  static int class_of(std::size_t bytes);
  static std::size_t size_of(int size_class);
  void* allocate_slow(int size_class, std::size_t bytes);
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
