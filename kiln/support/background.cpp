#include "kiln/support/background.h"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

namespace kiln {
namespace {

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  int running = 0;
  std::atomic<bool> ends{false};
};
State& state() {
  static auto* instance = new State;  // leaked: threads use it until the process is gone
  return *instance;
}

}  // namespace

void run_in_background(std::function<void()> work) {
  static std::once_flag registered;
  std::call_once(registered, end_background_at_exit);
  {
    const std::lock_guard lock(state().mutex);
    ++state().running;
  }
  std::thread([work = std::move(work)]() mutable {
    work();
    work = nullptr;  // what it holds goes before the process may end
    const std::lock_guard lock(state().mutex);
    --state().running;
    state().changed.notify_all();
  }).detach();
}

bool background_ends() noexcept { return state().ends.load(std::memory_order_relaxed); }

void end_background() noexcept {
  State& all = state();
  std::unique_lock lock(all.mutex);
  all.ends = true;
  all.changed.wait(lock, [&] { return all.running == 0; });
  all.ends = false;
}

void end_background_at_exit() {
  (void)std::atexit([] { end_background(); });
}

}  // namespace kiln
