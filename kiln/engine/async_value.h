#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "kiln/support/error.h"
#include "kiln/support/ref.h"

namespace kiln::engine {

/// A result that is there or will be: a value or an error. A small value; copies name the same
/// result. Safe from any thread. Callbacks run on the thread that sets the result, or at once when
/// it is there; what they throw is dropped, save by `and_then`.
template <typename T>
class AsyncValue {
 public:
  /// Pending, to be set by whoever made it.
  AsyncValue() : state_(std::make_shared<State>()) {}

  /// Whether the result is there. Does not block.
  bool done() const {
    const std::lock_guard lock(state_->mutex);
    return state_->is_done();
  }
  /// Whether it is there and an error.
  bool is_error() const {
    const std::lock_guard lock(state_->mutex);
    return std::holds_alternative<std::exception_ptr>(state_->outcome);
  }
  /// Blocks until the result is there; throws nothing.
  void wait() const {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [this] { return state_->is_done(); });
  }
  /// The value, which lives as long as a copy of this object; throws the error when it is one.
  /// Pending: RuntimeError.
  const T& result() const {
    const std::lock_guard lock(state_->mutex);
    check_done();
    if (const auto* error = std::get_if<std::exception_ptr>(&state_->outcome))
      std::rethrow_exception(*error);
    return std::get<T>(state_->outcome);
  }
  /// The error, or null for a value. Pending: RuntimeError.
  std::exception_ptr exception() const {
    const std::lock_guard lock(state_->mutex);
    check_done();
    const auto* error = std::get_if<std::exception_ptr>(&state_->outcome);
    return error != nullptr ? *error : nullptr;
  }

  /// Calls `callback(*this)` once the result is there.
  void add_done_callback(std::function<void(const AsyncValue&)> callback) const {
    {
      const std::lock_guard lock(state_->mutex);
      if (!state_->is_done()) {
        state_->callbacks.push_back(std::move(callback));
        return;
      }
    }
    run(callback);
  }
  /// What `function` makes of the value. An error of this result, or one that `function` throws, is
  /// the error of the new one. A value that kiln makes: `set_…` refuses.
  template <typename F>
  auto and_then(F function) const {
    AsyncValue<std::decay_t<std::invoke_result_t<F, const T&>>> next;
    next.state_->settable = false;
    add_done_callback([next, function = std::move(function)](const AsyncValue& self) {
      try {
        next.settle(function(self.result()));
      } catch (...) {
        next.settle(std::current_exception());
      }
    });
    return next;
  }

  /// Sets the result. There already, or a value that kiln makes: RuntimeError.
  void set_result(T value) const {
    check_settable();
    settle(std::move(value));
  }
  void set_exception(std::exception_ptr error) const {
    check_settable();
    settle(std::move(error));
  }

 private:
  template <typename>
  friend class AsyncValue;

  struct State {
    bool is_done() const { return !std::holds_alternative<std::monostate>(outcome); }

    mutable std::mutex mutex;
    std::condition_variable changed;
    std::variant<std::monostate, T, std::exception_ptr> outcome;
    std::vector<std::function<void(const AsyncValue&)>> callbacks;
    bool settable = true;
  };

  void check_done() const {
    if (!state_->is_done())
      throw RuntimeError("The result is not there yet; wait() blocks until it is.");
  }
  void check_settable() const {
    if (!state_->settable)
      throw RuntimeError("The result of kiln's own work cannot be set from outside.");
  }
  template <typename Outcome>
  void settle(Outcome outcome) const {
    std::vector<std::function<void(const AsyncValue&)>> callbacks;
    {
      const std::lock_guard lock(state_->mutex);
      if (state_->is_done()) throw RuntimeError("The result is there already and cannot be set.");
      state_->outcome = std::move(outcome);
      callbacks.swap(state_->callbacks);
      state_->changed.notify_all();
    }
    for (const auto& callback : callbacks) run(callback);
  }
  void run(const std::function<void(const AsyncValue&)>& callback) const {
    try {
      callback(*this);
    } catch (...) {  // the result is there whatever its readers do
    }
  }

  Shared<State> state_;
};

}  // namespace kiln::engine
