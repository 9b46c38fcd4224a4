#pragma once

// What every entry point begins and ends with.

#include <atomic>
#include <cstdint>
#include <new>
#include <utility>

#include "emulator/api/driver_api.h"
#include "emulator/api/driver_types.h"
#include "emulator/device/driver.h"

namespace kiln::emulator {

/// Counts the call for KILN_EMULATOR_FAIL and says why it may not go on: before cuInit, in a child
/// made by fork, from a host function.
CUresult enter_driver(Driver* driver);

/// Turns the exception in flight into a result, and its text into a line on stderr.
CUresult result_of_exception();

/// Runs `body(driver)` after cuInit. Nothing is thrown out of the driver.
template <typename Body>
CUresult driver_call(const Body& body) noexcept {
  Driver* const current = driver();
  if (const CUresult result = enter_driver(current); result != CUDA_SUCCESS) return result;
  try {
    return body(*current);
  } catch (...) {
    return result_of_exception();
  }
}

/// The calling thread's context, null when it has none.
inline const std::shared_ptr<Context>* current_context() {
  const auto& stack = context_stack();
  return stack.empty() || stack.back() == nullptr ? nullptr : &stack.back();
}

/// Runs `body(driver, context)` in the current context, which must not have failed.
template <typename Body>
CUresult context_call(const Body& body) noexcept {
  return driver_call([&](Driver& driver) -> CUresult {
    const std::shared_ptr<Context>* context = current_context();
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (const int error = (*context)->error.load(std::memory_order_relaxed))
      return static_cast<CUresult>(error);
    return body(driver, *context);
  });
}

/// The stream that a handle means in the current context, or null. A null handle is the legacy
/// stream: the entry points for per-thread streams pass CU_STREAM_PER_THREAD instead.
std::shared_ptr<Stream> find_stream(Driver& driver, const std::shared_ptr<Context>& current,
                                    CUstream handle);

/// Runs `body(driver, stream, context)` on a stream; the context is the stream's.
template <typename Body>
CUresult stream_call(CUstream handle, const Body& body) noexcept {
  return context_call([&](Driver& driver, const std::shared_ptr<Context>& current) -> CUresult {
    const std::shared_ptr<Stream> stream = find_stream(driver, current, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const std::shared_ptr<Context> context = stream->context.lock();
    if (context == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (const int error = context->error.load(std::memory_order_relaxed))
      return static_cast<CUresult>(error);
    return body(driver, *stream, context);
  });
}

/// Puts work at the end of a stream, or into the graph that the stream is captured to.
CUresult enqueue(Driver& driver, Stream& stream, const std::shared_ptr<Context>& context,
                 Work work);

/// What a call answers that waits for the device or allocates, while a capture forbids it
/// (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the capture is invalid); else success.
CUresult refuse_during_capture();

/// The error of a context after a wait.
inline CUresult state_of(const Context& context) {
  return static_cast<CUresult>(context.error.load(std::memory_order_relaxed));
}

}  // namespace kiln::emulator
