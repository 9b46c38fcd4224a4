#include "emulator/api/call.h"
#include "emulator/api/physical.h"

using namespace kiln::emulator;

namespace {

CUresult check_properties(const Driver& driver, const CUmulticastObjectProp* properties) {
  if (properties == nullptr || properties->flags != 0 || properties->numDevices == 0 ||
      properties->numDevices > driver.settings.devices)
    return CUDA_ERROR_INVALID_VALUE;
  if ((properties->handleTypes & ~1ull) != 0 || !driver.settings.multicast)
    return CUDA_ERROR_NOT_SUPPORTED;
  return CUDA_SUCCESS;
}

// Runs `body(driver, object)` for a handle of a multicast object.
template <typename Body>
CUresult object_call(CUmemGenericAllocationHandle handle, const Body& body) {
  return driver_call([&](Driver& driver) {
    const auto object = find_physical(handle);
    if (object == nullptr || !object->multicast) return CUDA_ERROR_INVALID_VALUE;
    return body(driver, *object);
  });
}

}  // namespace

CUresult cuMulticastGetGranularity(std::size_t* bytes, const CUmulticastObjectProp* properties,
                                   CUmulticastGranularity_flags option) {
  return driver_call([&](Driver& driver) {
    if (bytes == nullptr || (option != CU_MULTICAST_GRANULARITY_MINIMUM &&
                             option != CU_MULTICAST_GRANULARITY_RECOMMENDED))
      return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = check_properties(driver, properties)) return result;
    *bytes = kPhysicalPage;
    return CUDA_SUCCESS;
  });
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle* handle,
                           const CUmulticastObjectProp* properties) {
  return driver_call([&](Driver& driver) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = check_properties(driver, properties)) return result;
    if (properties->size == 0 || properties->size % kPhysicalPage != 0)
      return CUDA_ERROR_INVALID_VALUE;
    auto object = std::make_shared<PhysicalMemory>();
    object->multicast = true;
    object->bytes = properties->size;
    object->members_wanted = properties->numDevices;
    object->types = static_cast<CUmemAllocationHandleType>(properties->handleTypes);
    *handle = publish_physical(object);
    return *handle == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  });
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice ordinal) {
  return object_call(handle, [&](Driver& driver, PhysicalMemory& object) {
    const Device* device = driver.device(ordinal);
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    std::unique_lock lock(driver.memory.mutex());
    const std::uint32_t bit = 1u << device->ordinal;
    if ((object.members & bit) != 0 ||
        __builtin_popcount(object.members) == static_cast<int>(object.members_wanted))
      return CUDA_ERROR_INVALID_VALUE;
    object.members |= bit;
    return CUDA_SUCCESS;
  });
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, std::size_t offset,
                            CUmemGenericAllocationHandle memory_handle, std::size_t memory_offset,
                            std::size_t bytes, unsigned long long flags) {
  return object_call(handle, [&](Driver& driver, PhysicalMemory& object) {
    const auto physical = find_physical(memory_handle);
    if (physical == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    return bind_multicast(driver.memory, object, offset, *physical, memory_offset, bytes);
  });
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, std::size_t offset,
                             CUdeviceptr address, std::size_t bytes, unsigned long long flags) {
  return object_call(handle, [&](Driver& driver, PhysicalMemory& object) {
    const auto region = driver.memory.find(address);
    if (!region || region->kind != RegionKind::mapping || flags != 0 ||
        bytes > region->bytes - (address - region->address))
      return CUDA_ERROR_INVALID_VALUE;
    return bind_multicast(driver.memory, object, offset, *region->physical,
                          region->physical_offset + (address - region->address), bytes);
  });
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice ordinal,
                           std::size_t offset, std::size_t bytes) {
  return object_call(handle, [&](Driver& driver, PhysicalMemory& object) {
    const Device* device = driver.device(ordinal);
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (bytes == 0 || offset > object.bytes || bytes > object.bytes - offset)
      return CUDA_ERROR_INVALID_VALUE;
    return unbind_multicast(driver.memory, object, device->ordinal, offset, bytes);
  });
}
