#include "kiln/driver/launch_trace.h"

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "kiln/support/hash.h"

namespace kiln::driver {
namespace {

struct Recording {
  std::mutex mutex;
  std::atomic<bool> runs{false};
  std::vector<LaunchTraceEntry> entries;
  std::map<const void*, int> numbers;  // of queues
};
Recording& recording() {
  static auto* instance = new Recording;  // leaked: queues outlive static destructors
  return *instance;
}

/// Of what two runs of one program have in common.
std::uint64_t semantic_hash(const LaunchTraceEntry& entry) {
  const std::uint64_t numbers[] = {static_cast<std::uint64_t>(entry.kind),
                                   entry.grid_x,
                                   entry.grid_y,
                                   entry.grid_z,
                                   entry.block_x,
                                   entry.block_y,
                                   entry.block_z,
                                   entry.shared_mem_bytes,
                                   static_cast<std::uint64_t>(entry.memcpy_kind),
                                   entry.memcpy_byte_size,
                                   entry.memset_byte_size,
                                   entry.memset_value,
                                   entry.memset_value_size};
  const std::uint64_t hash = hash64(numbers, sizeof numbers, hash64(entry.name));
  return hash == 0 ? 1 : hash;
}

}  // namespace

void begin_launch_trace() {
  const std::lock_guard lock(recording().mutex);
  recording().entries.clear();
  recording().numbers.clear();
  recording().runs = true;
}

std::vector<LaunchTraceEntry> take_launch_trace() {
  const std::lock_guard lock(recording().mutex);
  recording().runs = false;
  return std::exchange(recording().entries, {});
}

bool launch_trace_runs() { return recording().runs.load(std::memory_order_relaxed); }

void record_launch(LaunchTraceEntry entry, const void* queue) {
  Recording& all = recording();
  const std::lock_guard lock(all.mutex);
  if (!all.runs) return;
  entry.stream_index =
      all.numbers.try_emplace(queue, static_cast<int>(all.numbers.size())).first->second;
  if (entry.semantic_hash == 0) entry.semantic_hash = semantic_hash(entry);
  all.entries.push_back(std::move(entry));
}

const std::vector<LaunchTraceEntry>& LaunchTrace::entries() {
  if (!std::exchange(stopped_, true)) entries_ = take_launch_trace();
  return entries_;
}

}  // namespace kiln::driver
