#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace kiln::emulator {

/// Threads for functions of the user, which may block: one more starts when all are busy. They end
/// with the process.
class HostThreads {
 public:
  void run(std::function<void()> call);
  /// Whether the calling thread runs a function of the user, which may not use the driver.
  static bool inside();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<std::function<void()>> calls_;
  std::size_t idle_ = 0;
};

}  // namespace kiln::emulator
