#include "kiln/driver/cpu/queue.h"

#include <cxxabi.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <system_error>

#include "kiln/driver/failure_injection.h"
#include "kiln/support/debug_settings.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/interrupt.h"
#include "kiln/support/pause.h"
#include "kiln/support/process.h"
#include "kiln/support/trace.h"

// Work is numbered in the order of enqueue under the queue's lock, and the worker takes it in that
// order, so "the timeline has reached the last number" means idle. Callers that find the queue idle
// run kiln's own work themselves: a copy or fill claims the next number with one compare-and-swap,
// and model calls, which may run beside each other, enter the queue. The worker starts no work
// before all earlier numbers are over and nobody is in the queue; inline_work.h has the other side.
//
// Workers are detached threads. They and all queues with pending work are left as they are when the
// process ends; `end_process` gives them two seconds before that.

namespace kiln::driver {
namespace {

/// Queues that have a worker; leaked, because workers outlive static destructors.
struct Registry {
  std::mutex mutex;
  std::set<CpuQueue*> queues;
};
Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

std::atomic<bool> process_ends = false;

/// How often an idle worker looks for work before it sleeps: some 10 µs, longer than a caller takes
/// between two calls, so that a chain of small works pays for no wake-up.
constexpr int kSpins = 500;

/// What a trace calls the work.
std::string name_of(const Work& work) {
  if (!work.name.empty()) return work.name;
  switch (work.kind) {
    case Work::Kind::wait:
      return "wait";
    case Work::Kind::copy:
      return "copy";
    case Work::Kind::fill:
      return "fill";
    case Work::Kind::native:
    case Work::Kind::function:
    case Work::Kind::user_function:
    case Work::Kind::foreign_function:
      break;
  }
  const char* const type = work.function.target_type().name();
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(type, nullptr, nullptr, &status), &std::free);
  return readable ? readable.get() : type;
}

std::int64_t bytes_of(const Work& work) {
  return work.bytes > 0 ? static_cast<std::int64_t>(work.bytes) : -1;
}

const char* name_of_queue(const void* queue) {
  thread_local std::string name;
  name = static_cast<const QueueBackend*>(queue)->to_string();
  return name.c_str();
}

}  // namespace

CpuQueue::CpuQueue(DeviceBackend& device) : QueueBackend(device) {}
CpuQueue::~CpuQueue() = default;

std::uint64_t CpuQueue::enqueue(Work work) {
  failure_injection::before_enqueue();
  if (tracing()) [[unlikely]] {
    work.trace_link = new_trace_link();
    record_moment(name_of(work), "enqueue",
                  {.bytes = bytes_of(work), .starts_link = work.trace_link});
  }
  std::unique_lock lock(mutex_);
  if (!worker_started_) start_worker();
  while (!room_made_.wait_for(lock, std::chrono::milliseconds(kInterruptMilliseconds),
                              [&] { return items_.size() < kMaxPending; })) {
    lock.unlock();
    check_interrupt();
    lock.lock();
  }
  const bool user =
      work.kind == Work::Kind::user_function || work.kind == Work::Kind::foreign_function;
  items_.push_back({0, std::move(work)});
  const std::uint64_t value = submitted_.fetch_add(1, std::memory_order_seq_cst) + 1;
  items_.back().value = value;
  if (user) last_user_function_.store(value, std::memory_order_release);
  appended_.fetch_add(1, std::memory_order_release);
  lock.unlock();
  work_added_.notify_one();
  if (kiln::detail::device_sync_mode.load(std::memory_order_relaxed)) [[unlikely]] {
    // To its end: nobody has recorded the uses of this work yet.
    timeline_->wait_until(value, std::chrono::steady_clock::time_point::max());
    if (timeline_->failed()) synchronize();
  }
  return value;
}

void CpuQueue::start_worker() {
  mark_in_use();
  Registry& all = registry();
  {
    std::lock_guard lock(all.mutex);
    static const bool registered = std::atexit([] { end_process(); }) == 0;
    (void)registered;
    all.queues.insert(this);
  }
  try {
    start_detached_thread([this] { run_worker(); });
  } catch (const std::system_error& error) {
    std::lock_guard lock(all.mutex);
    all.queues.erase(this);
    throw RuntimeError(
        format("The worker thread of {} could not be started: {}", to_string(), error.what()));
  }
  worker_started_ = true;
}

void CpuQueue::run_worker() noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (items_.empty() && !closed_) {
      const std::uint64_t last = appended_.load(std::memory_order_relaxed);
      lock.unlock();
      spin_until(kSpins, [&] { return appended_.load(std::memory_order_acquire) != last; });
      lock.lock();
    }
    work_added_.wait(lock, [&] { return !items_.empty() || closed_; });
    if (items_.empty()) break;
    Item item = std::move(items_.front());
    items_.pop_front();
    lock.unlock();
    room_made_.notify_one();
    run(item);
    timeline_->advance(item.value);
    lock.lock();
  }
  lock.unlock();
  {
    std::lock_guard all_lock(registry().mutex);
    registry().queues.erase(this);
  }
  delete this;
}

void CpuQueue::run(Item& item) noexcept {
  Work& work = item.work;
  const bool traced = tracing();
  const std::int64_t taken = traced ? trace_now() : 0;
  for (const Point& point : work.waits) point.wait();
  wait_for_inline_work(item.value);
  const std::int64_t begin = traced ? trace_now() : 0;
  if (work.kind == Work::Kind::foreign_function && process_ends.load(std::memory_order_acquire)) {
    // Neither run nor destroyed: its interpreter may be gone.
    new std::function<void()>(std::move(work.function));
    return;
  }
  const std::string name = traced ? name_of(work) : std::string();
  bool has_run = false;
  if (timeline_->begin(item.value)) {
    std::exception_ptr error;
    for (const std::vector<Point>* points : {&work.waits, &work.reads})
      for (const Point& point : *points)
        if (!error) error = point.error();
    if (!error) {
      has_run = true;
      if (traced) [[unlikely]]
        record_running(trace_track(), name, "work", begin,
                       {.bytes = bytes_of(work), .ends_link = work.trace_link});
      try {
        execute(work);
      } catch (...) {
        error = std::current_exception();
      }
    }
    if (error) timeline_->fail(item.value, std::move(error));
  }
  if (traced) [[unlikely]] {
    const int track = trace_track();
    const bool only_waits = work.kind == Work::Kind::wait;
    if (!work.waits.empty())
      record_span(track, "wait", "wait", taken, begin,
                  {.ends_link = only_waits ? work.trace_link : 0});
    if (!only_waits)
      record_span(track, has_run ? name : name + " (skipped)", has_run ? "work" : "skipped", begin,
                  has_run ? trace_now() : begin,
                  {.bytes = bytes_of(work), .ends_link = work.trace_link});
  }
  // Captured handles go before the work counts as over, so that whoever waits for it may rely on
  // their release. Dropping them is no call of the user's.
  work.function = nullptr;
}

namespace {

/// Into the memory of an accelerator; from there, too, by way of the host.
void copy_to_device(const Work& work) {
  std::vector<std::byte> between;
  const void* source = work.source;
  if (!work.source_device->is_host()) {
    between.resize(work.bytes);
    work.source_device->copy_to_host(between.data(), source, work.bytes);
    source = between.data();
  }
  work.destination_device->copy_from_host(work.destination, source, work.bytes);
}

}  // namespace

void CpuQueue::execute(Work& work) {
  switch (work.kind) {
    case Work::Kind::wait:
      return;
    case Work::Kind::copy:
      if (work.destination_device != nullptr && !work.destination_device->is_host())
        copy_to_device(work);
      else if (work.source_device->is_host())
        std::memmove(work.destination, work.source, work.bytes);
      else
        work.source_device->copy_to_host(work.destination, work.source, work.bytes);
      return;
    case Work::Kind::fill:
      std::memset(work.destination, work.value, work.bytes);
      return;
    case Work::Kind::native:
      KILN_CHECK(false, "a CPU queue has no stream of a vendor");
      return;
    case Work::Kind::function:
      work.function();
      return;
    case Work::Kind::user_function:
    case Work::Kind::foreign_function: {
      InsideWork inside(static_cast<QueueBackend*>(this), name_of_queue);
      work.function();
      return;
    }
  }
}

void CpuQueue::synchronize() {
  if (idle()) return;
  timeline_->wait(submitted());
  std::exception_ptr error = timeline_->recover();
  if (!error) return;
  // The queue's end would still be the failed work's number, so marks set from now on would look
  // failed; one number is spent to tell them apart.
  std::uint64_t end = submitted();
  if (timeline_->reached(end) &&
      submitted_.compare_exchange_strong(end, end + 1, std::memory_order_seq_cst))
    timeline_->advance(end + 1);
  std::rethrow_exception(error);
}

void CpuQueue::close() noexcept {
  std::unique_lock lock(mutex_);
  if (!worker_started_) {
    lock.unlock();
    delete this;
    return;
  }
  closed_ = true;
  // Notified under the lock: the worker deletes the queue as soon as it can take it.
  work_added_.notify_one();
}

void CpuQueue::end_process() noexcept {
  if (forked_after_use()) return;
  process_ends.store(true, std::memory_order_release);
  const auto deadline = end_deadline();
  std::vector<Point> ends;
  {
    std::lock_guard lock(registry().mutex);
    for (CpuQueue* queue : registry().queues) ends.push_back(queue->end());
  }
  for (const Point& end : ends) end.timeline->wait_until(end.value, deadline);
}

}  // namespace kiln::driver
