#include "kiln/driver/host_hazard.h"

#include <mutex>
#include <optional>

#include "kiln/driver/backend.h"
#include "kiln/support/process.h"

namespace kiln::driver {

struct HostHazardCompletion::State {
  Point point;
  const void* queue = nullptr;
  mutable std::mutex mutex;
  std::optional<std::string> message;

  void throw_if_poisoned() const {
    std::lock_guard lock(mutex);
    if (message) throw HostHazardError(*message);
  }
};

HostHazardCompletion HostHazardCompletion::record_on(const DeviceQueue& queue) {
  check_call("HostHazardCompletion.record_on");
  auto state = std::make_shared<State>();
  state->point = queue.backend()->end();
  state->queue = queue.identity();
  return HostHazardCompletion(std::move(state));
}

HostHazardCompletion HostHazardCompletion::poisoned(const DeviceQueue& queue, std::string message) {
  HostHazardCompletion token(std::make_shared<State>());
  token.state_->queue = queue.identity();
  token.poison(std::move(message));
  return token;
}

const void* HostHazardCompletion::queue_identity() const { return state_->queue; }

void HostHazardCompletion::poison(std::string message) const {
  std::lock_guard lock(state_->mutex);
  if (!state_->message) state_->message = std::move(message);
}

void HostHazardCompletion::wait() const {
  check_call("HostHazardCompletion.wait");
  const TraceSpan span("HostHazardCompletion.wait", "wait");
  state_->throw_if_poisoned();
  state_->point.wait();
  state_->throw_if_poisoned();
  if (std::exception_ptr error = state_->point.error()) throw_hazard(error);
}

void throw_hazard(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& failure) {
    throw HostHazardError(failure.what());
  } catch (...) {
    throw HostHazardError("the work that uses this memory failed with an unknown exception");
  }
}

bool HostHazardCompletion::is_ready() const {
  check_process();
  std::lock_guard lock(state_->mutex);
  return state_->message.has_value() || state_->point.reached();
}

}  // namespace kiln::driver
