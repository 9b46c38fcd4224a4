#include "emulator/api/call.h"
#include "emulator/device/pool.h"

using namespace kiln::emulator;

CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t bytes) {
  return context_call([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult refused = refuse_during_capture()) return refused;
    Memory::Request request;
    request.device = context->device;
    request.context = context->handle;
    request.call = "cuMemAlloc";
    const auto allocated = driver.memory.allocate(bytes, request);
    if (!allocated) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = *allocated;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* address, std::size_t* pitch, std::size_t width,
                            std::size_t height, unsigned element_bytes) {
  constexpr std::size_t kPitch = 512;
  if (address == nullptr || pitch == nullptr || width == 0 || height == 0 ||
      width > SIZE_MAX - kPitch ||
      (element_bytes != 4 && element_bytes != 8 && element_bytes != 16))
    return CUDA_ERROR_INVALID_VALUE;
  const std::size_t row = (width + kPitch - 1) / kPitch * kPitch;
  if (row > SIZE_MAX / height) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = cuMemAlloc_v2(address, row * height);
  if (result == CUDA_SUCCESS) *pitch = row;
  return result;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  return context_call([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (address == 0) return CUDA_SUCCESS;
    if (const CUresult refused = refuse_during_capture()) return refused;
    const auto region = driver.memory.find(address);
    if (!region || region->address != address ||
        (region->kind != RegionKind::device && region->kind != RegionKind::pool) ||
        (region->kind == RegionKind::device && region->context == 0))
      return CUDA_ERROR_INVALID_VALUE;
    // Kernels may still use it: freeing waits for the device, as it does on hardware.
    driver.engine.wait(*context);
    if (region->context != context->handle) {
      const auto owner =
          std::static_pointer_cast<Context>(handles().find(region->context, ObjectKind::context));
      if (owner != nullptr) driver.engine.wait(*owner);
    }
    if (const CUresult error = state_of(*context)) return error;
    if (!driver.memory.free(address, region->kind)) return CUDA_ERROR_INVALID_VALUE;
    pool_freed(driver, *region);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return context_call([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (free != nullptr) *free = driver.memory.capacity() - driver.memory.used(context->device);
    if (total != nullptr) *total = driver.memory.capacity();
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
  return context_call([&](Driver& driver, const std::shared_ptr<Context>&) {
    const auto region = driver.memory.find(address);
    if (!region) return CUDA_ERROR_NOT_FOUND;
    if (base != nullptr) *base = region->address;
    if (bytes != nullptr) *bytes = region->bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  return context_call([&](Driver& driver, const std::shared_ptr<Context>& context) {
    constexpr unsigned kKnown =
        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    if (memory == nullptr || bytes == 0 || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult refused = refuse_during_capture()) return refused;
    Memory::Request request;
    request.kind = RegionKind::host;
    request.device = context->device;
    request.context = context->handle;
    request.flags = flags;
    request.call = "cuMemHostAlloc";
    const auto allocated = driver.memory.allocate(bytes, request);
    if (!allocated) return CUDA_ERROR_OUT_OF_MEMORY;
    *memory = reinterpret_cast<void*>(*allocated);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAllocHost_v2(void** memory, std::size_t bytes) {
  // With unified addressing all pinned memory is portable and mapped.
  return cuMemHostAlloc(memory, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
}

CUresult cuMemFreeHost(void* memory) {
  return context_call([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (memory == nullptr) return CUDA_SUCCESS;
    if (const CUresult refused = refuse_during_capture()) return refused;
    driver.engine.wait(*context);
    return driver.memory.free(reinterpret_cast<std::uint64_t>(memory), RegionKind::host)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* memory, unsigned flags) {
  return context_call([&](Driver& driver, const std::shared_ptr<Context>&) {
    if (address == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    const auto at = reinterpret_cast<std::uint64_t>(memory);
    if (const auto region = driver.memory.find(at); region && region->kind == RegionKind::host) {
      *address = at;
      return CUDA_SUCCESS;
    }
    const auto region = driver.memory.find_host(at);
    if (!region) return CUDA_ERROR_INVALID_VALUE;
    *address = region->address + (at - region->host);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostGetFlags(unsigned* flags, void* memory) {
  return context_call([&](Driver& driver, const std::shared_ptr<Context>&) {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto at = reinterpret_cast<std::uint64_t>(memory);
    auto region = driver.memory.find(at);
    if (!region || region->kind != RegionKind::host) region = driver.memory.find_host(at);
    if (!region) return CUDA_ERROR_INVALID_VALUE;
    *flags = region->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
  });
}
