#pragma once

#include <thread>

namespace kiln {

/// Tells the processor that the thread spins.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Looks up to `times` whether `done()`; at most once where the process has one core, since what it
/// waits for needs that core.
template <typename Done>
bool spin_until(int times, const Done& done) {
  static const bool several_cores = std::thread::hardware_concurrency() > 1;
  if (done()) return true;
  if (!several_cores) return false;
  for (int i = 1; i < times; ++i) {
    pause();
    if (done()) return true;
  }
  return false;
}

}  // namespace kiln
