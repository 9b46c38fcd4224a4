#pragma once

// What a device API must supply, and the state that the handles of the public headers point to.
// Backends implement these three classes; everything else of the driver is written against them.
// tests/driver/conformance_test.cpp says what each must do: a new one adds a row there.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/driver/usage.h"
#include "kiln/support/ref.h"
#include "kiln/support/timeline.h"
#include "kiln/support/trace.h"

namespace kiln::driver {

class QueueBackend;
class EventBackend;
void ref_retain(QueueBackend* queue) noexcept;
void ref_release(QueueBackend* queue) noexcept;
void ref_retain(EventBackend* event) noexcept;
void ref_release(EventBackend* event) noexcept;

/// One device. Objects live as long as the process, so everything may hold plain pointers to them.
class DeviceBackend {
 public:
  explicit DeviceBackend(bool is_host) : is_host_(is_host) {}
  virtual ~DeviceBackend() = default;

  /// Whether its memory is plain memory of this process, from the CPU's pool.
  bool is_host() const { return is_host_; }

  virtual std::string_view label() const = 0;
  virtual std::string_view api() const = 0;
  virtual int id() const = 0;
  virtual std::string architecture_name() const = 0;
  virtual std::string model_name() const = 0;
  virtual bool is_host_unified() const = 0;
  virtual bool is_compatible() const = 0;
  virtual std::map<std::string, std::int64_t> stats() const = 0;
  virtual std::size_t max_single_alloc_size() const = 0;
  /// Gives unused pooled memory back to the system; returns the bytes.
  virtual std::size_t trim() = 0;
  virtual bool can_access(const DeviceBackend& other) const = 0;

  /// The default queue: immortal, made on first use. A device that cannot run work: RuntimeError.
  virtual QueueBackend* default_queue() = 0;
  virtual Ref<QueueBackend> make_queue() = 0;
  virtual Ref<EventBackend> make_event(bool enable_timing) = 0;

  /// Memory for work of `queue`, aligned to 64 bytes on the host and 256 elsewhere. `bytes` > 0.
  /// Out of memory: ValueError.
  virtual void* allocate(std::size_t bytes, QueueBackend& queue, Usage usage) = 0;
  /// Copies memory of this device that no work uses into memory of the host, and waits for it.
  virtual void copy_to_host(void* destination, const void* source, std::size_t bytes) = 0;
  /// The other way.
  virtual void copy_from_host(void* destination, const void* source, std::size_t bytes) = 0;
  /// Takes memory back; called after every use of it is over.
  virtual void release(void* memory, std::size_t bytes, Usage usage) noexcept = 0;

 private:
  bool is_host_;
};

/// One piece of work for a queue. Memory it names stays alive because its uses are recorded.
struct Work {
  enum class Kind : std::uint8_t {
    /// Only waits.
    wait,
    /// `bytes` from `source` to `destination`, which may overlap.
    copy,
    /// `value` into `bytes` at `destination`.
    fill,
    /// kiln's own host function: CPU queues only.
    function,
    /// `submit`, which gives the vendor's stream its work before `enqueue` returns: accelerators.
    native,
    /// A function of the user's, from inside which driver calls throw: CPU queues only.
    user_function,
    /// As `user_function`, but dropped when the process ends before it has started.
    foreign_function,
  };

  Kind kind = Kind::wait;
  std::uint8_t value = 0;
  void* destination = nullptr;
  const void* source = nullptr;
  std::size_t bytes = 0;
  DeviceBackend* source_device = nullptr;
  /// Of a copy; null: the queue's device. A CUDA queue copies into plain memory of the host, too.
  DeviceBackend* destination_device = nullptr;
  std::function<void()> function;
  /// Called with the stream's native handle, whose context is current.
  void (*submit)(void* argument, std::uintptr_t stream) = nullptr;
  void* submit_argument = nullptr;
  /// What a trace calls the function; empty: its type.
  std::string name;
  /// Reached before the work starts; their failure is this work's failure.
  std::vector<Point> waits;
  /// Links the call to this work in a trace; 0: none.
  std::uint64_t trace_link = 0;
  /// Not waited for, but their failure is this work's failure too: writers of what is read.
  std::vector<Point> reads;
};

/// One in-order queue.
class QueueBackend : public RefCounted {
 public:
  explicit QueueBackend(DeviceBackend& device)
      : device_(device), timeline_(Ref<Timeline>::adopt(new Timeline)) {}
  virtual ~QueueBackend() = default;

  DeviceBackend& device() const { return device_; }
  Timeline& timeline() const { return *timeline_; }
  /// Number of the last work given to the queue.
  std::uint64_t submitted() const { return submitted_.load(std::memory_order_acquire); }
  /// The present end.
  Point end() const { return {timeline_, submitted()}; }
  /// Nothing is pending, and nothing that failed is undelivered.
  bool idle() const { return timeline_->completed() >= submitted() && !timeline_->failed(); }
  /// The last user function given to the queue, 0 for none.
  std::uint64_t last_user_function() const {
    return last_user_function_.load(std::memory_order_acquire);
  }
  /// The last work that a caller's thread ran at once, 0 for none.
  std::uint64_t last_claim() const { return last_claim_.load(std::memory_order_seq_cst); }
  std::string to_string() const;
  /// Its track in the present trace.
  int trace_track() const { return kiln::trace_track(this, to_string()); }

  /// Appends work and returns its number on the timeline; blocks while the queue is full. Calls
  /// `failure_injection::before_enqueue` first.
  virtual std::uint64_t enqueue(Work work) = 0;
  /// Blocks until all present work is over; throws what failed since the last time.
  virtual void synchronize() = 0;
  virtual std::uintptr_t native_handle() const = 0;
  /// Appends a wait until the cell of a CompletionFlag holds `value`. Other than CUDA:
  /// RuntimeError.
  virtual void wait_for_host_value(std::uintptr_t device_ptr, std::uint64_t value);
  /// Called when the last handle goes: destroys the queue once its work is over, without waiting.
  virtual void close() noexcept = 0;

  /// For inline_work.h. Takes the next place of an idle queue that no model call uses and returns
  /// its number, which the caller's thread completes; 0 when another thread comes first.
  std::uint64_t try_claim() noexcept;
  /// For inline_work.h. Between the two no work of the queue starts; several threads may be there.
  void enter() noexcept { entries_.fetch_add(1, std::memory_order_seq_cst); }
  void leave() noexcept {
    // The worker looks at the entries after its work was given a number: one side sees the other.
    if (entries_.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
        timeline_->completed() < submitted_.load(std::memory_order_seq_cst)) [[unlikely]]
      entries_.notify_all();
  }

 protected:
  /// Before queued work runs: work `value - 1` is over, and nobody is between `enter` and `leave`.
  void wait_for_inline_work(std::uint64_t value) const;

  DeviceBackend& device_;
  Ref<Timeline> timeline_;
  std::atomic<std::uint64_t> submitted_{0};
  std::atomic<std::uint64_t> last_user_function_{0};

 private:
  std::atomic<std::uint64_t> last_claim_{0};
  /// On a cache line of its own: parallel model calls write it, all others read what is above.
  alignas(64) std::atomic<std::uint32_t> entries_{0};
};

/// Records its own life as work of a queue that runs on the caller's thread, linked to the call.
class InlineWorkSpan {
 public:
  InlineWorkSpan(const QueueBackend& queue, const char* name, std::size_t bytes)
      : queue_(queue), name_(name), bytes_(static_cast<std::int64_t>(bytes)) {
    if (tracing()) [[unlikely]]
      begin();
  }
  InlineWorkSpan(const InlineWorkSpan&) = delete;
  InlineWorkSpan& operator=(const InlineWorkSpan&) = delete;
  ~InlineWorkSpan() {
    if (link_ != 0) [[unlikely]]
      end();
  }

 private:
  void begin();
  void end();

  const QueueBackend& queue_;
  const char* name_;
  std::int64_t bytes_;
  std::int64_t begin_ = 0;
  std::uint64_t link_ = 0;
};

/// A mark that can be moved.
class EventBackend : public RefCounted {
 public:
  EventBackend(DeviceBackend& device, bool enable_timing)
      : device_(device), enable_timing_(enable_timing) {}
  virtual ~EventBackend() = default;

  DeviceBackend& device() const { return device_; }
  bool enable_timing() const { return enable_timing_; }
  std::string to_string() const;

  /// Moves the mark to the present end of `queue`, a queue of the same device.
  virtual void record(QueueBackend& queue) = 0;
  /// The present mark; empty when never recorded.
  virtual Point mark() const = 0;
  /// Milliseconds between two marks with timing that have been reached.
  virtual double elapsed_time(const EventBackend& end) const = 0;

 private:
  DeviceBackend& device_;
  bool enable_timing_;
};

/// The host.
DeviceBackend& cpu_backend();

}  // namespace kiln::driver
