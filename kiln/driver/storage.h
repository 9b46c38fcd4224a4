#pragma once

// The memory behind buffers and the record of who uses it. Internal to the driver and to layers
// that enqueue work themselves.

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "kiln/driver/backend.h"
#include "kiln/driver/buffer.h"
#include "kiln/driver/host_hazard.h"

namespace kiln::driver {

/// The most dimensions of a buffer, as many as NumPy's arrays have.
inline constexpr std::size_t kMaxDims = 64;
/// More dimensions: ValueError.
void check_rank(const Shape& shape);

/// The memory that a window reaches into, gaps between its elements included.
struct ByteRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;

  static ByteRange of(const detail::BufferState& window);
  bool meets(const ByteRange& other) const { return begin < other.end && other.begin < end; }
  bool holds(const ByteRange& other) const { return begin <= other.begin && other.end <= end; }
};

namespace detail {
/// How the elements of a window lie in its range.
struct Gaps {
  std::int64_t run = 0;  // bytes without a gap
  std::uintptr_t start = 0;
  std::vector<std::int64_t> counts, steps;  // of runs along each axis, steps in bytes
};
}  // namespace detail

/// One allocation, shared by a buffer and its slices and views. Its memory is used again only when
/// every recorded use is over, and the work that the queue of each window then had; nobody waits
/// for that. `window` is the buffer, slice or view through which the memory is used: failures
/// belong to the bytes that failed work was to write.
class Storage : public RefCounted {
 public:
  Storage(void* base, std::size_t bytes, DeviceBackend& device, QueueBackend& queue, Usage usage)
      : base_(base), bytes_(bytes), device_(device), queue_(queue), usage_(usage) {}

  void* base() const { return base_; }
  std::size_t bytes() const { return bytes_; }
  QueueBackend& queue() const { return queue_; }
  /// Whether the memory came from elsewhere, so that other storages may be of it, too.
  bool is_foreign() const { return deleter_ != nullptr; }
  /// Whether the high half of the last byte belongs to no element: an odd number of half bytes.
  bool ends_in_half_byte() const { return ends_in_half_byte_; }

  /// Says that work `value` on `queue` uses the memory; no effect when that work is over already.
  void record(const detail::BufferState& window, QueueBackend& queue, std::uint64_t value,
              bool write);
  /// Says that the host or work that is already over has written the memory: what failed to write
  /// it before is forgotten.
  void record_finished_write(const detail::BufferState& window);
  /// Whether no use is pending and no write failed. Two loads in the usual case.
  bool settled() const {
    Uses* uses = uses_.load(std::memory_order_acquire);
    return uses == nullptr || !uses->active.load(std::memory_order_acquire) || prune(*uses);
  }
  /// The writes into the window that are not over, and those that failed and that nothing later
  /// writes over, in the order of recording.
  std::vector<Point> writes(const detail::BufferState& window) const;
  /// Every use that is not over.
  std::vector<Point> pending_uses() const;

  /// Says that the token's work writes or reads the memory; it takes the place of an earlier token
  /// of the same queue.
  void stamp(const HostHazardCompletion& token, bool write);

  /// Waits for writes into the window, for all uses when `write`, and for user functions and inline
  /// work on the window's queue. A read throws what a write into the window failed with.
  void wait_for_host(const detail::BufferState& window, bool write) const;
  /// Whether no use of the bytes is pending that conflicts with a read, or a write, other than on
  /// timelines for which `later` says so, and no write failed that a read must throw.
  bool is_free(const ByteRange& range, bool write,
               const std::function<bool(const Timeline&)>& later) const;

 private:
  friend void ref_release(Storage* storage) noexcept;
  friend class StorageAccess;

  struct Use {
    Ref<Timeline> timeline;
    std::uint64_t value = 0;
    bool write = false;
    ByteRange range;                          // of a write
    std::unique_ptr<detail::Gaps> gaps = {};  // of a write that leaves bytes of the range out
    bool over() const { return timeline->reached(value); }
    std::exception_ptr error() const { return timeline->error_at(value); }
    bool failed_write() const { return write && over() && error() != nullptr; }
  };
  struct Uses {
    std::atomic<bool> active{false};  // entries is not empty
    std::mutex mutex;
    std::vector<Use> entries;   // in the order of recording
    std::size_t prune_at = 64;  // entries at which it is worth looking what is over
  };

  /// Forgets uses that are over and well, and failures that they have written over; returns whether
  /// none is left.
  static bool prune(Uses& uses);
  static void prune_locked(Uses& uses);
  /// Takes the bytes of a good write out of the failed ones among the first `count` entries.
  static void forget_failures(std::vector<Use>& entries, std::size_t count, const ByteRange& range,
                              const detail::Gaps* gaps);
  /// Whether a write reached bytes of a window.
  static bool touches(const Use& use, const ByteRange& range, const detail::Gaps* gaps);
  /// Whether later entries write all that failed write `i` left in `range`.
  static bool is_written_later(const std::vector<Use>& entries, std::size_t i,
                               const ByteRange& range);

  /// Tokens that other layers stamped the memory with, one of each queue.
  struct Stamps {
    std::mutex mutex;
    std::vector<HostHazardCompletion> writes, reads;
  };
  void wait_for_stamps(bool write) const;

  void* base_;
  std::size_t bytes_;
  DeviceBackend& device_;
  QueueBackend& queue_;  // one reference, dropped with the storage
  Usage usage_;
  bool ends_in_half_byte_ = false;
  /// Set for foreign memory; runs in place of the device's release.
  std::function<void()>* deleter_ = nullptr;
  std::atomic<Uses*> uses_{nullptr};
  std::atomic<Stamps*> stamps_{nullptr};
};

inline void ref_retain(Storage* storage) noexcept { storage->retain(); }
void ref_release(Storage* storage) noexcept;

/// What makes buffers: the one place that knows how state, storage and memory are laid out.
class StorageAccess {
 public:
  /// A new buffer's state over new memory; strides are row-major.
  static detail::BufferState* make_root(DType dtype, const Shape& shape, QueueBackend& queue,
                                        Usage usage);
  /// Over foreign memory; takes `deleter`, which may be empty.
  static detail::BufferState* make_foreign(void* data, DType dtype, const Shape& shape,
                                           const Shape* strides, QueueBackend& queue,
                                           std::function<void()> deleter);
  /// Another window onto `parent`'s memory; the caller fills in what differs.
  static detail::BufferState* make_window(const detail::BufferState& parent);

 private:
  friend void detail::destroy(detail::BufferState* state) noexcept;
  friend void ref_release(Storage* storage) noexcept;
  struct Root;
  static void finish(Storage* storage) noexcept;
};

}  // namespace kiln::driver
