#include "kiln/support/timeline.h"

#include <chrono>
#include <utility>

#include "kiln/support/error.h"
#include "kiln/support/interrupt.h"
#include "kiln/support/pause.h"

namespace kiln {
namespace {

constexpr std::size_t kKeptFailures = 1024;
/// A wait first looks this often, some 20 µs: much work is over by then, and a thread that sleeps
/// takes as long to wake.
constexpr int kSpins = 2000;

/// What is kept of an error that was delivered.
std::exception_ptr without_foreign_objects(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ForeignError& foreign) {
    return foreign.lighter();
  } catch (...) {
    return error;
  }
}

}  // namespace

bool Timeline::begin(std::uint64_t value) {
  if (!failed_.load(std::memory_order_acquire)) return true;
  std::lock_guard lock(mutex_);
  if (!failed_.load(std::memory_order_relaxed)) return true;
  failures_.back().last = value;
  return false;
}

void Timeline::fail(std::uint64_t value, std::exception_ptr error) {
  // Made and dropped without the lock: it may run code of another language. Nobody else adds one.
  std::exception_ptr delivered, lighter;
  {
    std::lock_guard lock(mutex_);
    if (!failed_.load(std::memory_order_relaxed) && !failures_.empty())
      delivered = failures_.back().error;
  }
  if (delivered) lighter = without_foreign_objects(delivered);
  std::lock_guard lock(mutex_);
  if (failed_.load(std::memory_order_relaxed)) {
    failures_.back().last = value;
    return;
  }
  if (lighter) failures_.back().error = std::move(lighter);
  if (failures_.size() >= kKeptFailures) failures_.erase(failures_.begin());
  failures_.push_back({value, value, std::move(error)});
  failed_.store(true, std::memory_order_release);
  ever_failed_.store(true, std::memory_order_release);
}

std::exception_ptr Timeline::recover() {
  if (!failed_.load(std::memory_order_acquire)) return nullptr;
  std::lock_guard lock(mutex_);
  if (!failed_.load(std::memory_order_relaxed)) return nullptr;
  failed_.store(false, std::memory_order_release);
  return failures_.back().error;
}

std::exception_ptr Timeline::error_at(std::uint64_t value) const {
  if (!ever_failed_.load(std::memory_order_acquire)) return nullptr;
  std::lock_guard lock(mutex_);
  for (std::size_t i = failures_.size(); i-- > 0;)
    if (failures_[i].first <= value && value <= failures_[i].last) return failures_[i].error;
  return nullptr;
}

void Timeline::advance(std::uint64_t value) {
  for (const std::function<void()>& function : complete(value)) function();
}

std::vector<std::function<void()>> Timeline::complete(std::uint64_t value) {
  std::vector<std::function<void()>> due;
  // Sequentially consistent, as the waiter's increment: one of the two sides sees the other.
  completed_.store(value, std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_seq_cst) == 0) return due;
  std::lock_guard lock(mutex_);
  std::size_t kept = 0;
  for (Waiting& w : waiting_) {
    if (w.value <= value)
      due.push_back(std::move(w.function));
    else
      std::swap(waiting_[kept++], w);
  }
  waiting_.resize(kept);
  waiters_.fetch_sub(static_cast<int>(due.size()), std::memory_order_relaxed);
  changed_.notify_all();
  return due;
}

void Timeline::wait(std::uint64_t value) const {
  if (spin_until(kSpins, [&] { return reached(value); })) return;
  const auto step = std::chrono::milliseconds(kInterruptMilliseconds);
  while (!wait_until(value, std::chrono::steady_clock::now() + step)) check_interrupt();
}

bool Timeline::wait_until(std::uint64_t value,
                          std::chrono::steady_clock::time_point deadline) const {
  std::unique_lock lock(mutex_);
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  const bool result = changed_.wait_until(
      lock, deadline, [&] { return completed_.load(std::memory_order_seq_cst) >= value; });
  waiters_.fetch_sub(1, std::memory_order_relaxed);
  return result;
}

void Timeline::when_reached(std::uint64_t value, std::function<void()> function) {
  {
    std::lock_guard lock(mutex_);
    waiters_.fetch_add(1, std::memory_order_seq_cst);
    if (completed_.load(std::memory_order_seq_cst) < value) {
      waiting_.push_back({value, std::move(function)});
      return;
    }
    waiters_.fetch_sub(1, std::memory_order_relaxed);
  }
  function();
}

}  // namespace kiln
