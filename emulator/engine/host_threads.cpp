#include "emulator/engine/host_threads.h"

#include <thread>
#include <utility>

namespace kiln::emulator {
namespace {

thread_local bool inside_host_function = false;

}  // namespace

bool HostThreads::inside() { return inside_host_function; }

void HostThreads::run(std::function<void()> call) {
  std::lock_guard lock(mutex_);
  calls_.push_back(std::move(call));
  if (idle_ >= calls_.size()) {
    news_.notify_one();
  } else {
    std::thread([this] { work(); }).detach();
  }
}

void HostThreads::work() {
  inside_host_function = true;
  std::unique_lock lock(mutex_);
  for (;;) {
    while (calls_.empty()) {
      ++idle_;
      news_.wait(lock);
      --idle_;
    }
    const std::function<void()> call = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    call();
    lock.lock();
  }
}

}  // namespace kiln::emulator
