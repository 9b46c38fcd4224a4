#pragma once

#include <memory>

#include "emulator/device/driver.h"

namespace kiln::emulator {

/// Memory of a device for allocations in the order of streams.
struct Pool : Object {
  static constexpr ObjectKind kKind = ObjectKind::pool;
  Pool() : Object(kKind) {}
  ~Pool() override { process_memory()->clear(std::move(heap)); }

  std::uint32_t device = 0;
  bool is_default = false;
  std::unique_ptr<Heap> heap;
  std::uint64_t most = 0;  // bytes; 0: no limit
  std::mutex mutex;        // of what follows
  std::uint64_t release_threshold = 0;
  std::uint64_t used = 0, used_high = 0, reserved_high = 0;
  int follow_events = 1, opportunistic = 1, internal = 1;
};

/// The pool that a device began with, made on first use.
std::shared_ptr<Pool> default_pool(Driver& driver, Device& device);
/// The pool that cuMemAllocAsync takes from.
std::shared_ptr<Pool> current_pool(Driver& driver, Device& device);
/// Counts memory of a pool as freed. A pool that was destroyed before ends with its last memory.
void pool_freed(Driver& driver, const Region& region);

}  // namespace kiln::emulator
