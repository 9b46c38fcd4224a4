#include "kiln/driver/failure_injection.h"

#include "kiln/support/error.h"

namespace kiln::driver::failure_injection {

constinit std::atomic<std::int64_t> detail::countdown{0};
constinit std::atomic<bool> detail::armed{false};

bool detail::is_due() { return countdown.fetch_sub(1, std::memory_order_relaxed) == 1; }

void detail::fail_allocation() {
  throw ValueError("A test made this allocation fail; call failure_injection::disarm to go on.");
}

void detail::fail_enqueue() {
  throw RuntimeError("A test made this enqueue fail; call failure_injection::disarm to go on.");
}

void arm(std::int64_t step) {
  detail::countdown.store(step, std::memory_order_relaxed);
  detail::armed.store(true, std::memory_order_release);
}

bool disarm() {
  detail::armed.store(false, std::memory_order_release);
  return detail::countdown.load(std::memory_order_relaxed) <= 0;
}

}  // namespace kiln::driver::failure_injection
