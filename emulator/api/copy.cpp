#include "emulator/api/copy.h"

#include "emulator/api/capture.h"
#include "emulator/engine/perform.h"
#include "emulator/memory/guarded_copy.h"

namespace kiln::emulator {
namespace {

// Bytes from the first to behind the last of a box; 0 when that overflows.
std::uint64_t span_of(const CopyRequest& request, const Place& place) {
  std::uint64_t rows = 0, slices = 0, bytes = 0;
  if (__builtin_mul_overflow(request.height - 1, place.pitch, &rows) ||
      __builtin_mul_overflow(request.depth - 1, place.slice, &slices) ||
      __builtin_add_overflow(rows, slices, &bytes) ||
      __builtin_add_overflow(bytes, request.width, &bytes))
    return 0;
  return bytes;
}

CUresult find(Driver& driver, std::uint32_t device, const Place& place, std::uint64_t bytes,
              bool write, Found& found) {
  if (driver.memory.window().contains(place.address)) {
    const auto region = driver.memory.find(place.address);
    if (!region) return CUDA_ERROR_INVALID_VALUE;
    if (place.kind == Place::Kind::host && region->kind != RegionKind::host)
      return CUDA_ERROR_INVALID_VALUE;
    found.at = driver.memory.reach(place.address, bytes, device, write);
    found.device_address = place.address;
    return found.at == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  }
  if (place.kind == Place::Kind::device || place.address == 0 || bytes > UINT64_MAX - place.address)
    return CUDA_ERROR_INVALID_VALUE;
  const auto region = driver.memory.find_host(place.address);
  found.pageable = !region || bytes > region->bytes - (place.address - region->host);
  found.at = reinterpret_cast<std::byte*>(place.address);
  return CUDA_SUCCESS;
}

// The bytes that the program may change as soon as the call returns.
CUresult stage(CopyWork& work) {
  auto staged = std::make_shared<std::vector<std::byte>>(work.bytes());
  CopyWork to_stage = work;
  to_stage.to = staged->data();
  to_stage.to_address = 0;
  to_stage.to_pitch = work.width;
  to_stage.to_slice = work.width * work.height;
  if (!perform_copy(to_stage)) return CUDA_ERROR_INVALID_VALUE;
  work.from = staged->data();
  work.from_pitch = to_stage.to_pitch;
  work.from_slice = to_stage.to_slice;
  work.staged = std::move(staged);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult prepare_copy(Driver& driver, std::uint32_t device, const CopyRequest& request,
                      CopyWork& work, bool& to_pageable, bool& from_pageable) {
  if ((request.height > 1 &&
       (request.to.pitch < request.width || request.from.pitch < request.width)))
    return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t to_bytes = span_of(request, request.to);
  const std::uint64_t from_bytes = span_of(request, request.from);
  if (to_bytes == 0 || from_bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Found to, from;
  if (const CUresult result = find(driver, device, request.to, to_bytes, true, to)) return result;
  if (const CUresult result = find(driver, device, request.from, from_bytes, false, from))
    return result;
  work.to = to.at;
  work.from = from.at;
  work.to_address = to.device_address;
  work.width = request.width;
  work.height = request.height;
  work.depth = request.depth;
  work.to_pitch = request.to.pitch;
  work.to_slice = request.to.slice;
  work.from_pitch = request.from.pitch;
  work.from_slice = request.from.slice;
  to_pageable = to.pageable;
  from_pageable = from.pageable;
  return CUDA_SUCCESS;
}

CUresult copy(CUstream handle, const CopyRequest& request, bool wait) {
  return stream_call(
      handle, [&](Driver& driver, Stream& stream, const std::shared_ptr<Context>& context) {
        if (wait) {
          if (const CUresult refused = refuse_during_capture()) return refused;
          if (const CUresult refused = refuse_implicit(driver, stream)) return refused;
        }
        if (request.width == 0 || request.height == 0 || request.depth == 0) return CUDA_SUCCESS;
        CopyWork work;
        bool to_pageable = false, from_pageable = false;
        if (const CUresult result =
                prepare_copy(driver, context->device, request, work, to_pageable, from_pageable))
          return result;
        if (is_capturing(driver, stream)) return enqueue(driver, stream, context, std::move(work));
        // Memory that may not be there is touched here and now, so that a wrong pointer is an
        // answer of this call and no failure of the context.
        if (to_pageable || (from_pageable && (wait || driver.engine.idle(stream)))) {
          driver.engine.wait(stream);
          if (const CUresult error = state_of(*context)) return error;
          return perform_copy(work) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        }
        if (from_pageable)
          if (const CUresult result = stage(work)) return result;
        if (const CUresult result = enqueue(driver, stream, context, std::move(work)))
          return result;
        if (!wait) return CUDA_SUCCESS;
        driver.engine.wait(stream);
        return state_of(*context);
      });
}

}  // namespace kiln::emulator

using namespace kiln::emulator;

namespace {

constexpr CUstream kDefault = nullptr;
using enum Place::Kind;

CopyRequest line(Place::Kind to_kind, std::uint64_t to, Place::Kind from_kind, std::uint64_t from,
                 std::size_t bytes) {
  CopyRequest request;
  request.to = {to_kind, to, bytes, bytes};
  request.from = {from_kind, from, bytes, bytes};
  request.width = bytes;
  return request;
}

std::uint64_t number(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

}  // namespace

namespace kiln::emulator {

CUresult copy_any(CUstream stream, CUdeviceptr to, CUdeviceptr from, std::size_t bytes, bool wait) {
  return copy(stream, line(any, to, any, from, bytes), wait);
}
CUresult copy_to_device(CUstream stream, CUdeviceptr to, const void* from, std::size_t bytes,
                        bool wait) {
  return copy(stream, line(device, to, host, number(from), bytes), wait);
}
CUresult copy_to_host(CUstream stream, void* to, CUdeviceptr from, std::size_t bytes, bool wait) {
  return copy(stream, line(host, number(to), device, from, bytes), wait);
}
CUresult copy_on_device(CUstream stream, CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                        bool wait) {
  return copy(stream, line(device, to, device, from, bytes), wait);
}

CUresult copy_peer(CUstream stream, CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                   CUcontext from_context, std::size_t bytes, bool wait) {
  if (driver() != nullptr &&
      (resolve<Context>(to_context) == nullptr || resolve<Context>(from_context) == nullptr))
    return CUDA_ERROR_INVALID_CONTEXT;
  return copy_on_device(stream, to, from, bytes, wait);
}

}  // namespace kiln::emulator

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy_any(kDefault, to, from, bytes, true);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy_any(stream, to, from, bytes, false);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t bytes) {
  return copy_to_device(kDefault, to, from, bytes, true);
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t bytes) {
  return copy_to_host(kDefault, to, from, bytes, true);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy_on_device(kDefault, to, from, bytes, true);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes,
                              CUstream stream) {
  return copy_to_device(stream, to, from, bytes, false);
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy_to_host(stream, to, from, bytes, false);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                              CUstream stream) {
  return copy_on_device(stream, to, from, bytes, false);
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                      CUcontext from_context, std::size_t bytes) {
  return copy_peer(kDefault, to, to_context, from, from_context, bytes, true);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, std::size_t bytes, CUstream stream) {
  return copy_peer(stream, to, to_context, from, from_context, bytes, false);
}
