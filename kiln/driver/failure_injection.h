#pragma once

// Makes an allocation or an enqueue fail, so that tests can let each one of a program fail in turn.
// Backends call `before_allocation` and `before_enqueue` first of all; while nothing is to fail,
// each costs one load. Internal to the driver.

#include <atomic>
#include <cstdint>

namespace kiln::driver::failure_injection {

namespace detail {
/// Steps until the one that fails; below 1: none does.
extern std::atomic<std::int64_t> countdown;
extern std::atomic<bool> armed;
/// Whether this step is the one.
bool is_due();
[[noreturn]] void fail_allocation();
[[noreturn]] void fail_enqueue();
}  // namespace detail

/// The `step`-th allocation or enqueue of the process from now on fails, counted from 1.
void arm(std::int64_t step);
/// Nothing fails any more; returns whether the step was reached.
bool disarm();

/// Memory of a buffer or its record is about to be allocated. ValueError when that is to fail.
inline void before_allocation() {
  if (detail::armed.load(std::memory_order_relaxed)) [[unlikely]]
    if (detail::is_due()) detail::fail_allocation();
}
/// Work is about to be enqueued. RuntimeError when that is to fail.
inline void before_enqueue() {
  if (detail::armed.load(std::memory_order_relaxed)) [[unlikely]]
    if (detail::is_due()) detail::fail_enqueue();
}

}  // namespace kiln::driver::failure_injection
