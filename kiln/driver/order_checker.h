#pragma once

// KILN_DEBUG=queue-order: finds two uses of one buffer on different queues, one of them a write,
// that nothing orders. Internal to the driver; docs/design/order-and-failure.md says how.

#include "kiln/driver/backend.h"
#include "kiln/driver/buffer.h"
#include "kiln/support/debug_settings.h"

namespace kiln::driver::order_checker {

inline bool enabled() { return kiln::detail::queue_order.load(std::memory_order_relaxed); }

/// Work number `value` of `queue`, which `operation` has given it or is about to, reads or writes
/// `buffer`. An earlier use that has no order with it: RuntimeError naming both.
void use(const Buffer& buffer, QueueBackend& queue, std::uint64_t value, bool write,
         const char* operation);
/// The work that `queue` gets next copies from `source` to `destination`; it waits for
/// `source_end`, the end of the source's queue. As `use` of both, or of none.
void copy(const Buffer& destination, const Buffer& source, QueueBackend& queue,
          const Point& source_end);
/// Work given to `queue` from now on comes after `point`.
void wait(QueueBackend& queue, const Point& point);
/// The host has seen `point` reached; what it enqueues from now on, on any queue, comes after it.
void host_saw(const Point& point);
/// The host reads or writes the window: it waits for the uses that conflict with that.
void host_access(const detail::BufferState& window, bool write);
/// The memory is given back; another buffer may get its place. Also when the check is off by now.
void forget(const Storage& storage) noexcept;
/// Queues that are remembered, by the clock that remembers most; for tests.
std::size_t known_queues();
/// Whether anything was ever checked.
extern std::atomic<bool> has_uses;

}  // namespace kiln::driver::order_checker
