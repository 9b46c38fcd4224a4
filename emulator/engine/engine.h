#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "emulator/device/context.h"
#include "emulator/engine/host_threads.h"
#include "emulator/engine/operation.h"
#include "emulator/engine/run.h"
#include "emulator/engine/stream.h"

namespace kiln::emulator {

/// The handle of a stream that was destroyed while it had work.
inline constexpr std::uint64_t kEndedStream = ~0ull;

/// Runs the operations of all streams of all devices: each once everything that it comes after is
/// done, on a pool of workers that take turns at the blocks of every kernel that runs, so kernels
/// that wait for each other progress even on one worker. engine.cpp opens with how.
class Engine {
 public:
  struct Options {
    std::uint32_t workers = 1;
    std::optional<std::uint64_t> seed;  // set: the order of execution depends on it alone
    double timeout = 10;                // seconds until a deadlock is reported
    std::uint32_t multiprocessors = 132;
  };
  explicit Engine(const Options& options) : options_(options), random_(options.seed.value_or(0)) {}

  /// Puts an operation at the end of a stream, behind `also`, too. May run it at once, on this
  /// thread, when it is short and nothing is before it.
  void submit(Stream& stream, const OperationPointer& operation,
              std::span<const OperationPointer> also = {});

  /// Puts a set of operations at the end of a stream: `operations[i]` after those that
  /// `before[i]` lists, which have lower numbers, and after `waited[i]` where that is not null; the
  /// first ones after the stream's end and `also`. Returns an operation that ends after all.
  OperationPointer submit_graph(Stream& stream, std::span<const OperationPointer> operations,
                                std::span<const std::vector<std::uint32_t>> before,
                                std::span<const OperationPointer> waited,
                                std::span<const OperationPointer> also);

  /// Makes later work of the stream come after an operation.
  void join(Stream& stream, const OperationPointer& operation);

  /// Waits, and works meanwhile.
  void wait(const OperationPointer& operation);
  void wait(Stream& stream);
  void wait(Context& context);
  /// Whether everything submitted to the stream is done.
  bool idle(Stream& stream);
  /// Whether an operation is done, for somebody who asks again and again.
  bool done(const Operation& operation);

  /// Ends all work of a context without doing it, and waits until none is left.
  void abandon(Context& context);

  /// The lock of streams and events.
  std::mutex& mutex() { return mutex_; }

 private:
  using Lock = std::unique_lock<std::mutex>;
  enum class Step : std::uint8_t { worked, stalled, idle };

  void dependencies_of(Stream& stream, std::vector<OperationPointer>& found) const;
  void enqueue_locked(const OperationPointer& operation,
                      std::span<const OperationPointer> dependencies);
  bool runs_inline(const Operation& operation) const;
  void wake_locked();
  void start_workers_locked();
  void work();

  Step step(Lock& lock);
  bool step_ready(Lock& lock);
  bool step_run(Lock& lock);
  bool step_polls(Lock& lock);
  OperationPointer take_ready();
  void execute(Lock& lock, const OperationPointer& operation);
  void start_kernel(Lock& lock, const OperationPointer& operation);
  void finish_unit(Lock& lock, const std::shared_ptr<Run>& run);
  void complete_locked(const OperationPointer& operation);
  template <typename Done>
  void help_until(Lock& lock, const Done& done);
  void pause_stalled(Lock& lock);

  void watch(Lock& lock);
  std::size_t stalled_fingerprint() const;
  void report_deadlock(Lock& lock);

  const Options options_;
  std::mutex mutex_;
  std::condition_variable work_;                       // there may be something to do
  std::condition_variable done_;                       // something ended
  std::map<int, std::deque<OperationPointer>> ready_;  // by priority
  std::size_t num_ready_ = 0;
  std::vector<std::shared_ptr<Run>> runs_;
  std::size_t turn_ = 0;  // of runs_
  std::vector<OperationPointer> polls_;
  std::vector<std::thread> workers_;
  std::uint32_t sleeping_ = 0;           // workers
  std::uint32_t waiting_ = 0;            // threads of the program
  std::atomic<std::uint64_t> news_ = 0;  // rises when there may be something to do
  HostThreads host_threads_;
  std::mt19937_64 random_;
  // Of the watch for deadlocks.
  std::int64_t last_progress_ = 0;
  std::int64_t last_look_ = 0;
  std::size_t fingerprint_ = 0;
  std::optional<std::uint64_t> contents_;  // of all memory, half of the time-out ago
};

}  // namespace kiln::emulator
