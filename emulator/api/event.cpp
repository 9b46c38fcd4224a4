#include "emulator/api/capture.h"

using namespace kiln::emulator;

CUresult cuEventCreate(CUevent* handle, unsigned flags) {
  return context_call([&](Driver&, const std::shared_ptr<Context>& context) {
    constexpr unsigned kKnown =
        CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    if (handle == nullptr || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CU_EVENT_INTERPROCESS) != 0)
      return (flags & CU_EVENT_DISABLE_TIMING) == 0 ? CUDA_ERROR_INVALID_VALUE
                                                    : CUDA_ERROR_NOT_SUPPORTED;
    auto event = std::make_shared<Event>();
    event->context = context;
    event->flags = flags;
    *handle = publish<CUevent>(event);
    if (*handle == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    std::lock_guard lock(context->mutex);
    context->events.insert(event->handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuEventDestroy_v2(CUevent handle) {
  return driver_call([&](Driver&) {
    const auto event = retire<Event>(handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const auto context = event->context.lock()) {
      std::lock_guard lock(context->mutex);
      context->events.erase(event->handle);
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuEventDestroy(CUevent handle) { return cuEventDestroy_v2(handle); }

CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream_handle, unsigned flags) {
  return stream_call(stream_handle,
                     [&](Driver& driver, Stream& stream, const std::shared_ptr<Context>& context) {
                       const auto event = resolve<Event>(handle);
                       if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
                       if ((flags & ~CU_EVENT_RECORD_EXTERNAL) != 0)
                         return CUDA_ERROR_INVALID_VALUE;
                       if (event->context.lock() != context) return CUDA_ERROR_INVALID_HANDLE;
                       if (const CUresult refused = refuse_implicit(driver, stream)) return refused;
                       if (is_capturing(driver, stream))
                         return capture_record(driver, stream, context, event,
                                               (flags & CU_EVENT_RECORD_EXTERNAL) != 0);
                       auto operation = std::make_shared<Operation>();
                       operation->context = context;
                       operation->priority = stream.priority;
                       {
                         std::lock_guard lock(driver.engine.mutex());
                         event->recorded = operation;
                         event->capture = nullptr;
                         event->captured.clear();
                       }
                       driver.engine.submit(stream, operation);
                       return CUDA_SUCCESS;
                     });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return cuEventRecordWithFlags(event, stream, 0);
}

CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned flags) {
  return stream_call(stream_handle, [&](Driver& driver, Stream& stream,
                                        const std::shared_ptr<Context>& context) {
    const auto event = resolve<Event>(handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if ((flags & ~CU_EVENT_WAIT_EXTERNAL) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult refused = refuse_implicit(driver, stream)) return refused;
    if (is_captured(driver, *event) || is_capturing(driver, stream))
      return capture_wait(driver, stream, context, event, (flags & CU_EVENT_WAIT_EXTERNAL) != 0);
    OperationPointer recorded;
    {
      std::lock_guard lock(driver.engine.mutex());
      recorded = event->recorded;
    }
    driver.engine.join(stream, recorded);
    return CUDA_SUCCESS;
  });
}

namespace {

// Runs `body(driver, event, recorded)`; `recorded` is null when the event never was.
template <typename Body>
CUresult event_call(CUevent handle, const Body& body) {
  return driver_call([&](Driver& driver) -> CUresult {
    const auto event = resolve<Event>(handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (is_captured(driver, *event)) {
      invalidate_capture(driver, *event);
      return CUDA_ERROR_CAPTURED_EVENT;
    }
    const auto context = event->context.lock();
    if (context == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    OperationPointer recorded;
    {
      std::lock_guard lock(driver.engine.mutex());
      recorded = event->recorded;
    }
    return body(driver, *context, recorded);
  });
}

}  // namespace

CUresult cuEventQuery(CUevent handle) {
  return event_call(handle, [](Driver& driver, Context& context, const OperationPointer& recorded) {
    if (const CUresult error = state_of(context)) return error;
    if (recorded != nullptr && !driver.engine.done(*recorded)) return CUDA_ERROR_NOT_READY;
    return state_of(context);
  });
}

CUresult cuEventSynchronize(CUevent handle) {
  return event_call(handle, [](Driver& driver, Context& context, const OperationPointer& recorded) {
    driver.engine.wait(recorded);
    return state_of(context);
  });
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return driver_call([&](Driver& driver) {
    const auto first = resolve<Event>(start);
    const auto last = resolve<Event>(end);
    if (first == nullptr || last == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (((first->flags | last->flags) & CU_EVENT_DISABLE_TIMING) != 0)
      return CUDA_ERROR_INVALID_HANDLE;
    std::lock_guard lock(driver.engine.mutex());
    if (first->recorded == nullptr || last->recorded == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (!first->recorded->done || !last->recorded->done) return CUDA_ERROR_NOT_READY;
    *milliseconds =
        static_cast<float>(static_cast<double>(last->recorded->time - first->recorded->time) / 1e6);
    return CUDA_SUCCESS;
  });
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  return cuEventElapsedTime(milliseconds, start, end);
}
