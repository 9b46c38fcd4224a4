#include "kiln/driver/cpu/memory_pool.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/process.h"
#include "kiln/support/sanitizer.h"

// Most buffers are small, live shortly and die on the thread that made them, so the common case is
// a pop from and a push to an array of the thread. Blocks of 256 KiB and more come straight from
// the system: the C library would keep them in its heap, where trim could not reach them.

namespace kiln::driver {
namespace {

constexpr std::size_t kMaxStoredBlocks = std::size_t{1} << 18;
/// AddressSanitizer guards the ends of what the heap gives, not of mapped memory.
constexpr std::size_t kMapFrom = kAddressSanitizer ? ~std::size_t{0} : std::size_t{256} << 10;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// AddressSanitizer sees a use after release only when blocks really go back.
constexpr bool kKeepBlocks = !kAddressSanitizer;

constexpr int bin_capacity(std::size_t size) {
  if (!kKeepBlocks) return 0;
  if (size <= 16384) return 32;
  if (size <= 262144) return 8;
  return 2;
}

void* system_allocate(std::size_t size) {
  if (size < kMapFrom) return std::aligned_alloc(64, size);
  const std::size_t alignment = size >= 2 * kHugePage ? kHugePage : 4096;
  const std::size_t extra = alignment > 4096 ? alignment : 0;
  void* mapped =
      mmap(nullptr, size + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  if (extra == 0) return mapped;
  const auto start = reinterpret_cast<std::uintptr_t>(mapped);
  const std::uintptr_t aligned = (start + alignment - 1) & ~(alignment - 1);
  if (aligned != start) munmap(mapped, aligned - start);
  const std::uintptr_t end = start + size + extra;
  if (end != aligned + size) munmap(reinterpret_cast<void*>(aligned + size), end - aligned - size);
  madvise(reinterpret_cast<void*>(aligned), size, MADV_HUGEPAGE);
  return reinterpret_cast<void*>(aligned);
}

void system_release(void* memory, std::size_t size) noexcept {
  if (size < kMapFrom)
    std::free(memory);
  else
    munmap(memory, size);
}

std::size_t read_number(const char* path, const char* key) {
  std::FILE* file = std::fopen(path, "re");
  if (!file) return 0;
  char line[256];
  std::size_t value = 0;
  while (std::fgets(line, sizeof line, file)) {
    if (std::strncmp(line, key, std::strlen(key)) != 0) continue;
    value = std::strtoull(line + std::strlen(key), nullptr, 10);
    break;
  }
  std::fclose(file);
  return value;
}

}  // namespace

std::size_t CpuMemoryPool::size_of(int size_class) {
  if (size_class < 16) return static_cast<std::size_t>(size_class + 1) * 64;
  const int power = 10 + (size_class - 16) / 4;
  const std::size_t quarter = std::size_t{1} << (power - 2);
  return (std::size_t{1} << power) + static_cast<std::size_t>((size_class - 16) % 4 + 1) * quarter;
}

std::size_t CpuMemoryPool::block_size(std::size_t bytes) { return size_of(class_of(bytes)); }

HostMemory host_memory() {
  HostMemory memory;
  memory.total = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                 static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  memory.available = read_number("/proc/meminfo", "MemAvailable:") * 1024;
  const std::size_t limit = read_number("/sys/fs/cgroup/memory.max", "");
  if (limit > 0 && limit < memory.total) {
    memory.total = limit;
    const std::size_t used = read_number("/sys/fs/cgroup/memory.current", "");
    memory.available = std::min(memory.available, limit > used ? limit - used : 0);
  }
  memory.available = std::min(memory.available, memory.total);
  return memory;
}

CpuMemoryPool::CpuMemoryPool() : max_stored_bytes_(host_memory().total / 8) {}

CpuMemoryPool& CpuMemoryPool::instance() {
  static CpuMemoryPool* pool = new CpuMemoryPool;
  return *pool;
}

void* CpuMemoryPool::allocate_slow(std::size_t bytes) {
  if (bytes > std::size_t{1} << 47) throw_out_of_memory(bytes, "request exceeds the address space");
  const int size_class = class_of(bytes);
  auto* cache = static_cast<ThreadCache*>(kiln::detail::thread_state.memory_cache);
  if (!cache) {
    mark_in_use();
    cache = new ThreadCache;
    for (int c = 0; c < kThreadClasses; ++c) {
      cache->bins[c].size = size_of(c);
      cache->bins[c].capacity = bin_capacity(size_of(c));
    }
    cache->trims = trims_.load(std::memory_order_relaxed);
    kiln::detail::thread_state.memory_cache = cache;
    // A pthread key rather than a thread_local with a destructor: those would run in an order that
    // other thread_local objects, which may still release buffers, cannot rely on.
    static pthread_key_t key = [] {
      pthread_key_t result;
      pthread_key_create(&result, [](void* argument) {
        auto* dying = static_cast<ThreadCache*>(argument);
        kiln::detail::thread_state.memory_cache = nullptr;
        CpuMemoryPool::instance().flush(*dying);
        delete dying;
      });
      return result;
    }();
    pthread_setspecific(key, cache);
  }
  if (cache->trims != trims_.load(std::memory_order_relaxed)) {
    // Somebody trimmed: what this thread kept goes back to the system too.
    cache->trims = trims_.load(std::memory_order_relaxed);
    for (Bin& bin : cache->bins)
      while (bin.count > 0) system_release(bin.blocks[--bin.count], bin.size);
    cache->bytes = 0;
  }
  {
    std::lock_guard lock(mutex_);
    Store& store = stores_[size_class];
    if (!store.blocks.empty()) {
      void* memory = store.blocks.back();
      store.blocks.pop_back();
      stored_bytes_ -= size_of(size_class);
      --stored_blocks_;
      return memory;
    }
  }
  const std::size_t size = size_of(size_class);
  // Asked once: whoever plugs memory in while a program runs restarts the program.
  static const std::size_t total = host_memory().total;
  if (bytes > total) throw_out_of_memory(bytes, "request exceeds the memory of the host");
  void* memory = system_allocate(size);
  if (!memory) {
    trim();
    memory = system_allocate(size);
  }
  if (!memory) throw_out_of_memory(bytes, "the system refused the request");
  // What the block has beyond the request is nobody's.
  poison(static_cast<std::byte*>(memory) + bytes, size - bytes);
  return memory;
}

void CpuMemoryPool::release_slow(void* memory, int size_class) noexcept {
  auto* cache = static_cast<ThreadCache*>(kiln::detail::thread_state.memory_cache);
  if (kKeepBlocks && cache && size_class < kThreadClasses) {
    // The bin is full: half of it goes to the store, so that a thread that only releases and one
    // that only allocates meet there a few blocks at a time.
    Bin& bin = cache->bins[size_class];
    if (bin.count > 0 && bin.count == bin.capacity) {
      const int kept = bin.capacity / 2;
      while (bin.count > kept) {
        cache->bytes -= bin.size;
        put(bin.blocks[--bin.count], size_class);
      }
      cache->bytes += bin.size;
      bin.blocks[bin.count++] = memory;
      return;
    }
  }
  put(memory, size_class);
}

void CpuMemoryPool::put(void* memory, int size_class) noexcept {
  const std::size_t size = size_of(size_class);
  if (kKeepBlocks) {
    std::lock_guard lock(mutex_);
    if (stored_bytes_ + size <= max_stored_bytes_ && stored_blocks_ < kMaxStoredBlocks) {
      try {
        stores_[size_class].blocks.push_back(memory);
        stored_bytes_ += size;
        ++stored_blocks_;
        return;
      } catch (const std::bad_alloc&) {
        // Falls through: the block goes back to the system.
      }
    }
  }
  system_release(memory, size);
}

std::size_t CpuMemoryPool::flush(ThreadCache& cache) noexcept {
  std::size_t bytes = 0;
  for (int c = 0; c < kThreadClasses; ++c) {
    Bin& bin = cache.bins[c];
    while (bin.count > 0) {
      put(bin.blocks[--bin.count], c);
      bytes += bin.size;
    }
  }
  cache.bytes = 0;
  return bytes;
}

std::size_t CpuMemoryPool::trim() noexcept {
  if (auto* cache = static_cast<ThreadCache*>(kiln::detail::thread_state.memory_cache)) {
    cache->trims = trims_.fetch_add(1, std::memory_order_relaxed) + 1;
    flush(*cache);
  } else {
    trims_.fetch_add(1, std::memory_order_relaxed);
  }
  std::size_t bytes = 0;
  for (int c = 0; c < kClasses; ++c) {
    std::vector<void*> blocks;
    {
      std::lock_guard lock(mutex_);
      blocks.swap(stores_[c].blocks);
      stored_bytes_ -= blocks.size() * size_of(c);
      stored_blocks_ -= blocks.size();
    }
    for (void* block : blocks) system_release(block, size_of(c));
    bytes += blocks.size() * size_of(c);
  }
  return bytes;
}

std::size_t CpuMemoryPool::stored_bytes() const {
  std::lock_guard lock(mutex_);
  return stored_bytes_;
}

void CpuMemoryPool::throw_out_of_memory(std::size_t bytes, const char* reason) {
  const auto megabytes = [](std::size_t value) {
    return value < std::size_t{1} << 20 ? format("{}B", value) : format("{}MB", value >> 20);
  };
  std::lock_guard lock(mutex_);
  throw ValueError(
      format("Memory manager cannot satisfy allocation (host): {} on [Device(type=cpu,id=0)]@{} "
             "(request: {} ; free: {} ; free_blocks: {} ; available: {} ; chunk_size: 0B ; "
             "chunk_count: 0 ; cache_size: {} ; max_cache_size: {})",
             reason, static_cast<const void*>(this), megabytes(bytes), megabytes(stored_bytes_),
             stored_blocks_, megabytes(host_memory().available), megabytes(stored_bytes_),
             megabytes(max_stored_bytes_)));
}

}  // namespace kiln::driver
