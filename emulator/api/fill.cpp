#include "emulator/api/fill.h"

#include "emulator/api/capture.h"

namespace kiln::emulator {

CUresult prepare_fill(Driver& driver, std::uint32_t device, const FillRequest& request,
                      FillWork& work) {
  const std::uint32_t element = request.element_bytes;
  if (element != 1 && element != 2 && element != 4) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t width = 0, bytes = 0;
  if (__builtin_mul_overflow(request.width, element, &width) ||
      __builtin_mul_overflow(request.height - 1, request.pitch, &bytes) ||
      __builtin_add_overflow(bytes, width, &bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (request.to % element != 0 ||
      (request.height > 1 && (request.pitch < width || request.pitch % element != 0)))
    return CUDA_ERROR_INVALID_VALUE;
  work.to = driver.memory.reach(request.to, bytes, device, true);
  if (work.to == nullptr) return CUDA_ERROR_INVALID_VALUE;
  work.value = request.value;
  work.element_bytes = element;
  work.width = request.width;
  work.height = request.height;
  work.pitch = request.pitch;
  work.to_address = request.to;
  return CUDA_SUCCESS;
}

CUresult fill(CUstream handle, const FillRequest& request, bool wait) {
  return stream_call(
      handle, [&](Driver& driver, Stream& stream, const std::shared_ptr<Context>& context) {
        if (wait)
          if (const CUresult refused = refuse_during_capture()) return refused;
        if (request.width == 0 || request.height == 0) return CUDA_SUCCESS;
        FillWork work;
        if (const CUresult result = prepare_fill(driver, context->device, request, work))
          return result;
        if (const CUresult result = enqueue(driver, stream, context, std::move(work)))
          return result;
        if (!wait) return CUDA_SUCCESS;
        driver.engine.wait(stream);
        return state_of(*context);
      });
}

}  // namespace kiln::emulator

using namespace kiln::emulator;

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, std::size_t count) {
  return fill(nullptr, {to, value, 1, count}, true);
}

CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, std::size_t count) {
  return fill(nullptr, {to, value, 2, count}, true);
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, std::size_t count) {
  return fill(nullptr, {to, value, 4, count}, true);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream) {
  return fill(stream, {to, value, 1, count}, false);
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, std::size_t count,
                          CUstream stream) {
  return fill(stream, {to, value, 2, count}, false);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count, CUstream stream) {
  return fill(stream, {to, value, 4, count}, false);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr to, std::size_t pitch, unsigned char value, std::size_t width,
                         std::size_t height) {
  return fill(nullptr, {to, value, 1, width, height, pitch}, true);
}

CUresult cuMemsetD2D16_v2(CUdeviceptr to, std::size_t pitch, unsigned short value,
                          std::size_t width, std::size_t height) {
  return fill(nullptr, {to, value, 2, width, height, pitch}, true);
}

CUresult cuMemsetD2D32_v2(CUdeviceptr to, std::size_t pitch, unsigned value, std::size_t width,
                          std::size_t height) {
  return fill(nullptr, {to, value, 4, width, height, pitch}, true);
}

CUresult cuMemsetD2D8Async(CUdeviceptr to, std::size_t pitch, unsigned char value,
                           std::size_t width, std::size_t height, CUstream stream) {
  return fill(stream, {to, value, 1, width, height, pitch}, false);
}

CUresult cuMemsetD2D16Async(CUdeviceptr to, std::size_t pitch, unsigned short value,
                            std::size_t width, std::size_t height, CUstream stream) {
  return fill(stream, {to, value, 2, width, height, pitch}, false);
}

CUresult cuMemsetD2D32Async(CUdeviceptr to, std::size_t pitch, unsigned value, std::size_t width,
                            std::size_t height, CUstream stream) {
  return fill(stream, {to, value, 4, width, height, pitch}, false);
}
