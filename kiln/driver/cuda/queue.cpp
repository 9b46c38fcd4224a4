#include "kiln/driver/cuda/queue.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "kiln/driver/cuda/completion.h"
#include "kiln/driver/cuda/device.h"
#include "kiln/driver/failure_injection.h"
#include "kiln/driver/launch_trace.h"
#include "kiln/support/debug_settings.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/interrupt.h"
#include "kiln/support/pause.h"
#include "kiln/support/process.h"

// Work is submitted to the stream within `enqueue`, in the order of its numbers. What it must wait
// for stands before it on the stream: a number in the cell of another queue, or one in this queue's
// gate, which the host opens when work of the CPU is over. So nothing waits on a thread of ours.
//
// The stream cannot tell that such a wait ended by a failure. Work that depends on other queues is
// therefore kept in a list, and when the stream has done it, it counts as failed if they failed.

namespace kiln::driver::cuda {
namespace {

DevicePointer pointer(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

/// How long `synchronize` looks before it sleeps between two looks.
constexpr auto kBusy = std::chrono::microseconds(200);

}  // namespace

CudaQueue::CudaQueue(CudaDevice& device, int priority)
    : QueueBackend(device),
      cuda_device_(device),
      cell_(new_cell(device.context())),
      gate_(std::make_shared<Gate>(device.context())) {
  const ContextScope scope(device.context());
  check(library().stream_create(&stream_, kStreamNonBlocking, priority),
        "cuStreamCreateWithPriority");
  timeline_->set_device_cell(cell_);
  add_queue(*this);
}

CudaQueue::CudaQueue(CudaDevice& device, Stream external, std::true_type)
    : QueueBackend(device),
      cuda_device_(device),
      stream_(external),
      owned_(false),
      cell_(new_cell(device.context())),
      gate_(std::make_shared<Gate>(device.context())) {
  timeline_->set_device_cell(cell_);
  add_queue(*this);
}

CudaQueue::~CudaQueue() {
  if (!owned_ || library().context_push(cuda_device_.context()) != kSuccess) return;
  library().stream_destroy(stream_);
  Context ignored = nullptr;
  library().context_pop(&ignored);
}

void CudaQueue::check(Result result, std::string_view call) const {
  cuda::check(result, call, device_.id());
}

std::uint64_t CudaQueue::enqueue(Work work) {
  failure_injection::before_enqueue();
  cuda_device_.throw_if_faulted();
  if (tracing()) [[unlikely]]
    record_moment(work.kind == Work::Kind::copy   ? "copy"
                  : work.kind == Work::Kind::fill ? "fill"
                                                  : "wait",
                  "enqueue", {.bytes = static_cast<std::int64_t>(work.bytes)});
  // Before this queue's lock: two queues may wait for each other's work.
  for (const Point& point : work.waits) cuda::flush(point);
  std::uint64_t value = 0;
  {
    const std::lock_guard lock(mutex_);
    const ContextScope scope(cuda_device_.context());
    Dependent dependent;
    try {
      submit(work, dependent);
      if (launch_trace_runs()) [[unlikely]]
        record_work(work);
      // A row of launches needs no number behind each.
      value = finish(std::move(dependent), work.kind != Work::Kind::native);
    } catch (...) {
      if (dependent.done) dependent.done();
      throw;
    }
  }
  watch(*this);
  if (kiln::detail::device_sync_mode.load(std::memory_order_relaxed)) [[unlikely]] {
    // The stream itself says what happened, before anything else is given to it.
    {
      const ContextScope scope(cuda_device_.context());
      library().stream_synchronize(stream_);
    }
    poll(true);
    timeline_->wait(value);
    if (timeline_->failed()) synchronize();
  }
  return value;
}

void CudaQueue::record_work(const Work& work) const {
  LaunchTraceEntry entry;
  if (work.kind == Work::Kind::copy) {
    entry.kind = OperationKind::MEMCPY;
    entry.name = work.source_device->is_host() || work.source_device == &device_
                     ? "cuMemcpyAsync"
                     : "cuMemcpyPeerAsync";
    entry.memcpy_kind = work.source_device->is_host() ? MemcpyKind::HTOD : MemcpyKind::DTOD;
    entry.memcpy_byte_size = work.bytes;
  } else if (work.kind == Work::Kind::fill) {
    entry.kind = OperationKind::MEMSET;
    entry.name = "cuMemsetD8Async";
    entry.memset_byte_size = work.bytes;
    entry.memset_value = work.value;
    entry.memset_value_size = 1;
  } else {
    return;
  }
  record_launch(std::move(entry), this);
}

void CudaQueue::wait_for(const Point& point) {
  if (point.reached() || point.timeline.get() == timeline_.get()) return;
  write_before_wait();
  if (std::uint64_t* cell = point.timeline->device_cell()) {
    check(library().stream_wait_value(stream_, pointer(cell), point.value, kWaitGreaterOrEqual),
          "cuStreamWaitValue64");
    return;
  }
  const std::uint64_t number = gate_->next();
  check(library().stream_wait_value(stream_, pointer(gate_->cell()), number, kWaitGreaterOrEqual),
        "cuStreamWaitValue64");
  point.timeline->when_reached(point.value, [gate = gate_, number] { gate->open(number); });
}

void CudaQueue::submit(Work& work, Dependent& dependent) {
  for (const std::vector<Point>* points : {&work.waits, &work.reads})
    for (const Point& point : *points)
      if (point.timeline.get() != timeline_.get() && (!point.reached() || point.error()))
        dependent.points.push_back(point);
  switch (work.kind) {
    case Work::Kind::copy:
      copy(work, dependent);
      return;
    case Work::Kind::fill:
      for (const Point& point : work.waits) wait_for(point);
      check(library().fill_async(pointer(work.destination), work.value, work.bytes, stream_),
            "cuMemsetD8Async");
      return;
    case Work::Kind::wait:
      for (const Point& point : work.waits) wait_for(point);
      return;
    case Work::Kind::native:
      for (const Point& point : work.waits) wait_for(point);
      work.submit(work.submit_argument, native_handle());
      return;
    default:
      throw NotImplementedError(
          format("{} runs no functions of the host: '{}' was given to it.", to_string(),
                 work.name.empty() ? std::string_view("a function") : std::string_view(work.name)));
  }
}

void CudaQueue::copy(Work& work, Dependent& dependent) {
  if (work.destination_device == nullptr) work.destination_device = &device_;
  if (work.source_device->is_host()) {
    copy_from_host(work, dependent);
    return;
  }
  for (const Point& point : work.waits) wait_for(point);
  if (work.destination_device->is_host()) {
    copy_to_host(work, dependent);
    return;
  }
  if (work.source_device == work.destination_device) {
    copy_on_device(work, dependent);
    return;
  }
  const auto& source = static_cast<const CudaDevice&>(*work.source_device);
  const auto& destination = static_cast<const CudaDevice&>(*work.destination_device);
  check(library().copy_peer_async(pointer(work.destination), destination.context(),
                                  pointer(work.source), source.context(), work.bytes, stream_),
        "cuMemcpyPeerAsync");
}

/// Through pinned memory, since the driver would make the caller wait for the stream otherwise.
void CudaQueue::copy_from_host(Work& work, Dependent& dependent) {
  MemoryManager& pinned = cuda_device_.host_memory();
  void* stage = pinned.allocate(work.bytes);
  const bool to_host = work.destination_device->is_host();
  dependent.done = [&pinned, stage, to = to_host ? work.destination : nullptr, bytes = work.bytes] {
    if (to != nullptr) std::memcpy(to, stage, bytes);
    pinned.release(stage, bytes);
  };
  std::vector<Point> pending;
  for (const Point& point : work.waits)
    if (!point.reached()) pending.push_back(point);
  // What this queue copies into plain memory is there when the host has seen that work's end.
  if (const Point written{timeline_, last_host_write_}; !written.reached())
    pending.push_back(written);
  if (pending.empty()) {
    std::memcpy(stage, work.source, work.bytes);
  } else {
    write_before_wait();
    const std::uint64_t number = gate_->next();
    check(library().stream_wait_value(stream_, pointer(gate_->cell()), number, kWaitGreaterOrEqual),
          "cuStreamWaitValue64");
    // Whoever completes the last of the points fills the stage.
    auto* remaining = new std::atomic<std::size_t>(pending.size());
    for (const Point& point : pending)
      point.timeline->when_reached(point.value, [remaining, gate = gate_, number, stage,
                                                 source = work.source, bytes = work.bytes] {
        if (remaining->fetch_sub(1, std::memory_order_acq_rel) != 1) return;
        delete remaining;
        std::memcpy(stage, source, bytes);
        gate->open(number);
      });
  }
  if (to_host) {
    last_host_write_ = submitted_.load(std::memory_order_relaxed) + 1;
    return;
  }
  check(library().copy_async(pointer(work.destination), pointer(stage), work.bytes, stream_),
        "cuMemcpyAsync");
}

void CudaQueue::copy_on_device(const Work& work, Dependent& dependent) {
  const DevicePointer to = pointer(work.destination);
  const DevicePointer from = pointer(work.source);
  if (to == from) return;
  const bool overlap = to < from + work.bytes && from < to + work.bytes;
  if (!overlap) {
    check(library().copy_async(to, from, work.bytes, stream_), "cuMemcpyAsync");
    return;
  }
  void* between = cuda_device_.allocate(work.bytes, *this, Usage::DEFAULT);
  dependent.done = [this, between, bytes = work.bytes] {
    cuda_device_.release(between, bytes, Usage::DEFAULT);
  };
  check(library().copy_async(pointer(between), from, work.bytes, stream_), "cuMemcpyAsync");
  check(library().copy_async(to, pointer(between), work.bytes, stream_), "cuMemcpyAsync");
}

void CudaQueue::copy_to_host(const Work& work, Dependent& dependent) {
  MemoryManager& pinned = cuda_device_.host_memory();
  void* stage = pinned.allocate(work.bytes);
  dependent.done = [&pinned, stage, to = work.destination, bytes = work.bytes] {
    std::memcpy(to, stage, bytes);
    pinned.release(stage, bytes);
  };
  check(library().copy_async(pointer(stage), pointer(work.source), work.bytes, stream_),
        "cuMemcpyAsync");
  last_host_write_ = submitted_.load(std::memory_order_relaxed) + 1;
}

std::uint64_t CudaQueue::finish(Dependent dependent, bool write) {
  const std::uint64_t value = submitted_.load(std::memory_order_relaxed) + 1;
  submitted_.store(value, std::memory_order_seq_cst);
  if (!dependent.points.empty() || dependent.done) {
    dependent.value = value;
    dependents_.push_back(std::move(dependent));
    write = true;
  }
  if (write) write_number();
  return value;
}

void CudaQueue::write_number() {
  const std::uint64_t value = submitted_.load(std::memory_order_relaxed);
  check(library().stream_write_value(stream_, pointer(cell_), value, 0), "cuStreamWriteValue64");
  written_.store(value, std::memory_order_release);
}

void CudaQueue::write_before_wait() {
  if (written_.load(std::memory_order_relaxed) < submitted_.load(std::memory_order_relaxed))
    write_number();
}

void CudaQueue::flush(std::uint64_t value) {
  if (written_.load(std::memory_order_acquire) >= value) return;
  const std::lock_guard lock(mutex_);
  if (written_.load(std::memory_order_relaxed) >= value) return;
  const ContextScope scope(cuda_device_.context());
  write_number();
}

void CudaQueue::wait_for_host_value(std::uintptr_t device_ptr, std::uint64_t value) {
  {
    const std::lock_guard lock(mutex_);
    const ContextScope scope(cuda_device_.context());
    write_before_wait();
    check(library().stream_wait_value(stream_, device_ptr, value, kWaitEqual),
          "cuStreamWaitValue64");
    finish({}, true);
  }
  watch(*this);
}

bool CudaQueue::poll(bool check_faults) {
  const std::lock_guard lock(poll_mutex_);
  try {
    flush(submitted());
  } catch (const Error&) {
    check_faults = true;  // the driver refuses all work, and says why below
  }
  const std::uint64_t done = std::atomic_ref<std::uint64_t>(*cell_).load(std::memory_order_acquire);
  if (done > timeline_->completed()) {
    advance_to(done);
  } else if (check_faults && timeline_->completed() < submitted()) {
    Result result = library().context_push(cuda_device_.context());
    if (result == kSuccess) {
      result = library().stream_query(stream_);
      Context ignored = nullptr;
      library().context_pop(&ignored);
    }
    if (result != kSuccess && result != kNotReady) {
      const auto fault = std::make_exception_ptr(
          RuntimeError(format("Work on {} failed with {}.", to_string(), describe(result))));
      cuda_device_.set_fault(fault);
      fail_all(fault);
    }
  }
  return timeline_->completed() < submitted();
}

void CudaQueue::advance_to(std::uint64_t value) {
  std::deque<Dependent> finished;
  {
    const std::lock_guard lock(mutex_);
    while (!dependents_.empty() && dependents_.front().value <= value) {
      const std::vector<Point>& points = dependents_.front().points;
      // Whether they failed is not known yet; their own queue is looked at in turn.
      if (std::any_of(points.begin(), points.end(), [](const Point& p) { return !p.reached(); })) {
        value = dependents_.front().value - 1;
        break;
      }
      finished.push_back(std::move(dependents_.front()));
      dependents_.pop_front();
    }
  }
  std::uint64_t begun = timeline_->completed();
  const auto begin_until = [&](std::uint64_t last) {
    bool runs = true;
    while (begun < last) runs = timeline_->begin(++begun);
    return runs;
  };
  for (const Dependent& dependent : finished) {
    std::exception_ptr error;
    for (const Point& point : dependent.points)
      if (!error) error = point.error();
    if (error && begin_until(dependent.value)) timeline_->fail(dependent.value, error);
  }
  if (timeline_->failed()) begin_until(value);
  for (Dependent& dependent : finished)
    if (dependent.done) dependent.done();
  if (value > timeline_->completed()) timeline_->advance(value);
}

void CudaQueue::fail_all(std::exception_ptr error) {
  std::deque<Dependent> finished;
  std::uint64_t last = 0;
  {
    const std::lock_guard lock(mutex_);
    last = submitted();
    finished.swap(dependents_);
    // Other devices wait for this number, and go on.
    std::atomic_ref<std::uint64_t>(*cell_).store(last, std::memory_order_release);
  }
  bool first = true;
  for (std::uint64_t value = timeline_->completed() + 1; value <= last; ++value)
    if (timeline_->begin(value) && std::exchange(first, false)) timeline_->fail(value, error);
  for (Dependent& dependent : finished)
    if (dependent.done) dependent.done();
  timeline_->advance(last);
}

void CudaQueue::synchronize() {
  const std::uint64_t last = submitted();
  const auto start = std::chrono::steady_clock::now();
  auto next_check = start + std::chrono::milliseconds(kInterruptMilliseconds);
  while (!timeline_->reached(last)) {
    const auto now = std::chrono::steady_clock::now();
    const bool long_wait = now - start > kBusy;
    poll(long_wait);
    if (timeline_->reached(last)) break;
    if (!long_wait) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    if (now < next_check) continue;
    check_interrupt();
    next_check = now + std::chrono::milliseconds(kInterruptMilliseconds);
  }
  std::exception_ptr error = timeline_->recover();
  if (!error) {
    cuda_device_.throw_if_faulted();
    return;
  }
  // One number is spent, so that marks set from now on are none of the failed work.
  {
    const std::scoped_lock lock(poll_mutex_, mutex_);
    const std::uint64_t end = submitted();
    if (timeline_->reached(end)) {
      std::atomic_ref<std::uint64_t>(*cell_).store(end + 1, std::memory_order_release);
      submitted_.store(end + 1, std::memory_order_seq_cst);
      timeline_->advance(end + 1);
    }
  }
  std::rethrow_exception(error);
}

void CudaQueue::close() noexcept { close_queue(*this); }

}  // namespace kiln::driver::cuda
