#include <algorithm>

#include "emulator/api/call.h"
#include "emulator/api/capture.h"

namespace kiln::emulator {

std::shared_ptr<Stream> find_stream(Driver& driver, const std::shared_ptr<Context>& current,
                                    CUstream handle) {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if (value == 0 || value == CU_STREAM_LEGACY) return current->legacy;
  if (value != CU_STREAM_PER_THREAD) return resolve<Stream>(handle);
  std::lock_guard lock(current->mutex);
  std::shared_ptr<Stream>& stream = current->per_thread[std::this_thread::get_id()];
  if (stream == nullptr) stream = make_stream(driver, current, Stream::Order::blocking, 0, 0);
  return stream;
}

CUresult enqueue(Driver& driver, Stream& stream, const std::shared_ptr<Context>& context,
                 Work work) {
  if (const CUresult refused = refuse_implicit(driver, stream)) return refused;
  if (is_capturing(driver, stream)) return capture_work(driver, stream, context, std::move(work));
  auto operation = std::make_shared<Operation>();
  operation->work = std::move(work);
  operation->context = context;
  operation->priority = stream.priority;
  driver.engine.submit(stream, operation);
  return CUDA_SUCCESS;
}

}  // namespace kiln::emulator

using namespace kiln::emulator;

CUresult cuStreamCreateWithPriority(CUstream* handle, unsigned flags, int priority) {
  return context_call([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (handle == nullptr || (flags & ~CU_STREAM_NON_BLOCKING) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    const auto stream = make_stream(
        driver, context, flags == 0 ? Stream::Order::blocking : Stream::Order::non_blocking, flags,
        priority);
    *handle = publish<CUstream>(stream);
    return *handle == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  });
}

CUresult cuStreamCreate(CUstream* handle, unsigned flags) {
  return cuStreamCreateWithPriority(handle, flags, 0);
}

// Work that is in the stream goes on; only the handle ends.
CUresult cuStreamDestroy_v2(CUstream handle) {
  return driver_call([&](Driver& driver) {
    const auto stream = retire<Stream>(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    invalidate_capture(driver, *stream);
    const auto context = stream->context.lock();
    if (context == nullptr) return CUDA_SUCCESS;
    std::lock_guard lock(driver.engine.mutex());
    // The legacy stream and waits for the context still come after its work.
    if (stream->tail == nullptr || stream->tail->done) {
      std::erase(context->streams, stream);
    } else {
      std::erase_if(context->streams, [&](const std::shared_ptr<Stream>& each) {
        return each != stream && each->handle == kEndedStream &&
               (each->tail == nullptr || each->tail->done);
      });
      stream->handle = kEndedStream;
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamDestroy(CUstream handle) { return cuStreamDestroy_v2(handle); }

CUresult cuStreamSynchronize(CUstream handle) {
  return stream_call(handle,
                     [](Driver& driver, Stream& stream, const std::shared_ptr<Context>& context) {
                       if (const CUresult refused = refuse_wait(driver, stream)) return refused;
                       driver.engine.wait(stream);
                       return state_of(*context);
                     });
}

CUresult cuStreamQuery(CUstream handle) {
  return stream_call(handle,
                     [](Driver& driver, Stream& stream, const std::shared_ptr<Context>& context) {
                       if (const CUresult refused = refuse_wait(driver, stream)) return refused;
                       if (!driver.engine.idle(stream)) return CUDA_ERROR_NOT_READY;
                       return state_of(*context);
                     });
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* answer) {
  return stream_call(handle, [&](Driver&, Stream&, const std::shared_ptr<Context>& context) {
    if (answer == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *answer = reinterpret_cast<CUcontext>(context->handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext* context, CUgreenCtx* green) {
  if (green != nullptr) *green = nullptr;
  return cuStreamGetCtx(handle, context);
}

CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  return stream_call(handle, [&](Driver&, Stream& stream, const std::shared_ptr<Context>&) {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = stream.flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  return stream_call(handle, [&](Driver&, Stream& stream, const std::shared_ptr<Context>&) {
    if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *priority = stream.priority;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  return stream_call(handle, [&](Driver&, Stream& stream, const std::shared_ptr<Context>&) {
    if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *id = stream.id;
    return CUDA_SUCCESS;
  });
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* user_data) {
  return stream_call(
      handle, [&](Driver& driver, Stream& stream, const std::shared_ptr<Context>& context) {
        if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
        return enqueue(driver, stream, context, HostWork{function, user_data, nullptr, nullptr});
      });
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* user_data,
                             unsigned flags) {
  return stream_call(
      handle, [&](Driver& driver, Stream& stream, const std::shared_ptr<Context>& context) {
        if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
        if (const CUresult refused = refuse_wait(driver, stream)) return refused;
        return enqueue(driver, stream, context, HostWork{nullptr, user_data, callback, handle});
      });
}
