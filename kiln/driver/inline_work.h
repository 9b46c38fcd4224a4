#pragma once

// Work that a caller's thread runs itself because the queue is idle. Internal to the driver and to
// the engine.

#include <span>

#include "kiln/driver/backend.h"
#include "kiln/driver/buffer.h"

namespace kiln::driver {

/// The next place of one or two idle CPU queues, for a copy or fill that runs at once. The work is
/// over when the claim goes, however the block is left.
class InlineClaim {
 public:
  InlineClaim() = default;
  InlineClaim(const InlineClaim&) = delete;
  InlineClaim& operator=(const InlineClaim&) = delete;
  ~InlineClaim() {
    if (value_ != 0) end();
  }
  /// Takes nothing unless all can be had at once. `other` may be `queue`.
  void take(QueueBackend& queue) {
    queue_ = &queue;
    value_ = queue.try_claim();
  }
  void take(QueueBackend& queue, QueueBackend& other) {
    take(queue);
    if (&other != &queue && value_ != 0) [[unlikely]]
      take_other(other);
  }
  explicit operator bool() const { return value_ != 0; }

 private:
  void take_other(QueueBackend& other);
  void end() noexcept;

  QueueBackend* queue_ = nullptr;
  QueueBackend* other_ = nullptr;
  std::uint64_t value_ = 0;
  std::uint64_t other_value_ = 0;
};

/// The presence of a model call on its queue and on the CPU queues that its inputs are bound to. No
/// other work of these queues starts meanwhile, but other model calls may. Whoever holds it waits
/// for nothing.
class SharedEntry {
 public:
  /// Both must outlive the entry.
  SharedEntry(QueueBackend& queue, std::span<const Buffer> inputs)
      : queue_(queue), inputs_(inputs) {}
  SharedEntry(const SharedEntry&) = delete;
  SharedEntry& operator=(const SharedEntry&) = delete;
  ~SharedEntry() {
    if (entered_) leave();
  }
  /// False, and nothing entered, unless the call's own queue is idle.
  bool try_enter() noexcept;
  /// Takes a place in line on the call's own queue and waits for it, so that threads that keep the
  /// queue busy do not hold the call up for ever; `on_all`: on the queues of the inputs, too. False
  /// when the queue fails, or other work came in between.
  bool enter_in_turn(bool on_all);
  /// Once entered: whether no use of an input is under way that the call must come after, or, where
  /// it only reads, has failed.
  bool is_free(const Buffer& input, bool writes) const;
  void leave() noexcept;

 private:
  struct Turn;
  bool is_other(const QueueBackend& queue) const {
    return &queue != &queue_ && queue.device().is_host();
  }
  bool is_free_of_pending(const Buffer& input, bool writes) const;
  void enter_others() noexcept;

  QueueBackend& queue_;
  std::span<const Buffer> inputs_;
  bool entered_ = false;
  bool has_others_ = false;
  bool in_turn_ = false;  // on the other queues, too
};

}  // namespace kiln::driver
