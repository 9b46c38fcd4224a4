#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "kiln/driver/device.h"
#include "kiln/driver/event.h"
#include "kiln/support/ref.h"

namespace kiln::driver {

class CompletionFlag;
class QueueBackend;
void ref_retain(QueueBackend* queue) noexcept;
void ref_release(QueueBackend* queue) noexcept;

/// An in-order queue of work on one device. A small value; copies name the same queue. Safe from
/// any thread. `enqueue…` calls may return before the work has run; a CPU queue holds 65,536 items
/// that have not started, and a further call waits for room.
class DeviceQueue {
 public:
  /// A new queue beside the default one. Virtual devices: RuntimeError.
  explicit DeviceQueue(const Device& device);

  Device device() const;
  /// Blocks until everything enqueued so far has run; throws what failed since the last time.
  void synchronize() const;
  /// An event that marks the queue's present end.
  DeviceEvent record_event() const;
  /// Moves the event's mark here. Event of another device: ValueError.
  void record_event(const DeviceEvent& event) const;
  /// Later work here starts after the present work of `queue`, of `device`'s default queue, or
  /// after the event's present mark. The host does not block.
  void wait_for(const DeviceQueue& queue) const;
  void wait_for(const Device& device) const;
  void wait_for(const DeviceEvent& event) const;
  /// Later work here starts once the flag holds `value`. Not a CUDA queue: RuntimeError.
  void wait_for_host_value(const CompletionFlag& flag, std::uint64_t value) const;
  /// Runs `function` on the queue's worker after earlier work; its exception fails the queue.
  /// Not a CPU queue: RuntimeError. The function must not call the driver.
  void enqueue_cpu_function(std::function<void()> function) const;
  /// As `enqueue_cpu_function`, for functions of an interpreter that may be gone when the process
  /// ends: those that have not started by then are neither run nor destroyed. `name` is what a
  /// trace calls it.
  void enqueue_foreign_function(std::function<void()> function, std::string name = {}) const;
  /// The vendor's stream; 0 on the CPU.
  std::uintptr_t native_stream_handle() const;
  /// "cpu[0]:queue@0x…".
  std::string to_string() const;
  friend bool operator==(const DeviceQueue&, const DeviceQueue&) = default;

  /// `synchronize` as a part of `call`, which a trace shows as what waits.
  void wait_for_present_work(const char* call) const;

  explicit DeviceQueue(Ref<QueueBackend> backend) : backend_(std::move(backend)) {}
  QueueBackend* backend() const { return &*backend_; }
  /// Identity as a number, for hashing.
  const void* identity() const { return backend_.get(); }

 private:
  Ref<QueueBackend> backend_;
};

/// Gives enqueued work at most two seconds to finish and drops foreign functions that have not
/// started. Runs by itself when the process ends; a binding calls it while its interpreter lives.
void end_process() noexcept;

}  // namespace kiln::driver

template <>
struct std::hash<kiln::driver::DeviceQueue> {
  std::size_t operator()(const kiln::driver::DeviceQueue& queue) const noexcept {
    return std::hash<const void*>()(queue.identity());
  }
};
