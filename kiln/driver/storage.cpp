#include "kiln/driver/storage.h"

#include <algorithm>
#include <memory>

#include "kiln/driver/cpu/memory_pool.h"
#include "kiln/driver/failure_injection.h"
#include "kiln/driver/host_hazard.h"
#include "kiln/driver/order_checker.h"
#include "kiln/dtype/element.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/process.h"
#include "kiln/support/trace.h"

// A new buffer is one block for its state and its storage, and one for its memory, both from the
// thread's cache. The record of uses exists only while work is pending, so the usual life of a
// buffer on an idle CPU queue touches no lock.

namespace kiln::driver {

struct StorageAccess::Root {
  Storage storage;
  detail::BufferState state;
};

ByteRange ByteRange::of(const detail::BufferState& window) {
  const auto begin = reinterpret_cast<std::uintptr_t>(window.data);
  if (window.num_elements == 0) return {begin, begin};
  const auto bits = static_cast<std::int64_t>(window.dtype.size_in_bits());
  std::int64_t lowest = 0, highest = 0;  // elements from the first one
  if (window.contiguous) {
    highest = window.num_elements - 1;
  } else {
    for (std::size_t axis = 0; axis < window.shape.size(); ++axis) {
      const std::int64_t reach = (window.shape[axis] - 1) * window.strides[axis];
      (reach < 0 ? lowest : highest) += reach;
    }
  }
  // Elements of half a byte may share their first and last byte with others.
  const std::int64_t odd = window.odd_start ? 1 : 0;
  const std::int64_t first = bits < 8 ? (lowest + odd - 1) / 2 : lowest * (bits / 8);
  const std::int64_t last = bits < 8 ? (highest + odd) / 2 + 1 : (highest + 1) * (bits / 8);
  return {begin + static_cast<std::uintptr_t>(first), begin + static_cast<std::uintptr_t>(last)};
}

namespace {

/// A block of the host's pool for the record of a buffer.
void* allocate_record(std::size_t bytes) {
  failure_injection::before_allocation();
  return CpuMemoryPool::allocate(bytes);
}

/// The gaps of a window; null when it has none. Half bytes count as whole ones.
std::unique_ptr<detail::Gaps> gaps_of(const detail::BufferState& window, const ByteRange& range) {
  const std::int64_t size = window.dtype.size_in_bits() / 8;
  if (window.contiguous || size == 0 ||
      range.end - range.begin == static_cast<std::uintptr_t>(size * window.num_elements))
    return nullptr;
  auto gaps = std::make_unique<detail::Gaps>();
  gaps->run = size;
  gaps->start = range.begin;
  std::vector<std::size_t> axes;
  for (std::size_t axis = 0; axis < window.shape.size(); ++axis)
    if (window.shape[axis] > 1 && window.strides[axis] != 0) axes.push_back(axis);
  const auto step = [&](std::size_t axis) { return std::abs(window.strides[axis]) * size; };
  std::sort(axes.begin(), axes.end(),
            [&](std::size_t a, std::size_t b) { return step(a) < step(b); });
  for (const std::size_t axis : axes) {
    if (gaps->counts.empty() && step(axis) == gaps->run) {
      gaps->run *= window.shape[axis];
    } else {
      gaps->counts.push_back(window.shape[axis]);
      gaps->steps.push_back(step(axis));
    }
  }
  return gaps;
}

/// Writes with more runs than this count as one range where they failed, and repair nothing.
constexpr std::int64_t kMostRuns = 4096;

std::int64_t num_runs(const detail::Gaps& gaps) {
  std::int64_t runs = 1;
  for (const std::int64_t count : gaps.counts) {
    if (count > kMostRuns) return kMostRuns + 1;
    runs = std::min(runs * count, kMostRuns + 1);
  }
  return runs;
}

/// Calls `visit(range)` for each run, of which there are not too many.
template <typename Visit>
void for_each_run(const detail::Gaps& gaps, const Visit& visit) {
  for (std::int64_t i = 0, runs = num_runs(gaps); i < runs; ++i) {
    std::uintptr_t at = gaps.start;
    std::int64_t rest = i;
    for (std::size_t axis = 0; axis < gaps.counts.size(); ++axis) {
      at += static_cast<std::uintptr_t>(rest % gaps.counts[axis] * gaps.steps[axis]);
      rest /= gaps.counts[axis];
    }
    visit(ByteRange{at, at + static_cast<std::uintptr_t>(gaps.run)});
  }
}

/// What is left of `range` on either side of `taken`.
std::pair<ByteRange, ByteRange> without(const ByteRange& range, const ByteRange& taken) {
  return {{range.begin, std::max(range.begin, std::min(range.end, taken.begin))},
          {std::min(range.end, std::max(range.begin, taken.end)), range.end}};
}

}  // namespace

void Storage::record(const detail::BufferState& window, QueueBackend& queue, std::uint64_t value,
                     bool write) {
  Timeline& timeline = queue.timeline();
  // Work that is over and well needs no record, and a write by it ends an older record.
  if (timeline.reached(value) && !timeline.error_at(value)) {
    if (write) record_finished_write(window);
    return;
  }
  const ByteRange range = write ? ByteRange::of(window) : ByteRange{};
  Uses* uses = uses_.load(std::memory_order_acquire);
  if (!uses) {
    auto* fresh = new Uses;
    if (uses_.compare_exchange_strong(uses, fresh, std::memory_order_acq_rel))
      uses = fresh;
    else
      delete fresh;
  }
  std::lock_guard lock(uses->mutex);
  uses->active.store(true, std::memory_order_release);
  std::unique_ptr<detail::Gaps> gaps = write ? gaps_of(window, range) : nullptr;
  // Work usually goes on with what it did before.
  constexpr std::size_t kLook = 8;
  std::vector<Use>& entries = uses->entries;
  for (std::size_t i = entries.size(); i-- > 0 && entries.size() - i <= kLook;) {
    Use& use = entries[i];
    const bool same = use.timeline.get() == &timeline && use.write == write && !gaps && !use.gaps &&
                      use.range.holds(range) && range.holds(use.range);
    // A failure stays the first one of its bytes until they are written, and each write may be the
    // one that ends an earlier failure.
    if (same && (!write ||
                 std::none_of(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                              [&](const Use& earlier) {
                                return earlier.failed_write() && earlier.range.meets(range);
                              }))) {
      use.value = std::max(use.value, value);
      return;
    }
    if (write && use.write && use.range.meets(range)) break;
  }
  if (entries.size() >= uses->prune_at) {
    prune_locked(*uses);
    uses->prune_at = std::max<std::size_t>(64, 2 * entries.size());
  }
  entries.push_back({Ref<Timeline>::share(&timeline), value, write, range, std::move(gaps)});
}

bool Storage::prune(Uses& uses) {
  std::lock_guard lock(uses.mutex);
  prune_locked(uses);
  if (!uses.entries.empty()) return false;
  uses.active.store(false, std::memory_order_release);
  return true;
}

bool Storage::touches(const Use& use, const ByteRange& range, const detail::Gaps* gaps) {
  if (!use.range.meets(range)) return false;
  // To wait for more than is read does no harm; to fail for it would.
  if (!gaps || !use.over() || num_runs(*gaps) > kMostRuns) return true;
  bool any = false;
  for_each_run(*gaps, [&](const ByteRange& run) { any = any || use.range.meets(run); });
  return any;
}

bool Storage::is_written_later(const std::vector<Use>& entries, std::size_t i,
                               const ByteRange& range) {
  std::vector<ByteRange> left = {
      {std::max(entries[i].range.begin, range.begin), std::min(entries[i].range.end, range.end)}};
  for (std::size_t later = i + 1; later < entries.size() && !left.empty(); ++later) {
    const Use& use = entries[later];
    // It may have come to its end just now.
    if (!use.write || use.gaps || use.failed_write()) continue;
    std::vector<ByteRange> rest;
    for (const ByteRange& part : left) {
      const auto [before, behind] = without(part, use.range);
      for (const ByteRange& piece : {before, behind})
        if (piece.begin < piece.end) rest.push_back(piece);
    }
    left = std::move(rest);
  }
  return left.empty();
}

void Storage::forget_failures(std::vector<Use>& entries, std::size_t count, const ByteRange& range,
                              const detail::Gaps* gaps) {
  if (gaps) {
    if (num_runs(*gaps) > kMostRuns) return;
    return for_each_run(*gaps, [&](const ByteRange& run) {
      const std::size_t before = entries.size();
      forget_failures(entries, count, run, nullptr);
      count += entries.size() - before;
    });
  }
  for (std::size_t i = 0; i < count; ++i) {
    Use& use = entries[i];
    if (!use.failed_write() || !use.range.meets(range)) continue;
    const auto [left, right] = without(use.range, range);
    const bool both = left.begin < left.end && right.begin < right.end;
    use.range = left.begin < left.end ? left : right;
    if (!both) continue;
    // The order of entries is that of the writes, and both halves are of one write.
    entries.insert(entries.begin() + static_cast<std::ptrdiff_t>(i + 1),
                   Use{use.timeline, use.value, true, right});
    ++i;
    ++count;
  }
}

void Storage::prune_locked(Uses& uses) {
  if (std::none_of(uses.entries.begin(), uses.entries.end(),
                   [](const Use& use) { return use.over(); }))
    return;
  std::vector<Use> kept;
  kept.reserve(uses.entries.size());
  for (Use& use : uses.entries) {
    if (!use.over()) {
      kept.push_back(std::move(use));
    } else if (use.write && !use.error()) {
      // What is well has written over earlier failures.
      forget_failures(kept, kept.size(), use.range, use.gaps.get());
    } else if (use.write && use.gaps && num_runs(*use.gaps) <= kMostRuns) {
      for_each_run(*use.gaps, [&](const ByteRange& run) {
        kept.push_back({use.timeline, use.value, true, run});
      });
    } else if (use.write) {
      kept.push_back(std::move(use));
    }
  }
  std::erase_if(kept, [](const Use& use) {
    return use.write && use.range.begin == use.range.end && use.over();
  });
  uses.entries = std::move(kept);
}

void Storage::record_finished_write(const detail::BufferState& window) {
  Uses* uses = uses_.load(std::memory_order_acquire);
  if (!uses || !uses->active.load(std::memory_order_acquire)) return;
  const ByteRange range = ByteRange::of(window);
  const std::unique_ptr<detail::Gaps> gaps = gaps_of(window, range);
  std::lock_guard lock(uses->mutex);
  prune_locked(*uses);
  forget_failures(uses->entries, uses->entries.size(), range, gaps.get());
  prune_locked(*uses);
}

std::vector<Point> Storage::writes(const detail::BufferState& window) const {
  std::vector<Point> points;
  Uses* uses = uses_.load(std::memory_order_acquire);
  if (!uses || !uses->active.load(std::memory_order_acquire)) return points;
  const ByteRange range = ByteRange::of(window);
  const std::unique_ptr<detail::Gaps> gaps = gaps_of(window, range);
  std::lock_guard lock(uses->mutex);
  prune_locked(*uses);
  const std::vector<Use>& entries = uses->entries;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Use& use = entries[i];
    if (!use.write || !touches(use, range, gaps.get())) continue;
    if (use.over() && is_written_later(entries, i, range)) continue;
    points.push_back({use.timeline, use.value});
  }
  return points;
}

std::vector<Point> Storage::pending_uses() const {
  std::vector<Point> points;
  Uses* uses = uses_.load(std::memory_order_acquire);
  if (!uses) return points;
  std::lock_guard lock(uses->mutex);
  for (const Use& use : uses->entries)
    if (!use.over()) points.push_back({use.timeline, use.value});
  return points;
}

void Storage::stamp(const HostHazardCompletion& token, bool write) {
  Stamps* stamps = stamps_.load(std::memory_order_acquire);
  if (stamps == nullptr) {
    auto* fresh = new Stamps;
    if (stamps_.compare_exchange_strong(stamps, fresh, std::memory_order_acq_rel))
      stamps = fresh;
    else
      delete fresh;
  }
  std::lock_guard lock(stamps->mutex);
  std::vector<HostHazardCompletion>& tokens = write ? stamps->writes : stamps->reads;
  std::erase_if(tokens, [&](const HostHazardCompletion& other) {
    return other.queue_identity() == token.queue_identity();
  });
  tokens.push_back(token);
}

void Storage::wait_for_stamps(bool write) const {
  Stamps& stamps = *stamps_.load(std::memory_order_acquire);
  std::vector<HostHazardCompletion> tokens;
  {
    std::lock_guard lock(stamps.mutex);
    tokens = stamps.writes;
    if (write) tokens.insert(tokens.end(), stamps.reads.begin(), stamps.reads.end());
  }
  for (const HostHazardCompletion& token : tokens) token.wait();
}

void Storage::wait_for_host(const detail::BufferState& window, bool write) const {
  check_process();
  if (order_checker::enabled()) [[unlikely]]
    order_checker::host_access(window, write);
  if (stamps_.load(std::memory_order_acquire) != nullptr) [[unlikely]]
    wait_for_stamps(write);
  const QueueBackend& queue = *window.queue;
  if (queue.idle() && settled()) [[likely]]
    return;
  if (window.pinned && has(window.usage, Usage::UNTRACKED)) return;
  check_call(write ? "a host write of a buffer" : "a host read of a buffer");
  const TraceSpan span(write ? "wait for a host write" : "wait for a host read", "wait");
  const std::uint64_t function = queue.last_user_function();
  Timeline& own = queue.timeline();
  const std::uint64_t last = std::max(function, queue.last_claim());
  if (!own.reached(last)) own.wait(last);
  if (write) {
    for (const Point& use : pending_uses()) use.wait();
    return;
  }
  for (const Point& point : writes(window)) point.wait();
  // What is still there has failed, or came meanwhile.
  for (const Point& point : writes(window))
    if (std::exception_ptr error = point.error()) {
      if (window.pinned) throw_hazard(error);
      std::rethrow_exception(error);
    }
  // A user function counts as a write of every buffer of its queue, until its failure is delivered.
  if (function > 0 && own.failed())
    if (std::exception_ptr error = own.error_at(function)) std::rethrow_exception(error);
}

bool Storage::is_free(const ByteRange& range, bool write,
                      const std::function<bool(const Timeline&)>& later) const {
  Uses* uses = uses_.load(std::memory_order_acquire);
  if (!uses) return true;
  std::lock_guard lock(uses->mutex);
  return std::none_of(uses->entries.begin(), uses->entries.end(), [&](const Use& use) {
    if (!write && !(use.write && use.range.meets(range))) return false;
    if (!use.over()) return !later(*use.timeline);
    return !write && use.error() != nullptr;
  });
}

void StorageAccess::finish(Storage* storage) noexcept {
  if (order_checker::has_uses.load(std::memory_order_relaxed)) [[unlikely]]
    order_checker::forget(*storage);
  delete storage->uses_.load(std::memory_order_acquire);
  delete storage->stamps_.load(std::memory_order_acquire);
  if (storage->deleter_) {
    try {
      (*storage->deleter_)();
    } catch (...) {
      // A deleter's failure has nobody to go to; the memory is the producer's own.
    }
    delete storage->deleter_;
  } else if (storage->base_) {
    if (tracing()) [[unlikely]]
      record_moment("release", "memory", {.bytes = static_cast<std::int64_t>(storage->bytes_)});
    if (storage->device_.is_host()) [[likely]]
      CpuMemoryPool::release(storage->base_, storage->bytes_);
    else
      storage->device_.release(storage->base_, storage->bytes_, storage->usage_);
  }
  QueueBackend* queue = &storage->queue_;
  storage->~Storage();
  CpuMemoryPool::release(storage, sizeof(Root));
  if (queue->drop()) [[unlikely]]
    queue->close();
}

void ref_release(Storage* storage) noexcept {
  if (!storage->drop()) return;
  if (forked_after_use()) return;
  QueueBackend& queue = storage->queue_;
  const std::uint64_t end = queue.submitted();
  if (queue.timeline().reached(end) && storage->settled()) [[likely]] {
    StorageAccess::finish(storage);
    return;
  }
  std::vector<Point> points = storage->pending_uses();
  if (!queue.timeline().reached(end))
    points.push_back({Ref<Timeline>::share(&queue.timeline()), end});
  if (points.empty()) {
    StorageAccess::finish(storage);
    return;
  }
  // Whoever completes the last of the points gives the memory back.
  auto* remaining = new std::atomic<std::size_t>(points.size());
  for (const Point& point : points)
    point.timeline->when_reached(point.value, [remaining, storage] {
      if (remaining->fetch_sub(1, std::memory_order_acq_rel) != 1) return;
      delete remaining;
      StorageAccess::finish(storage);
    });
}

void check_rank(const Shape& shape) {
  if (shape.size() > kMaxDims) [[unlikely]]
    throw ValueError(format("A buffer has at most {} dimensions, but the shape has {}.", kMaxDims,
                            shape.size()));
}

namespace detail {

void destroy(BufferState* state) noexcept {
  if (forked_after_use()) return;
  Storage* storage = state->storage;
  if (state->queue != &storage->queue()) {
    // The storage itself looks after its own queue only.
    storage->record(*state, *state->queue, state->queue->submitted(), false);
    ref_release(state->queue);
  }
  const bool in_root = state->in_root;
  state->~BufferState();
  if (!in_root) CpuMemoryPool::release(state, sizeof(BufferState));
  ref_release(storage);
}

}  // namespace detail

detail::BufferState* StorageAccess::make_root(DType dtype, const Shape& shape, QueueBackend& queue,
                                              Usage usage) {
  check_rank(shape);
  const std::int64_t count = kiln::num_elements(shape);
  const std::size_t bytes = bytes_for(dtype, count);
  DeviceBackend& device = queue.device();
  void* data = nullptr;
  failure_injection::before_allocation();
  if (bytes > 0)
    data = device.is_host() ? CpuMemoryPool::allocate(bytes) : device.allocate(bytes, queue, usage);
  if (tracing()) [[unlikely]]
    record_moment("allocate", "memory", {.bytes = static_cast<std::int64_t>(bytes)});
  void* block = nullptr;
  try {
    block = allocate_record(sizeof(Root));
  } catch (...) {
    if (data) device.release(data, bytes, usage);
    throw;
  }
  auto* root = static_cast<Root*>(block);
  queue.retain();
  auto* storage = new (&root->storage) Storage(data, bytes, device, queue, usage);
  storage->ends_in_half_byte_ = dtype.size_in_bits() < 8 && count % 2 != 0;
  auto* state = new (&root->state) detail::BufferState;
  state->dtype = dtype;
  state->usage = usage;
  state->in_root = true;
  state->pinned = !device.is_host() && has(usage, Usage::STAGING);
  state->num_elements = count;
  state->data = data;
  state->device = &device;
  state->queue = &queue;
  state->storage = storage;
  state->shape = shape;
  state->strides.assign_row_major(state->shape);
  return state;
}

detail::BufferState* StorageAccess::make_foreign(void* data, DType dtype, const Shape& shape,
                                                 const Shape* strides, QueueBackend& queue,
                                                 std::function<void()> deleter) {
  check_rank(shape);
  const std::int64_t count = kiln::num_elements(shape);
  const std::size_t bytes = bytes_for(dtype, count);
  // An empty deleter is one, too: the memory is not the pool's.
  auto held = std::make_unique<std::function<void()>>(deleter ? std::move(deleter) : [] {});
  auto* root = static_cast<Root*>(allocate_record(sizeof(Root)));
  queue.retain();
  auto* storage = new (&root->storage)
      Storage(count > 0 ? data : nullptr, bytes, queue.device(), queue, Usage::DEFAULT);
  storage->ends_in_half_byte_ = dtype.size_in_bits() < 8 && count % 2 != 0;
  storage->deleter_ = held.release();
  auto* state = new (&root->state) detail::BufferState;
  state->dtype = dtype;
  state->in_root = true;
  state->num_elements = count;
  state->data = count > 0 ? data : nullptr;
  state->device = &queue.device();
  state->queue = &queue;
  state->storage = storage;
  state->shape = shape;
  state->strides = strides ? *strides : row_major_strides(shape);
  state->contiguous = is_row_major(state->shape, state->strides);
  return state;
}

detail::BufferState* StorageAccess::make_window(const detail::BufferState& parent) {
  auto* state = new (allocate_record(sizeof(detail::BufferState))) detail::BufferState;
  state->dtype = parent.dtype;
  state->usage = parent.usage;
  state->contiguous = parent.contiguous;
  state->pinned = parent.pinned;
  state->odd_start = parent.odd_start;
  state->num_elements = parent.num_elements;
  state->data = parent.data;
  state->device = parent.device;
  state->queue = parent.queue;
  state->storage = parent.storage;
  if (state->queue != &state->storage->queue()) state->queue->retain();
  state->storage->retain();
  return state;
}

}  // namespace kiln::driver
