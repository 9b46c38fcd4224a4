#pragma once

#include <atomic>
#include <chrono>
#include <functional>

namespace kiln {

namespace detail {

/// What a thread is doing, read on every driver call. One object, so that one register holds its
/// place; initial-exec, because a lookup through __tls_get_addr would cost more than the checks.
struct ThreadState {
  /// Set while a user function or kernel runs on this thread: text that names its queue.
  const char* (*work_name)(const void*) = nullptr;
  const void* work = nullptr;
  /// The thread's part of the CPU memory pool.
  void* memory_cache = nullptr;
};

#define KILN_INITIAL_EXEC __attribute__((tls_model("initial-exec")))
extern thread_local constinit ThreadState thread_state KILN_INITIAL_EXEC;

extern std::atomic<bool> forked_after_use;
[[noreturn]] void throw_not_usable(const char* call);

}  // namespace detail

/// Says that threads, queues or memory of kiln are in use from now on, so that a later fork() is
/// noticed. Cheap to repeat.
void mark_in_use();

/// Whether this process was forked from one that had used kiln.
inline bool forked_after_use() { return detail::forked_after_use.load(std::memory_order_relaxed); }

/// Throws RuntimeError in a child made by fork() after use, and inside work that a queue runs.
/// `call` names the call for the message. For every call that enqueues, allocates or waits.
inline void check_call(const char* call) {
  if (detail::thread_state.work != nullptr || forked_after_use()) [[unlikely]]
    detail::throw_not_usable(call);
}

/// Throws RuntimeError in a child made by fork() after use. For calls that ask a device or a queue,
/// which work may do too.
inline void check_process() {
  if (forked_after_use()) [[unlikely]]
    detail::throw_not_usable("");
}

/// Starts a thread that nobody joins and that no signal is delivered to, since signals are for the
/// program's own threads. The system has no more threads: std::system_error.
void start_detached_thread(std::function<void()> body);

/// Until when a process that ends waits for work: two seconds from the first call.
std::chrono::steady_clock::time_point end_deadline();

/// While it lives, driver calls from this thread throw: a user function or kernel is running.
class InsideWork {
 public:
  /// `name(work)` returns text that names the queue; it is called on failure only.
  InsideWork(const void* work, const char* (*name)(const void*))
      : previous_work_(detail::thread_state.work), previous_name_(detail::thread_state.work_name) {
    detail::thread_state.work = work;
    detail::thread_state.work_name = name;
  }
  InsideWork(const InsideWork&) = delete;
  InsideWork& operator=(const InsideWork&) = delete;
  ~InsideWork() {
    detail::thread_state.work = previous_work_;
    detail::thread_state.work_name = previous_name_;
  }

 private:
  const void* previous_work_;
  const char* (*previous_name_)(const void*);
};

}  // namespace kiln
