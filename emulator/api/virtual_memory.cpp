#include "emulator/memory/virtual_memory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "emulator/api/call.h"
#include "emulator/api/physical.h"
#include "kiln/support/format.h"

namespace kiln::emulator {
namespace {

// Exported memory by the number of its file, so that importing in this process finds the same.
std::mutex exported_mutex;
std::map<std::uint64_t, std::weak_ptr<PhysicalMemory>>& exported() {
  static auto& files = *new std::map<std::uint64_t, std::weak_ptr<PhysicalMemory>>;
  return files;
}

std::uint64_t file_number(int descriptor) {
  struct stat about{};
  return fstat(descriptor, &about) == 0 ? about.st_ino : 0;
}

CUresult check_properties(Driver& driver, const CUmemAllocationProp* properties) {
  if (properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (driver.device(properties->location.id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if ((properties->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0 ||
      properties->allocFlags.compressionType != 0 || properties->allocFlags.usage != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  return CUDA_SUCCESS;
}

// The device of memory that another process made: its name tells.
int device_of_file(int descriptor) {
  char text[256] = {};
  const std::string link = format("/proc/self/fd/{}", descriptor);
  unsigned device = 0;
  if (readlink(link.c_str(), text, sizeof text - 1) < 0 ||
      std::sscanf(text, "/memfd:kiln-memory-%u", &device) != 1)
    return -1;
  return static_cast<int>(device);
}

}  // namespace

std::shared_ptr<PhysicalMemory> find_physical(CUmemGenericAllocationHandle handle) {
  return std::static_pointer_cast<PhysicalMemory>(handles().find(handle, ObjectKind::physical));
}

CUmemGenericAllocationHandle publish_physical(const std::shared_ptr<PhysicalMemory>& physical) {
  return handles().add(physical);
}

}  // namespace kiln::emulator

using namespace kiln::emulator;

CUresult cuMemGetAllocationGranularity(std::size_t* bytes, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags option) {
  return driver_call([&](Driver& driver) {
    if (bytes == nullptr || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
                             option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
      return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = check_properties(driver, properties)) return result;
    *bytes = kPhysicalPage;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
  return driver_call([&](Driver& driver) {
    if (handle == nullptr || bytes == 0 || bytes % kPhysicalPage != 0 || flags != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = check_properties(driver, properties)) return result;
    auto physical = std::make_shared<PhysicalMemory>();
    physical->bytes = bytes;
    physical->device = static_cast<std::uint32_t>(properties->location.id);
    physical->types = properties->requestedHandleTypes;
    {
      std::unique_lock lock(driver.memory.mutex());
      if (!driver.memory.charge_locked(physical->device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    physical->charged = true;
    const std::string name = kiln::format("kiln-memory-{}", physical->device);
    physical->file = std::make_shared<MemoryFile>(name.c_str(), bytes);
    if (physical->file->descriptor() < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    *handle = publish_physical(physical);
    return *handle == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return driver_call([&](Driver& driver) {
    const auto physical = find_physical(handle);
    if (physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
    {
      std::unique_lock lock(driver.memory.mutex());
      if (--physical->references != 0) return CUDA_SUCCESS;
    }
    // Mappings keep the memory itself.
    return handles().remove(handle, ObjectKind::physical) == nullptr ? CUDA_ERROR_INVALID_VALUE
                                                                     : CUDA_SUCCESS;
  });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                CUmemGenericAllocationHandle handle) {
  return driver_call([&](Driver&) {
    const auto physical = find_physical(handle);
    if (properties == nullptr || physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *properties = {};
    properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties->requestedHandleTypes = physical->types;
    properties->location = {CU_MEM_LOCATION_TYPE_DEVICE, static_cast<int>(physical->device)};
    return CUDA_SUCCESS;
  });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  return driver_call([&](Driver& driver) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto region = driver.memory.find(reinterpret_cast<std::uint64_t>(address));
    if (!region || region->physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const std::shared_ptr<PhysicalMemory>& physical = region->physical;
    std::unique_lock lock(driver.memory.mutex());
    if (physical->references++ == 0) publish_physical(physical);
    *handle = physical->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  return driver_call([&](Driver&) {
    const auto physical = find_physical(handle);
    if (shareable == nullptr || physical == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
    if ((physical->types & type) == 0) return CUDA_ERROR_INVALID_VALUE;
    if (physical->multicast) {
      // Something to name it by within this process; the object itself is here.
      if (physical->file == nullptr)
        physical->file = std::make_shared<MemoryFile>("kiln-multicast", kPhysicalPage);
    }
    const int copy = dup(physical->file->descriptor());
    if (copy < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    std::lock_guard lock(exported_mutex);
    exported()[file_number(copy)] = physical;
    *static_cast<int*>(shareable) = copy;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                        CUmemAllocationHandleType type) {
  return driver_call([&](Driver& driver) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
    // The descriptor itself, in the pointer's own bytes.
    const int descriptor = static_cast<int>(reinterpret_cast<std::intptr_t>(shareable));
    struct stat about{};
    if (descriptor < 0 || fstat(descriptor, &about) != 0) return CUDA_ERROR_INVALID_VALUE;
    {
      std::lock_guard lock(exported_mutex);
      const auto found = exported().find(about.st_ino);
      const auto physical = found == exported().end() ? nullptr : found->second.lock();
      if (physical != nullptr) {
        std::unique_lock memory_lock(driver.memory.mutex());
        if (physical->references++ == 0) publish_physical(physical);
        *handle = physical->handle;
        return CUDA_SUCCESS;
      }
    }
    const int device = device_of_file(descriptor);
    if (driver.device(device) == nullptr || about.st_size == 0 ||
        static_cast<std::uint64_t>(about.st_size) % kPhysicalPage != 0)
      return CUDA_ERROR_INVALID_VALUE;
    auto physical = std::make_shared<PhysicalMemory>();
    physical->bytes = static_cast<std::uint64_t>(about.st_size);
    physical->device = static_cast<std::uint32_t>(device);
    physical->types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    physical->file = std::make_shared<MemoryFile>(dup(descriptor));
    if (physical->file->descriptor() < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    *handle = publish_physical(physical);
    return *handle == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  });
}

CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t bytes, std::size_t alignment,
                             CUdeviceptr wanted, unsigned long long flags) {
  return driver_call([&](Driver& driver) {
    if (address == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t found = 0;
    const CUresult result = reserve_range(driver.memory, bytes, alignment, wanted, found);
    if (result == CUDA_SUCCESS) *address = found;
    return result;
  });
}

CUresult cuMemAddressFree(CUdeviceptr address, std::size_t bytes) {
  return driver_call([&](Driver& driver) { return free_range(driver.memory, address, bytes); });
}

CUresult cuMemMap(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return driver_call([&](Driver& driver) {
    const auto physical = find_physical(handle);
    if (physical == nullptr || flags != 0 || offset != 0) return CUDA_ERROR_INVALID_VALUE;
    return map_range(driver.memory, address, bytes, physical);
  });
}

CUresult cuMemUnmap(CUdeviceptr address, std::size_t bytes) {
  return driver_call([&](Driver& driver) {
    // Kernels may still use it.
    if (const auto* context = current_context()) driver.engine.wait(**context);
    return unmap_range(driver.memory, address, bytes);
  });
}

CUresult cuMemSetAccess(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* list,
                        std::size_t count) {
  return driver_call([&](Driver& driver) {
    if (list == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i) {
      if (list[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
      const Device* device = driver.device(list[i].location.id);
      if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
      const auto region = driver.memory.find(address);
      if (!region || (list[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
                      list[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
                      list[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
        return CUDA_ERROR_INVALID_VALUE;
      if (region->kind == RegionKind::mapping && region->device != device->ordinal &&
          !driver.settings.peers)
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
      if (const CUresult result =
              set_access(driver.memory, address, bytes, device->ordinal, list[i].flags))
        return result;
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                        CUdeviceptr address) {
  return driver_call([&](Driver& driver) {
    if (flags == nullptr || location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
      return CUDA_ERROR_INVALID_VALUE;
    const Device* device = driver.device(location->id);
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    const auto region = driver.memory.find(address);
    if (!region || region->physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = region->access[device->ordinal];
    return CUDA_SUCCESS;
  });
}
