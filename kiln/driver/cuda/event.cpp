#include "kiln/driver/cuda/event.h"

#include "kiln/driver/cuda/queue.h"
#include "kiln/support/error.h"

namespace kiln::driver::cuda {

CudaEvent::CudaEvent(CudaDevice& device, bool enable_timing)
    : EventBackend(device, enable_timing), cuda_device_(device) {
  if (!enable_timing) return;
  const ContextScope scope(device.context());
  check(library().event_create(&event_, kEventDefault), "cuEventCreate", device.id());
}

CudaEvent::~CudaEvent() {
  if (!event_ || library().context_push(cuda_device_.context()) != kSuccess) return;
  library().event_destroy(event_);
  Context ignored = nullptr;
  library().context_pop(&ignored);
}

void CudaEvent::record(QueueBackend& queue) {
  const std::lock_guard lock(mutex_);
  if (event_) {
    const ContextScope scope(cuda_device_.context());
    check(library().event_record(event_, static_cast<CudaQueue&>(queue).stream()), "cuEventRecord",
          cuda_device_.id());
  }
  mark_ = queue.end();
  static_cast<CudaQueue&>(queue).flush(mark_.value);
}

Point CudaEvent::mark() const {
  const std::lock_guard lock(mutex_);
  return mark_;
}

double CudaEvent::elapsed_time(const EventBackend& end) const {
  const auto& last = static_cast<const CudaEvent&>(end);
  const ContextScope scope(cuda_device_.context());
  // The number that the mark waits for is written a moment before the event is reached.
  for (NativeEvent event : {event_, last.event_})
    check(library().event_synchronize(event), "cuEventSynchronize", cuda_device_.id());
  float milliseconds = 0;
  check(library().event_elapsed_time(&milliseconds, event_, last.event_), "cuEventElapsedTime",
        cuda_device_.id());
  return milliseconds;
}

}  // namespace kiln::driver::cuda
