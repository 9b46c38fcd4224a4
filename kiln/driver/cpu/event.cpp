#include "kiln/driver/cpu/event.h"

#include <algorithm>
#include <chrono>

namespace kiln::driver {
namespace {

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void CpuEvent::record(QueueBackend& queue) {
  Point mark = queue.end();
  std::shared_ptr<std::atomic<std::int64_t>> time;
  if (enable_timing()) {
    time = std::make_shared<std::atomic<std::int64_t>>(0);
    queue.timeline().when_reached(mark.value, [time] { *time = now(); });
  }
  std::lock_guard lock(mutex_);
  mark_ = std::move(mark);
  time_ = std::move(time);
}

Point CpuEvent::mark() const {
  std::lock_guard lock(mutex_);
  return mark_;
}

std::pair<Point, std::shared_ptr<std::atomic<std::int64_t>>> CpuEvent::timed_mark() const {
  std::lock_guard lock(mutex_);
  return {mark_, time_};
}

double CpuEvent::elapsed_time(const EventBackend& end) const {
  const auto [from, first] = timed_mark();
  const auto [to, last] = static_cast<const CpuEvent&>(end).timed_mark();
  // The mark is reached a moment before the worker has noted the time.
  const auto value = [](const std::atomic<std::int64_t>& time) {
    std::int64_t ns = 0;
    while ((ns = time.load(std::memory_order_acquire)) == 0) {
    }
    return ns;
  };
  const std::int64_t elapsed = value(*last) - value(*first);
  // A mark that is reached when it is set is stamped at once, a moment before the worker may have
  // stamped an earlier one.
  const bool in_order = from.timeline == to.timeline && from.value <= to.value;
  return static_cast<double>(in_order ? std::max<std::int64_t>(elapsed, 0) : elapsed) / 1e6;
}

}  // namespace kiln::driver
