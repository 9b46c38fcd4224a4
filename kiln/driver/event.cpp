#include "kiln/driver/event.h"

#include "kiln/driver/backend.h"
#include "kiln/driver/order_checker.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/process.h"

namespace kiln::driver {

void ref_retain(EventBackend* event) noexcept { event->retain(); }
void ref_release(EventBackend* event) noexcept {
  if (event->drop() && !forked_after_use()) delete event;
}

std::string EventBackend::to_string() const {
  return format("{}[{}]:event@{}", device_.api(), device_.id(), static_cast<const void*>(this));
}

DeviceEvent::DeviceEvent(const Device& device, bool enable_timing) {
  check_call("DeviceEvent");
  backend_ = device.backend()->make_event(enable_timing);
}

Device DeviceEvent::device() const { return Device(&backend_->device()); }

void DeviceEvent::synchronize() const {
  check_call("DeviceEvent.synchronize");
  const Point mark = backend_->mark();
  if (order_checker::enabled()) [[unlikely]]
    order_checker::host_saw(mark);
  const TraceSpan span("DeviceEvent.synchronize", "wait");
  mark.wait();
  if (std::exception_ptr error = mark.error()) std::rethrow_exception(error);
}

bool DeviceEvent::is_ready() const {
  check_call("DeviceEvent.is_ready");
  const Point mark = backend_->mark();
  if (!mark.reached()) return false;
  if (order_checker::enabled()) [[unlikely]]
    order_checker::host_saw(mark);
  if (std::exception_ptr error = mark.error()) std::rethrow_exception(error);
  return true;
}

double DeviceEvent::elapsed_time(const DeviceEvent& end) const {
  check_call("DeviceEvent.elapsed_time");
  const DeviceEvent* events[] = {this, &end};
  for (const DeviceEvent* event : events) (void)event->backend()->enable_timing();  // not empty
  for (const DeviceEvent* event : events) {
    if (!event->backend()->enable_timing())
      throw RuntimeError(format("DeviceEvent.elapsed_time: {} was made without enable_timing.",
                                event->to_string()));
    if (!event->backend()->mark().timeline)
      throw RuntimeError(
          format("DeviceEvent.elapsed_time: {} was never recorded.", event->to_string()));
  }
  if (device() != end.device())
    throw RuntimeError(
        format("DeviceEvent.elapsed_time: the events belong to {} and {}; times of "
               "different devices cannot be compared.",
               device().to_string(), end.device().to_string()));
  if (!end.is_ready())
    throw RuntimeError(
        format("DeviceEvent.elapsed_time: the queue has not reached {} yet; "
               "synchronize it first.",
               end.to_string()));
  if (!is_ready())
    throw RuntimeError(
        format("DeviceEvent.elapsed_time: the queue has not reached {} yet; "
               "synchronize it first.",
               to_string()));
  return backend_->elapsed_time(*end.backend());
}

std::string DeviceEvent::to_string() const { return backend_->to_string(); }

}  // namespace kiln::driver
