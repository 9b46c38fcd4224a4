#include "emulator/execute/memory_pools.h"

#include <sys/mman.h>

#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace kiln::emulator {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kKeptStackBytes = std::size_t{1} << 30;  // address space, mostly untouched

struct StackPool {
  std::mutex mutex;
  std::multimap<std::size_t, std::byte*> free;
  std::size_t kept = 0;
};

StackPool& stack_pool() {
  static auto* const pool = new StackPool;
  return *pool;
}

// Powers of two, so that blocks of different kernels share memory.
struct ScratchPool {
  std::mutex mutex;
  std::uint64_t next = 0, last = 0;
  std::vector<std::uint64_t> free[64];

  std::uint64_t take(unsigned order) {
    const std::lock_guard lock(mutex);
    if (!free[order].empty()) {
      const std::uint64_t address = free[order].back();
      free[order].pop_back();
      return address;
    }
    const std::uint64_t bytes = std::uint64_t{1} << order;
    if (bytes > last - next) return 0;
    return std::exchange(next, next + bytes);
  }
  void give(std::uint64_t address, unsigned order) {
    const std::lock_guard lock(mutex);
    free[order].push_back(address);
  }
};

// Pools stay when a view goes: what was in use then is given back later.
ScratchPool* scratch_pool(const DeviceView& view) {
  using Key = std::pair<const std::byte*, std::uint64_t>;
  static std::mutex mutex;
  static auto* const pools = new std::map<Key, std::unique_ptr<ScratchPool>>;
  thread_local Key last_key;
  thread_local ScratchPool* last_pool = nullptr;
  const Key key{view.base, view.scratch_first};
  if (last_pool != nullptr && last_key == key) return last_pool;
  const std::lock_guard lock(mutex);
  auto& pool = (*pools)[key];
  if (pool == nullptr) {
    pool = std::make_unique<ScratchPool>();
    pool->next = (view.scratch_first + kPage - 1) / kPage * kPage;
    pool->last = std::max(view.scratch_last, pool->next);
  }
  last_key = key;
  last_pool = pool.get();
  return last_pool;
}

}  // namespace

StackMemory::StackMemory(std::size_t bytes) : bytes_((bytes + kPage - 1) / kPage * kPage) {
  StackPool& pool = stack_pool();
  {
    const std::lock_guard lock(pool.mutex);
    if (const auto found = pool.free.find(bytes_); found != pool.free.end()) {
      begin_ = found->second;
      pool.kept -= bytes_;
      pool.free.erase(found);
      return;
    }
  }
  void* memory = ::mmap(nullptr, bytes_ + kPage, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  ::mprotect(memory, kPage, PROT_NONE);
  begin_ = static_cast<std::byte*>(memory) + kPage;
}

StackMemory::StackMemory(StackMemory&& other) noexcept
    : begin_(std::exchange(other.begin_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

StackMemory& StackMemory::operator=(StackMemory&& other) noexcept {
  std::swap(begin_, other.begin_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

StackMemory::~StackMemory() {
  if (begin_ == nullptr) return;
  StackPool& pool = stack_pool();
  {
    const std::lock_guard lock(pool.mutex);
    if (pool.kept + bytes_ <= kKeptStackBytes) {
      pool.free.emplace(bytes_, begin_);
      pool.kept += bytes_;
      return;
    }
  }
  ::munmap(begin_ - kPage, bytes_ + kPage);
}

ScratchMemory::ScratchMemory(const DeviceView& view, std::uint64_t bytes) {
  const auto order =
      static_cast<unsigned>(std::bit_width(std::max<std::uint64_t>(bytes, kPage) - 1));
  ScratchPool* pool = scratch_pool(view);
  if (order >= 48) return;
  address_ = pool->take(order);
  if (address_ == 0) return;
  pool_ = pool;
  bytes_ = std::uint64_t{1} << order;
}

ScratchMemory::ScratchMemory(ScratchMemory&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      address_(std::exchange(other.address_, 0)),
      bytes_(std::exchange(other.bytes_, 0)) {}

ScratchMemory& ScratchMemory::operator=(ScratchMemory&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

ScratchMemory::~ScratchMemory() {
  if (bytes_ != 0)
    static_cast<ScratchPool*>(pool_)->give(address_,
                                           static_cast<unsigned>(std::countr_zero(bytes_)));
}

}  // namespace kiln::emulator
