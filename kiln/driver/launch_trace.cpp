#include "kiln/driver/launch_trace.h"

#include <mutex>
#include <utility>

namespace kiln::driver {
namespace {

struct Recording {
  std::mutex mutex;
  bool runs = false;
  std::vector<LaunchTraceEntry> entries;
};
Recording& recording() {
  static auto* instance = new Recording;  // leaked: queues outlive static destructors
  return *instance;
}

}  // namespace

void begin_launch_trace() {
  const std::lock_guard lock(recording().mutex);
  recording().entries.clear();
  recording().runs = true;
}

std::vector<LaunchTraceEntry> take_launch_trace() {
  const std::lock_guard lock(recording().mutex);
  recording().runs = false;
  return std::exchange(recording().entries, {});
}

void record_launch(LaunchTraceEntry entry) {
  const std::lock_guard lock(recording().mutex);
  if (recording().runs) recording().entries.push_back(std::move(entry));
}

const std::vector<LaunchTraceEntry>& LaunchTrace::entries() {
  if (!std::exchange(stopped_, true)) entries_ = take_launch_trace();
  return entries_;
}

}  // namespace kiln::driver
