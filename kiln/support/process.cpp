#include "kiln/support/process.h"

#include <pthread.h>
#include <signal.h>

#include <thread>

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln {
namespace detail {

thread_local constinit ThreadState thread_state;
std::atomic<bool> forked_after_use = false;

void throw_not_usable(const char* call) {
  if (forked_after_use.load(std::memory_order_relaxed))
    throw RuntimeError("kiln was in use before fork(); start the child with spawn or exec");
  throw RuntimeError(format(
      "{} was called from inside a function or kernel that {} runs. Such a function must not call "
      "the driver: take what it needs along, or make the call after the queue has run it.",
      call, thread_state.work_name(thread_state.work)));
}

}  // namespace detail

void mark_in_use() {
  static std::atomic<bool> marked = false;
  if (marked.load(std::memory_order_relaxed)) return;
  if (marked.exchange(true)) return;
  pthread_atfork(nullptr, nullptr, [] { detail::forked_after_use = true; });
}

void start_detached_thread(std::function<void()> body) {
  // A new thread inherits the mask of the one that starts it.
  sigset_t all;
  sigset_t previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  try {
    std::thread(std::move(body)).detach();
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &previous, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
}

std::chrono::steady_clock::time_point end_deadline() {
  static const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  return deadline;
}

}  // namespace kiln
