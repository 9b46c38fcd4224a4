#pragma once

#include <exception>
#include <memory>
#include <string>

#include "kiln/driver/queue.h"
#include "kiln/support/error.h"
#include "kiln/support/ref.h"

namespace kiln::driver {

/// The work that a host access had to wait for failed; carries that work's text.
class HostHazardError : public RuntimeError {
 public:
  using RuntimeError::RuntimeError;
};

/// Throws a HostHazardError with the text of the failure.
[[noreturn]] void throw_hazard(const std::exception_ptr& error);

/// A token for device work that uses host memory: the host waits for it before it touches that
/// memory. A small value; copies are the same token. Safe from any thread.
class HostHazardCompletion {
 public:
  /// A token for the present work of `queue`.
  static HostHazardCompletion record_on(const DeviceQueue& queue);
  /// A token for work that was refused: ready, and waiting for it throws `message`.
  static HostHazardCompletion poisoned(const DeviceQueue& queue, std::string message);

  /// Marks the work as failed, even when its event has finished; the first message stays.
  void poison(std::string message) const;
  /// Blocks until the work is over. Failed work: HostHazardError.
  void wait() const;
  /// Whether `wait` would return or throw at once.
  bool is_ready() const;
  /// The queue that it is for; only its identity counts.
  const void* queue_identity() const;
  /// Identity.
  friend bool operator==(const HostHazardCompletion&, const HostHazardCompletion&) = default;

 private:
  struct State;
  explicit HostHazardCompletion(std::shared_ptr<State> state) : state_(std::move(state)) {}
  Shared<State> state_;
};

}  // namespace kiln::driver
