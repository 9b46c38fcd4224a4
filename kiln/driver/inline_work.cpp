#include "kiln/driver/inline_work.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "kiln/driver/storage.h"
#include "kiln/support/debug_settings.h"

namespace kiln::driver {

void InlineClaim::take_other(QueueBackend& other) {
  other_value_ = other.try_claim();
  if (other_value_ != 0)
    other_ = &other;
  else
    end();
}

void InlineClaim::end() noexcept {
  if (!other_) [[likely]] {
    queue_->timeline().advance(value_);
  } else {
    // What was held may call the driver and wait for either queue, so both come first.
    const auto due = queue_->timeline().complete(value_);
    other_->timeline().advance(other_value_);
    for (const auto& function : due) function();
  }
  value_ = 0;
}

bool SharedEntry::try_enter() noexcept {
  queue_.enter();
  if (!queue_.idle()) [[unlikely]] {
    queue_.leave();
    return false;
  }
  enter_others();
  return true;
}

void SharedEntry::enter_others() noexcept {
  entered_ = true;
  in_turn_ = false;
  has_others_ = false;
  for (const Buffer& input : inputs_) {
    if (!is_other(input.queue())) [[likely]]
      continue;
    input.queue().enter();
    has_others_ = true;
  }
}

/// What the worker needs to let a caller in, who may be gone by then.
struct SharedEntry::Turn {
  enum : int { kAsked, kGiven, kGone };
  std::atomic<int> state = kAsked;
  std::vector<Ref<QueueBackend>> queues;  // one for each entry that will be left
  std::vector<Point> before;

  void give() {
    for (const Point& point : before) point.wait();
    for (const auto& queue : queues) queue->enter();
    int asked = kAsked;
    if (!state.compare_exchange_strong(asked, kGiven)) leave();
  }
  void leave() noexcept {
    for (const auto& queue : queues) queue->leave();
  }
};

bool SharedEntry::enter_in_turn(bool on_all) {
  // There each enqueue waits for its work, which behind the own turn would be for ever.
  if (kiln::detail::device_sync_mode.load(std::memory_order_relaxed)) on_all = false;
  const auto turn = std::make_shared<Turn>();
  turn->queues.push_back(Ref<QueueBackend>::share(&queue_));
  for (const Buffer& input : inputs_) {
    if (!is_other(input.queue())) continue;
    turn->queues.push_back(Ref<QueueBackend>::share(&input.queue()));
    if (on_all) turn->before.push_back(input.queue().end());
  }
  // Ordered as a copy between queues: after the present work of the others, whose later work comes
  // after it. A failure does not spread this way, so these waits are functions.
  const auto function = [](std::function<void()> run) {
    Work work;
    work.kind = Work::Kind::function;
    work.name = "turn of a model call";
    work.function = std::move(run);
    return work;
  };
  const Point here = {Ref<Timeline>::share(&queue_.timeline()),
                      queue_.enqueue(function([turn] { turn->give(); }))};
  bool undisturbed = true;
  try {
    std::vector<Point> places;
    for (std::size_t i = 1; on_all && i < turn->queues.size(); ++i) {
      QueueBackend& other = *turn->queues[i];
      places.push_back({Ref<Timeline>::share(&other.timeline()),
                        other.enqueue(function([here] { here.wait(); })) - 1});
    }
    here.wait();
    for (const Point& place : places) undisturbed = undisturbed && place.reached();
  } catch (...) {
    if (turn->state.exchange(Turn::kGone) == Turn::kGiven) turn->leave();
    throw;
  }
  if (turn->state.load() != Turn::kGiven) return false;
  if (!undisturbed) {
    turn->leave();
    return false;
  }
  entered_ = true;
  has_others_ = turn->queues.size() > 1;
  in_turn_ = on_all;
  return true;
}

bool SharedEntry::is_free(const Buffer& input, bool writes) const {
  const QueueBackend& queue = input.queue();
  if (input.storage()->settled() && (!is_other(queue) || in_turn_ || queue.idle())) [[likely]]
    return true;
  return is_free_of_pending(input, writes);
}

bool SharedEntry::is_free_of_pending(const Buffer& input, bool writes) const {
  const QueueBackend& queue = input.queue();
  const Timeline& own = queue.timeline();
  if (is_other(queue) && !in_turn_ &&
      !own.reached(std::max(queue.last_user_function(), queue.last_claim())))
    return false;
  // What is pending on a queue in which the call has its place comes later.
  return input.storage()->is_free(input.byte_range(), writes, [&](const Timeline& timeline) {
    if (&timeline == &queue_.timeline()) return true;
    return in_turn_ && std::any_of(inputs_.begin(), inputs_.end(), [&](const Buffer& other) {
             return &other.queue().timeline() == &timeline;
           });
  });
}

void SharedEntry::leave() noexcept {
  entered_ = false;
  if (has_others_) [[unlikely]]
    for (const Buffer& input : inputs_)
      if (is_other(input.queue())) input.queue().leave();
  queue_.leave();
}

}  // namespace kiln::driver
