#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

#include "kiln/driver/backend.h"

namespace kiln::driver {

/// An in-order queue of host work with one worker thread, started by the first work that cannot run
/// at once. An idle queue costs nothing.
class CpuQueue final : public QueueBackend {
 public:
  explicit CpuQueue(DeviceBackend& device);

  std::uint64_t enqueue(Work work) override;
  void synchronize() override;
  std::uintptr_t native_handle() const override { return 0; }
  void close() noexcept override;

  /// Work that has not started, at most; a further call waits.
  static constexpr std::size_t kMaxPending = 65536;

  /// Lets every queue finish for at most two seconds, drops foreign functions that have not
  /// started.
  static void end_process() noexcept;

 private:
  struct Item {
    std::uint64_t value;
    Work work;
  };

  ~CpuQueue() override;
  void start_worker();
  void run_worker() noexcept;
  void run(Item& item) noexcept;
  void execute(Work& work);

  std::mutex mutex_;
  std::condition_variable work_added_;
  std::condition_variable room_made_;
  std::deque<Item> items_;
  /// Items that ever were in the list; the worker looks at it without the lock.
  std::atomic<std::uint64_t> appended_{0};
  bool worker_started_ = false;
  bool closed_ = false;
};

}  // namespace kiln::driver
