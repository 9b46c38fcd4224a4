#include "kiln/driver/cuda/completion.h"

#include <condition_variable>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "kiln/driver/cuda/queue.h"
#include "kiln/support/process.h"

namespace kiln::driver::cuda {
namespace {

constexpr auto kShortest = std::chrono::microseconds(20);
constexpr auto kLongest = std::chrono::microseconds(500);
/// Looks between two questions to the driver about faults.
constexpr int kFaultInterval = 16;

struct Watch {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<CudaQueue*> pending;
  std::map<const Timeline*, CudaQueue*> queues;  // all that are alive
  bool started = false;
};

Watch& state() {
  static auto* instance = new Watch;  // leaked: its thread outlives static destructors
  return *instance;
}

/// Looks at every queue once; whether something moved.
bool look(bool check_faults) {
  Watch& watch = state();
  std::vector<CudaQueue*> queues;
  {
    const std::lock_guard lock(watch.mutex);
    queues.assign(watch.pending.begin(), watch.pending.end());
  }
  bool moved = false;
  for (CudaQueue* queue : queues) {
    const std::uint64_t before = queue->timeline().completed();
    const bool left = queue->poll(check_faults);
    moved |= queue->timeline().completed() != before;
    if (left) continue;
    const std::lock_guard lock(watch.mutex);
    // Work that comes from here on sees that nobody watches, or is seen here.
    queue->set_watched(false);
    if (queue->timeline().completed() < queue->submitted()) {
      queue->set_watched(true);
      continue;
    }
    watch.pending.erase(queue);
    if (queue->closed()) {
      watch.queues.erase(&queue->timeline());
      delete queue;
    }
  }
  return moved;
}

void run() {
  Watch& watch = state();
  auto sleep = kShortest;
  for (int round = 0;; ++round) {
    {
      std::unique_lock lock(watch.mutex);
      if (watch.pending.empty()) sleep = kShortest;
      watch.changed.wait(lock, [&] { return !watch.pending.empty(); });
    }
    if (look(round % kFaultInterval == kFaultInterval - 1)) {
      sleep = kShortest;
      continue;
    }
    std::this_thread::sleep_for(sleep);
    sleep = std::min<std::chrono::microseconds>(sleep * 2, kLongest);
  }
}

}  // namespace

namespace {

void watch_locked(Watch& all, CudaQueue& queue) {
  queue.set_watched(true);
  if (!all.pending.insert(&queue).second) return;
  if (!all.started) {
    mark_in_use();
    start_detached_thread(run);
    all.started = true;
    std::atexit([] {
      if (!forked_after_use()) wait_for_all(end_deadline());
    });
  }
  all.changed.notify_one();
}

}  // namespace

void watch(CudaQueue& queue) {
  if (queue.watched()) return;
  const std::lock_guard lock(state().mutex);
  watch_locked(state(), queue);
}

void close_queue(CudaQueue& queue) {
  // All of it under the lock: the queue may be gone as soon as that is free.
  const std::lock_guard lock(state().mutex);
  queue.set_closed();
  watch_locked(state(), queue);
}

void flush(const Point& point) {
  if (point.timeline->device_cell() == nullptr || point.reached()) return;
  Watch& all = state();
  const std::lock_guard lock(all.mutex);
  const auto found = all.queues.find(point.timeline.get());
  if (found != all.queues.end()) found->second->flush(point.value);
}

void add_queue(CudaQueue& queue) {
  const std::lock_guard lock(state().mutex);
  state().queues.emplace(&queue.timeline(), &queue);
}

void after_present_work(std::function<void()> function) {
  std::vector<Point> ends;
  {
    const std::lock_guard lock(state().mutex);
    for (CudaQueue* queue : state().pending) ends.push_back(queue->end());
  }
  struct Last {
    std::function<void()> function;
    explicit Last(std::function<void()> f) : function(std::move(f)) {}
    Last(const Last&) = delete;
    Last& operator=(const Last&) = delete;
    ~Last() { function(); }
  };
  const auto last = std::make_shared<Last>(std::move(function));
  for (const Point& end : ends) end.timeline->when_reached(end.value, [last] {});
}

void wait_for_all(std::chrono::steady_clock::time_point deadline) noexcept {
  std::vector<Point> ends;
  {
    const std::lock_guard lock(state().mutex);
    for (CudaQueue* queue : state().pending) ends.push_back(queue->end());
  }
  for (const Point& end : ends) end.timeline->wait_until(end.value, deadline);
}

}  // namespace kiln::driver::cuda
