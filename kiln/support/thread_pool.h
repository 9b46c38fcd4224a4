#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <type_traits>

namespace kiln {

/// The process's one pool of threads for parallel loops. Threads start on first use, as many as the
/// widest loop asked for, and are left behind when the process ends.
class ThreadPool {
 public:
  /// Runs iterations [begin, end). `worker` is below the loop's max_threads and used by one thread
  /// at a time, so it may select scratch memory.
  using Body = void (*)(void* arguments, std::int64_t begin, std::int64_t end, std::int64_t worker);

  static ThreadPool& instance();
  /// Physical cores that this process may run on, no more than its CPU quota allows; at least 1.
  /// Measured once.
  static int usable_threads();
  /// As `usable_threads`, measured now.
  static int count_usable_threads();

  /// Runs `body` over [0, count), cut at multiples of `grain`, on at most `max_threads` threads,
  /// the caller included; returns when all is done. The first failure in iteration order is
  /// rethrown; iterations behind it may not have run. Loops inside loops, and loops while another
  /// caller's loop runs, use the calling thread alone. In a child made by fork() after use:
  /// RuntimeError.
  void parallel_for(std::int64_t count, std::int64_t grain, int max_threads, Body body,
                    void* arguments);

  /// Says that loops of up to `threads` threads will follow shortly, such as during a model call:
  /// wakes that many and lets them spin between loops, tens of microseconds at most.
  class Activity {
   public:
    explicit Activity(int threads);
    Activity(const Activity&) = delete;
    Activity& operator=(const Activity&) = delete;
    ~Activity();

   private:
    bool active_;
  };

  static constexpr int kMaxThreads = 256;

 private:
  struct Worker;
  struct Failure {
    std::mutex mutex;
    std::exception_ptr error;
  };
  static constexpr std::int64_t kNoChunk = INT64_MAX;

  ThreadPool();
  void start_workers(int count);
  void run_worker(Worker& self) noexcept;
  void wake(int threads) noexcept;
  std::uint32_t work_on(std::uint32_t generation, int worker) noexcept;
  void run_chunk(std::int64_t chunk, std::int64_t chunks, int worker) noexcept;

  // The loop that runs. Each thread has a part of the chunks, a stretch of its own, and takes from
  // the parts of others when its own is used up. `parts_[t]` is (generation, chunks of the part not
  // yet claimed); whoever lowers the count from r to r - 1 owns the r-th chunk from the part's end.
  // The fields may be read while they change: a claim succeeds only while its loop runs, and then
  // they have stayed the same.
  alignas(64) std::atomic<std::uint32_t> generation_{0};
  std::atomic<Body> body_{nullptr};
  std::atomic<void*> arguments_{nullptr};
  std::atomic<std::int64_t> count_{0};
  std::atomic<std::int64_t> grain_{1};
  std::atomic<std::uint32_t> chunks_{0};
  std::atomic<int> threads_{0};
  alignas(64) std::atomic<std::uint32_t> done_{0};
  std::atomic<std::int64_t> failed_chunk_{kNoChunk};  // the first one so far
  alignas(64) std::atomic<bool> busy_{false};
  std::atomic<int> parked_{0};
  std::atomic<int> activity_{0};
  Failure failure_;
  alignas(64) std::atomic<std::uint64_t> parts_[kMaxThreads] = {};

  std::mutex start_mutex_;
  std::atomic<int> num_workers_{0};
  std::unique_ptr<Worker[]> workers_;
};

/// `body(begin, end, worker)` as ThreadPool::parallel_for runs it.
template <typename F>
void parallel_for(std::int64_t count, std::int64_t grain, int max_threads, F&& body) {
  ThreadPool::instance().parallel_for(
      count, grain, max_threads,
      [](void* arguments, std::int64_t begin, std::int64_t end, std::int64_t worker) {
        (*static_cast<std::remove_reference_t<F>*>(arguments))(begin, end, worker);
      },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace kiln
