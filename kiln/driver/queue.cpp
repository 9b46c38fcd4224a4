#include "kiln/driver/queue.h"

#include "kiln/driver/backend.h"
#include "kiln/driver/completion_flag.h"
#include "kiln/driver/cpu/queue.h"
#include "kiln/driver/order_checker.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/process.h"

namespace kiln::driver {

void QueueBackend::wait_for_host_value(std::uintptr_t, std::uint64_t) {
  throw RuntimeError(
      format("wait_for_host_value is only supported on CUDA queues, not on {}", to_string()));
}

void ref_retain(QueueBackend* queue) noexcept { queue->retain(); }
void ref_release(QueueBackend* queue) noexcept {
  // In a child made by fork the queue's worker does not exist; its state stays as it is.
  if (queue->drop() && !forked_after_use()) queue->close();
}

std::uint64_t QueueBackend::try_claim() noexcept {
  std::uint64_t last = submitted_.load(std::memory_order_acquire);
  if (!timeline_->reached(last) || timeline_->failed() ||
      entries_.load(std::memory_order_relaxed) != 0)
    return 0;
  if (!submitted_.compare_exchange_strong(last, last + 1, std::memory_order_seq_cst)) return 0;
  const std::uint64_t value = last + 1;
  // All sequentially consistent, as `enter` and what follows it: one side sees the other.
  last_claim_.store(value, std::memory_order_seq_cst);
  if (entries_.load(std::memory_order_seq_cst) == 0) [[likely]]
    return value;
  timeline_->advance(value);
  return 0;
}

void QueueBackend::wait_for_inline_work(std::uint64_t value) const {
  timeline_->wait(value - 1);
  for (;;) {
    const std::uint32_t entries = entries_.load(std::memory_order_seq_cst);
    if (entries == 0) return;
    entries_.wait(entries, std::memory_order_seq_cst);
  }
}

std::string QueueBackend::to_string() const {
  return format("{}[{}]:queue@{}", device_.api(), device_.id(), static_cast<const void*>(this));
}

void InlineWorkSpan::begin() {
  link_ = new_trace_link();
  record_moment(name_, "enqueue", {.bytes = bytes_, .starts_link = link_});
  begin_ = trace_now();
}

void InlineWorkSpan::end() {
  record_span(queue_.trace_track(), name_, "work", begin_, trace_now(),
              {.bytes = bytes_, .ends_link = link_});
}

DeviceQueue::DeviceQueue(const Device& device) {
  check_call("DeviceQueue");
  backend_ = device.backend()->make_queue();
}

Device DeviceQueue::device() const { return Device(&backend_->device()); }

void DeviceQueue::synchronize() const {
  check_call("DeviceQueue.synchronize");
  const TraceSpan span("DeviceQueue.synchronize", "wait");
  if (order_checker::enabled()) [[unlikely]]
    order_checker::host_saw(backend_->end());
  backend_->synchronize();
}

DeviceEvent DeviceQueue::record_event() const {
  check_call("DeviceQueue.record_event");
  DeviceEvent event(device());
  event.backend()->record(*backend_);
  return event;
}

void DeviceQueue::record_event(const DeviceEvent& event) const {
  check_call("DeviceQueue.record_event");
  if (event.device() != device())
    throw ValueError(
        format("DeviceQueue.record_event: the event belongs to {}, but the queue to {}.",
               event.device().to_string(), device().to_string()));
  event.backend()->record(*backend_);
}

namespace {

void wait_for_point(QueueBackend& queue, Point point) {
  if (point.timeline.get() == &queue.timeline()) return;
  const bool checked = order_checker::enabled();
  if (checked) [[unlikely]]
    order_checker::wait(queue, point);
  // With the check a wait is work in any case: it marks a place on the queue.
  if (!checked && point.reached() && !point.error()) return;
  Work work;
  work.waits.push_back(std::move(point));
  queue.enqueue(std::move(work));
}

}  // namespace

void DeviceQueue::wait_for(const DeviceQueue& queue) const {
  check_call("DeviceQueue.wait_for");
  wait_for_point(*backend_, queue.backend()->end());
}

void DeviceQueue::wait_for(const Device& device) const { wait_for(device.default_queue()); }

void DeviceQueue::wait_for(const DeviceEvent& event) const {
  check_call("DeviceQueue.wait_for");
  wait_for_point(*backend_, event.backend()->mark());
}

void DeviceQueue::wait_for_host_value(const CompletionFlag& flag, std::uint64_t value) const {
  check_call("DeviceQueue.wait_for_host_value");
  backend_->wait_for_host_value(flag.device_ptr(), value);
}

void DeviceQueue::enqueue_cpu_function(std::function<void()> function) const {
  check_call("DeviceQueue.enqueue_cpu_function");
  if (!backend_->device().is_host())
    throw RuntimeError("enqueue_cpu_function is only supported on CPU queues");
  if (!function) throw ValueError("enqueue_cpu_function: the function is empty.");
  Work work;
  work.kind = Work::Kind::user_function;
  work.function = std::move(function);
  backend_->enqueue(std::move(work));
}

void DeviceQueue::enqueue_foreign_function(std::function<void()> function, std::string name) const {
  check_call("DeviceQueue.enqueue_cpu_function");
  if (!backend_->device().is_host())
    throw RuntimeError("enqueue_cpu_function is only supported on CPU queues");
  Work work;
  work.kind = Work::Kind::foreign_function;
  work.function = std::move(function);
  work.name = std::move(name);
  backend_->enqueue(std::move(work));
}

std::uintptr_t DeviceQueue::native_stream_handle() const { return backend_->native_handle(); }
std::string DeviceQueue::to_string() const { return backend_->to_string(); }

void DeviceQueue::wait_for_present_work(const char* call) const {
  if (order_checker::enabled()) [[unlikely]]
    order_checker::host_saw(backend_->end());
  if (!backend_->idle()) [[unlikely]] {
    const TraceSpan span(call, "wait");
    backend_->synchronize();
  }
}

void end_process() noexcept { CpuQueue::end_process(); }

}  // namespace kiln::driver
