#include "kiln/support/interrupt.h"

#include <atomic>
#include <cstdint>
#include <ctime>

namespace kiln {
namespace {

std::atomic<void (*)()> interrupt_check{nullptr};

}  // namespace

void set_interrupt_check(void (*check)()) { interrupt_check.store(check); }

void check_interrupt() {
  void (*const check)() = interrupt_check.load(std::memory_order_relaxed);
  if (check == nullptr) return;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  const std::int64_t time = now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
  thread_local std::int64_t next = 0;
  if (time < next) return;
  next = time + kInterruptMilliseconds;
  check();
}

}  // namespace kiln
