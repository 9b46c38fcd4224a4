#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

#include "kiln/support/ref.h"

namespace kiln {

/// Base of exceptions that hold objects of another language, which may hold much else.
class ForeignError : public std::exception {
 public:
  /// An equal exception that holds as little as can be, which is what a timeline whose next failure
  /// comes keeps of an older one.
  virtual std::exception_ptr lighter() const = 0;
};

/// Order and failure of one queue's work: a counter that rises as work completes. Work number v is
/// over when the counter has reached v; it may be over because it failed or was skipped, and
/// `error_at(v)` tells that for as long as anybody may ask (the last 1024 failures are kept).
///
/// The owning queue calls `begin`, `fail` and `advance` in order, from whichever thread runs its
/// work; everything else is for any thread.
class Timeline : public RefCounted {
 public:
  std::uint64_t completed() const noexcept { return completed_.load(std::memory_order_acquire); }
  bool reached(std::uint64_t value) const noexcept { return completed() >= value; }

  /// Whether work `value` may run; false when earlier work failed, which makes `value` fail too.
  bool begin(std::uint64_t value);
  /// Work `value` failed, and so does all later work until `recover`.
  void fail(std::uint64_t value, std::exception_ptr error);
  /// Work up to `value` is over: wakes waiters and runs what `when_reached` holds for it.
  void advance(std::uint64_t value);
  /// As `advance`, but what is held for it is returned for the caller to run.
  [[nodiscard]] std::vector<std::function<void()>> complete(std::uint64_t value);

  /// Whether work fails at present.
  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  /// Ends the present failure and returns its error; null when there is none. Later work runs
  /// again.
  std::exception_ptr recover();
  /// Why work `value` failed, or null.
  std::exception_ptr error_at(std::uint64_t value) const;

  /// Blocks until work `value` is over, or the check of interrupt.h throws.
  void wait(std::uint64_t value) const;
  /// As `wait`, at most until `deadline`; returns whether it was reached.
  bool wait_until(std::uint64_t value, std::chrono::steady_clock::time_point deadline) const;
  /// Runs `function`, which must not throw, once work `value` is over: now, or on the thread that
  /// completes it.
  void when_reached(std::uint64_t value, std::function<void()> function);

  /// For queues whose devices can wait for each other: a word that the device raises as work
  /// completes, null for others. It outlives the timeline; set before the timeline is shared.
  std::uint64_t* device_cell() const noexcept { return device_cell_; }
  void set_device_cell(std::uint64_t* cell) noexcept { device_cell_ = cell; }

 private:
  struct Failure {
    std::uint64_t first;
    std::uint64_t last;
    std::exception_ptr error;
  };
  struct Waiting {
    std::uint64_t value;
    std::function<void()> function;
  };

  std::atomic<std::uint64_t> completed_{0};
  std::uint64_t* device_cell_ = nullptr;
  /// Hosts that wait and functions that are held; `advance` takes the lock only when there are any.
  mutable std::atomic<int> waiters_{0};
  std::atomic<bool> failed_{false};
  std::atomic<bool> ever_failed_{false};
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Failure> failures_;  // in order; the last one is open while failed_
  std::vector<Waiting> waiting_;
};

inline void ref_retain(Timeline* timeline) noexcept { timeline->retain(); }
inline void ref_release(Timeline* timeline) noexcept {
  if (timeline->drop()) delete timeline;
}

/// A place in the work of a queue. Empty: never holds anything up.
struct Point {
  Ref<Timeline> timeline;
  std::uint64_t value = 0;

  bool reached() const noexcept { return !timeline || timeline->reached(value); }
  void wait() const {
    if (timeline) timeline->wait(value);
  }
  std::exception_ptr error() const { return timeline ? timeline->error_at(value) : nullptr; }
};

}  // namespace kiln
