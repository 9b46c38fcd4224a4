#include "emulator/api/call.h"

using namespace kiln::emulator;

namespace {

template <typename T>
CUresult answer(void* data, T value) {
  *static_cast<T*>(data) = value;
  return CUDA_SUCCESS;
}

std::uint64_t bits(bool value) { return value ? 1 : 0; }

// The device whose contexts own it; -2 is the interface's "none".
CUresult attribute_of(Driver& driver, const Region& region, CUdeviceptr asked,
                      CUpointer_attribute attribute, void* data) {
  const bool host = region.kind == RegionKind::host || region.kind == RegionKind::registered;
  const bool mapping = region.kind == RegionKind::mapping || region.kind == RegionKind::multicast;
  // For registered memory either address may be asked about.
  const bool by_host_address =
      region.kind == RegionKind::registered && !driver.memory.window().contains(asked);
  const std::uint64_t offset = asked - (by_host_address ? region.host : region.address);
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      if (region.context == 0) return CUDA_ERROR_INVALID_VALUE;
      return answer(data, reinterpret_cast<CUcontext>(region.context));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return answer<unsigned>(data, host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return answer<CUdeviceptr>(data, region.address + offset);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!host) return CUDA_ERROR_INVALID_VALUE;
      return answer(
          data,
          reinterpret_cast<void*>(
              (region.kind == RegionKind::registered ? region.host : region.address) + offset));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return answer(data, false);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return answer<unsigned long long>(data, region.id);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return answer<int>(data, static_cast<int>(region.device));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return answer<CUdeviceptr>(data, by_host_address ? region.host : region.address);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return answer<std::size_t>(data, region.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return answer(data, true);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return answer<unsigned long long>(data, bits(mapping));
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return answer<int>(data, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return answer(data, reinterpret_cast<CUmemoryPool>(region.pool));
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

std::optional<Region> region_of(Driver& driver, CUdeviceptr address) {
  return driver.memory.window().contains(address) ? driver.memory.find(address)
                                                  : driver.memory.find_host(address);
}

}  // namespace

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  return driver_call([&](Driver& driver) {
    if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto region = region_of(driver, address);
    if (!region) return CUDA_ERROR_INVALID_VALUE;
    return attribute_of(driver, *region, address, attribute, data);
  });
}

// Unlike the call for one, this one answers zeros for what is not known.
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr address) {
  return driver_call([&](Driver& driver) {
    if (count == 0 || attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto region = region_of(driver, address);
    for (unsigned i = 0; i < count; ++i) {
      if (data[i] == nullptr || attributes[i] < CU_POINTER_ATTRIBUTE_CONTEXT)
        return CUDA_ERROR_INVALID_VALUE;
      if (region && attribute_of(driver, *region, address, attributes[i], data[i]) == CUDA_SUCCESS)
        continue;
      switch (attributes[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
          answer<unsigned>(data[i], 0);
          break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
          answer<int>(data[i], -2);
          break;
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
          answer<int>(data[i], 0);
          break;
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        case CU_POINTER_ATTRIBUTE_MAPPED:
          answer(data[i], false);
          break;
        case CU_POINTER_ATTRIBUTE_CONTEXT:
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
          answer<std::uint64_t>(data[i], 0);
          break;
        default:
          return CUDA_ERROR_INVALID_VALUE;
      }
    }
    return CUDA_SUCCESS;
  });
}
