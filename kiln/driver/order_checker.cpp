#include "kiln/driver/order_checker.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "kiln/driver/storage.h"
#include "kiln/support/call_site.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

// Vector clocks. The clock of a queue tells for every timeline up to which number its work is over
// before the work that the queue gets next. A wait joins the clock of the point that is waited for.
// The host has one clock for all threads, since threads order each other in ways that kiln does not
// see: a missing order between threads is not found, but nothing that is in order is reported.
//
// A timeline that nobody else holds any more, no queue, event or buffer, is forgotten by every
// clock once no use is left that it made: no later work can be of it or wait for it. Otherwise each
// wait would copy a clock of all queues that ever lived.

namespace kiln::driver::order_checker {
namespace {

using Clock = std::map<const Timeline*, std::uint64_t>;

struct Queue {
  Ref<Timeline> timeline;  // so that no other timeline gets its address
  bool immortal = false;   // a default queue, whose timeline is not counted
  /// The clock of work from this number on; rising.
  std::vector<std::pair<std::uint64_t, Clock>> clocks;
};

/// The bytes of a window: runs of `run` bytes whose starts lie whole multiples of `step` apart.
struct Bytes {
  ByteRange range;
  std::uintptr_t run = 0;
  std::uintptr_t step = 0;  // 0: one run over the whole range

  static Bytes of(const Buffer& window);
  bool meets(const Bytes& other) const;
  bool holds(const Bytes& other) const {
    return range.holds(other.range) &&
           (step == 0 || (run == other.run && step == other.step &&
                          range.begin == other.range.begin && range.end == other.range.end));
  }
};

Bytes Bytes::of(const Buffer& window) {
  Bytes bytes{window.byte_range()};
  bytes.run = bytes.range.end - bytes.range.begin;
  const int bits = window.dtype().size_in_bits();
  if (window.is_contiguous() || bits < 8 || window.num_elements() == 0) return bytes;
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> axes;  // step in bytes, extent
  for (std::size_t axis = 0; axis < window.shape().size(); ++axis) {
    const std::int64_t step = window.strides()[axis] * (bits / 8);
    if (window.shape()[axis] > 1)
      axes.emplace_back(static_cast<std::uintptr_t>(step < 0 ? -step : step),
                        static_cast<std::uintptr_t>(window.shape()[axis]));
  }
  std::sort(axes.begin(), axes.end());
  bytes.run = static_cast<std::uintptr_t>(bits / 8);
  for (const auto& [step, extent] : axes) {
    if (bytes.step == 0 && step == bytes.run)
      bytes.run *= extent;
    else
      bytes.step = std::gcd(bytes.step, step);
  }
  return bytes;
}

bool Bytes::meets(const Bytes& other) const {
  if (!range.meets(other.range)) return false;
  const std::uintptr_t common = std::gcd(step, other.step);
  if (common == 0 || run >= common || other.run >= common) return true;
  // Where the other's runs start, seen from the starts of these.
  const std::uintptr_t ahead = other.range.begin % common + common - range.begin % common;
  const std::uintptr_t distance = ahead % common;
  return distance < run || distance + other.run > common;
}

struct Use {
  const Timeline* timeline;
  std::uint64_t value;
  bool write;
  Bytes bytes;
  std::string what;  // "Buffer.memset on cpu[0]:queue@0x1, called at a.py:3, writes"
};

struct State {
  std::mutex mutex;
  std::map<const Timeline*, Queue> queues;
  Clock host;
  std::map<const Storage*, std::vector<Use>> uses;
  std::set<const Storage*> foreign;  // whose memory others may name, too
  std::size_t forget_at = 64;        // queues at which it is worth looking which are gone
};
State& state() {
  static auto* instance = new State;  // leaked: queues outlive static destructors
  return *instance;
}

// Clocks of a queue that are kept. A wait for an older place counts as one for the oldest kept.
constexpr std::size_t kClocks = 1024;

void join(Clock& clock, const Clock& other) {
  for (const auto& [timeline, value] : other) {
    std::uint64_t& known = clock[timeline];
    known = std::max(known, value);
  }
}

/// The record of a queue, made when it is new. The caller holds the timeline.
Queue& record_of(Timeline& timeline) {
  const auto [place, fresh] = state().queues.try_emplace(&timeline);
  if (fresh) {
    place->second.timeline = Ref<Timeline>::share(&timeline);
    place->second.immortal = timeline.use_count() == 1;  // not even this reference is counted
  }
  return place->second;
}

/// What is over once `point` is reached.
Clock clock_at(const Point& point) {
  const auto& clocks = record_of(*point.timeline).clocks;
  Clock clock;
  if (!clocks.empty()) {
    auto after = std::upper_bound(
        clocks.begin(), clocks.end(), point.value,
        [](std::uint64_t value, const auto& entry) { return value < entry.first; });
    const bool dropped = clocks.size() == kClocks;
    if (after != clocks.begin())
      clock = std::prev(after)->second;
    else if (dropped)
      clock = after->second;
  }
  std::uint64_t& own = clock[point.timeline.get()];
  own = std::max(own, point.value);
  return clock;
}

bool knows(const Clock& clock, const Use& use) {
  const auto found = clock.find(use.timeline);
  return found != clock.end() && found->second >= use.value;
}

bool ordered(const Use& earlier, const Timeline& timeline) {
  if (earlier.timeline == &timeline || knows(state().host, earlier)) return true;
  const auto queue = state().queues.find(&timeline);
  return queue != state().queues.end() && !queue->second.clocks.empty() &&
         knows(queue->second.clocks.back().second, earlier);
}

void see(const Point& point) {
  if (point.timeline) join(state().host, clock_at(point));
}

/// Forgets the queues that no later work can name, when there are many more than there were.
void forget_dead_queues() {
  State& all = state();
  if (all.queues.size() < all.forget_at) return;
  std::set<const Timeline*> used;
  for (auto& [storage, uses] : all.uses) {
    std::erase_if(uses, [&](const Use& use) { return knows(all.host, use); });
    for (const Use& use : uses) used.insert(use.timeline);
  }
  std::vector<Queue> gone;  // destroyed when every clock has forgotten the address
  for (auto it = all.queues.begin(); it != all.queues.end();) {
    const Queue& queue = it->second;
    const bool alive = queue.immortal || queue.timeline->use_count() > 1;
    if (alive || used.contains(it->first)) {
      ++it;
      continue;
    }
    gone.push_back(std::move(it->second));
    it = all.queues.erase(it);
  }
  const auto prune = [&](Clock& clock) {
    std::erase_if(clock, [&](const auto& entry) { return !all.queues.contains(entry.first); });
  };
  prune(all.host);
  for (auto& [timeline, queue] : all.queues)
    for (auto& [value, clock] : queue.clocks) prune(clock);
  all.forget_at = std::max<std::size_t>(64, 2 * all.queues.size());
}

}  // namespace

constinit std::atomic<bool> has_uses{false};

namespace {

Use make_use(const Buffer& buffer, QueueBackend& queue, std::uint64_t value, bool write,
             const char* operation) {
  return {&queue.timeline(), value, write, Bytes::of(buffer),
          format("{} on {}, called at {}, {}", operation, queue.to_string(), call_site(),
                 write ? "writes" : "reads")};
}

/// An earlier use that has no order with the fresh one: RuntimeError.
void check_use(const Buffer& buffer, const Use& fresh) {
  const auto check = [&](const Use& earlier) {
    if ((fresh.write || earlier.write) && earlier.bytes.meets(fresh.bytes) &&
        !ordered(earlier, *fresh.timeline))
      throw RuntimeError(
          format("Two uses of {} have no order between them: {} it, and before that {} it. Let the "
                 "later queue wait for the other one (`wait_for` with the queue or an event), or "
                 "synchronize in between.",
                 buffer.repr(), fresh.what, earlier.what));
  };
  const auto check_all = [&](const Storage* storage) {
    const auto found = state().uses.find(storage);
    if (found != state().uses.end())
      std::for_each(found->second.begin(), found->second.end(), check);
  };
  check_all(buffer.storage());
  if (!buffer.storage()->is_foreign()) return;
  for (const Storage* other : state().foreign)
    if (other != buffer.storage()) check_all(other);
}

void record_use(const Buffer& buffer, Use fresh) {
  has_uses.store(true, std::memory_order_relaxed);
  if (buffer.storage()->is_foreign()) state().foreign.insert(buffer.storage());
  std::vector<Use>& uses = state().uses[buffer.storage()];
  // A write comes after all others of its bytes, a read after those of its own queue; and whoever
  // comes after what the host knows needs no reminder.
  std::erase_if(uses, [&](const Use& earlier) {
    if (knows(state().host, earlier)) return true;
    return fresh.bytes.holds(earlier.bytes) &&
           (fresh.write || (!earlier.write && earlier.timeline == fresh.timeline));
  });
  uses.push_back(std::move(fresh));
}

/// What is given to the queue from now on comes after the point.
void add_wait(QueueBackend& queue, const Point& point) {
  Queue& known = record_of(queue.timeline());
  Clock clock = known.clocks.empty() ? Clock() : known.clocks.back().second;
  join(clock, clock_at(point));
  known.clocks.emplace_back(queue.submitted() + 1, std::move(clock));
  if (known.clocks.size() > kClocks) known.clocks.erase(known.clocks.begin());
}

}  // namespace

void use(const Buffer& buffer, QueueBackend& queue, std::uint64_t value, bool write,
         const char* operation) {
  Use fresh = make_use(buffer, queue, value, write, operation);
  const std::lock_guard lock(state().mutex);
  forget_dead_queues();
  record_of(queue.timeline());
  check_use(buffer, fresh);
  record_use(buffer, std::move(fresh));
}

void copy(const Buffer& destination, const Buffer& source, QueueBackend& queue,
          const Point& source_end) {
  const std::uint64_t value = queue.submitted() + 1;
  Use read = make_use(source, queue, value, false, "a copy");
  Use write = make_use(destination, queue, value, true, "a copy");
  const std::lock_guard lock(state().mutex);
  forget_dead_queues();
  Queue& known = record_of(queue.timeline());
  const bool waits = source_end.timeline && source_end.timeline.get() != &queue.timeline();
  if (waits) add_wait(queue, source_end);
  try {
    check_use(source, read);
    check_use(destination, write);
  } catch (...) {
    // A copy that is refused leaves nothing behind.
    if (waits) known.clocks.pop_back();
    throw;
  }
  record_use(source, std::move(read));
  record_use(destination, std::move(write));
}

void wait(QueueBackend& queue, const Point& point) {
  if (!point.timeline || point.timeline.get() == &queue.timeline()) return;
  const std::lock_guard lock(state().mutex);
  forget_dead_queues();
  add_wait(queue, point);
}

void host_saw(const Point& point) {
  const std::lock_guard lock(state().mutex);
  forget_dead_queues();
  see(point);
}

void host_access(const detail::BufferState& window, bool write) {
  const ByteRange range = ByteRange::of(window);
  const std::lock_guard lock(state().mutex);
  forget_dead_queues();
  see({Ref<Timeline>::share(&window.queue->timeline()), window.queue->last_user_function()});
  const auto found = state().uses.find(window.storage);
  if (found == state().uses.end()) return;
  for (const Use& use : found->second)
    if (write || (use.write && use.bytes.range.meets(range)))
      see({state().queues.at(use.timeline).timeline, use.value});
}

std::size_t known_queues() {
  const std::lock_guard lock(state().mutex);
  std::size_t most = std::max(state().queues.size(), state().host.size());
  for (const auto& [timeline, queue] : state().queues)
    for (const auto& [value, clock] : queue.clocks) most = std::max(most, clock.size());
  return most;
}

void forget(const Storage& storage) noexcept {
  const std::lock_guard lock(state().mutex);
  state().uses.erase(&storage);
  state().foreign.erase(&storage);
}

}  // namespace kiln::driver::order_checker
