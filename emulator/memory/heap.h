#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "emulator/memory/free_ranges.h"
#include "emulator/memory/window.h"

namespace kiln::emulator {

/// Memory of one device (or pinned memory of the host) in blocks of mapped pages: allocations of
/// more than 512 KiB have a block of their own with an untouchable gap behind it, smaller ones
/// share blocks of 2 MiB, as on hardware. A file's pages lie at the offset of their address in the
/// window, so a block needs no bookkeeping but its range. Not thread-safe; `addresses`, `window`
/// and `file` outlive the heap.
class Heap {
 public:
  /// `place` is a device or Window::kHost; `reach` has the bit of each device that sees it.
  Heap(Window& window, FreeRanges& addresses, MemoryFile& file, std::uint32_t place,
       std::uint32_t reach)
      : window_(window), addresses_(addresses), file_(file), place_(place), reach_(reach) {}
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  static constexpr std::uint64_t kAlignment = 512;
  static constexpr std::uint64_t kPage = 4096;
  /// What `bytes` take of the heap, the gap that keeps neighbours apart included.
  static std::uint64_t taken(std::uint64_t bytes);

  /// An address, a multiple of 512; nullopt when addresses or mappings ran out.
  std::optional<std::uint64_t> allocate(std::uint64_t bytes);
  void free(std::uint64_t address, std::uint64_t bytes);

  /// Lets a device see all blocks, or no longer; false when the system refused a mapping.
  bool add_reach(std::uint32_t device);
  void remove_reach(std::uint32_t device);
  std::uint32_t reach() const { return reach_; }

  /// Bytes of mapped blocks, and the part of them that may be kept although nobody uses it.
  std::uint64_t reserved() const { return reserved_; }
  std::atomic<std::uint64_t> keep = kBlock;
  /// Unmaps blocks that nobody uses until no more than `bytes` are reserved or all are in use.
  void trim(std::uint64_t bytes);
  /// Unmaps everything, used or not.
  void clear();

  static constexpr std::uint64_t kBlock = 2ull << 20;
  static constexpr std::uint64_t kLargestShared = 512ull << 10;

 private:
  struct Block {
    std::uint64_t bytes = 0;
    std::uint64_t used = 0;  // bytes taken by allocations of a shared block
    bool shared = false;
  };
  using Blocks = std::map<std::uint64_t, Block>;
  std::optional<Blocks::iterator> map_block(std::uint64_t bytes, bool shared);
  Blocks::iterator unmap_block(Blocks::iterator block);
  void unmap_pages(std::uint64_t address, std::uint64_t bytes);
  bool map_pages(std::uint64_t address, std::uint64_t bytes);

  Window& window_;
  FreeRanges& addresses_;
  MemoryFile& file_;
  std::uint32_t place_;
  std::uint32_t reach_;
  std::atomic<std::uint64_t> reserved_ = 0;
  std::uint64_t unused_ = 0;  // bytes of shared blocks without any allocation
  Blocks blocks_;
  FreeRanges free_;  // within shared blocks
};

}  // namespace kiln::emulator
