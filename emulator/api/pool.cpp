#include "emulator/device/pool.h"

#include <algorithm>

#include "emulator/api/capture.h"

namespace kiln::emulator {

std::shared_ptr<Pool> default_pool(Driver& driver, Device& device) {
  std::lock_guard lock(device.mutex);
  if (device.default_pool == nullptr) {
    auto pool = std::make_shared<Pool>();
    pool->device = device.ordinal;
    pool->is_default = true;
    pool->heap = driver.memory.make_heap(device.ordinal);
    pool->heap->keep = 0;
    device.default_pool = publish<CUmemoryPool>(pool);
    if (device.current_pool == nullptr) device.current_pool = device.default_pool;
  }
  return resolve<Pool>(device.default_pool);
}

std::shared_ptr<Pool> current_pool(Driver& driver, Device& device) {
  auto fallback = default_pool(driver, device);
  std::lock_guard lock(device.mutex);
  auto current = resolve<Pool>(device.current_pool);
  return current == nullptr ? fallback : current;
}

void pool_freed(Driver& driver, const Region& region) {
  if (region.kind != RegionKind::pool) return;
  const auto subtract = [&](Pool& pool) {
    std::lock_guard lock(pool.mutex);
    return pool.used -= region.bytes;
  };
  const auto pool = std::static_pointer_cast<Pool>(handles().find(region.pool, ObjectKind::pool));
  if (pool != nullptr) {
    subtract(*pool);
    return;
  }
  std::lock_guard lock(driver.mutex);
  std::erase_if(driver.ended_pools, [&](const std::shared_ptr<Object>& ended) {
    return ended->handle == region.pool && subtract(static_cast<Pool&>(*ended)) == 0;
  });
}

namespace {

template <typename Body>
CUresult pool_call(CUmemoryPool handle, const Body& body) {
  return driver_call([&](Driver& driver) {
    const auto pool = resolve<Pool>(handle);
    return pool == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(driver, pool);
  });
}

std::optional<std::uint64_t> take(Driver& driver, Pool& pool, std::size_t bytes) {
  Memory::Request request;
  request.kind = RegionKind::pool;
  request.device = pool.device;
  request.pool = pool.handle;
  request.call = "cuMemAllocAsync";
  request.heap = pool.heap.get();
  const auto address = driver.memory.allocate(bytes, request);
  if (!address) return std::nullopt;
  std::lock_guard lock(pool.mutex);
  pool.used += bytes;
  pool.used_high = std::max(pool.used_high, pool.used);
  pool.reserved_high = std::max(pool.reserved_high, pool.heap->reserved());
  return address;
}

CUresult allocate(Driver& driver, Stream& stream, const std::shared_ptr<Context>& context,
                  Pool& pool, std::size_t bytes, CUdeviceptr* address) {
  if (address == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Memory of a graph's own is not emulated: a captured allocation is refused.
  if (is_capturing(driver, stream)) {
    invalidate_capture(driver, stream);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (bytes == 0) {
    *address = 0;
    return CUDA_SUCCESS;
  }
  {
    std::lock_guard lock(pool.mutex);
    if (pool.most != 0 && (bytes > pool.most || pool.used > pool.most - bytes))
      return CUDA_ERROR_OUT_OF_MEMORY;
  }
  auto found = take(driver, pool, bytes);
  if (!found) {
    // What streams are still to free may suffice.
    driver.engine.wait(*context);
    if (const CUresult error = state_of(*context)) return error;
    found = take(driver, pool, bytes);
  }
  if (!found) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = *found;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace kiln::emulator

using namespace kiln::emulator;

CUresult cuMemAllocAsync(CUdeviceptr* address, std::size_t bytes, CUstream handle) {
  return stream_call(
      handle, [&](Driver& driver, Stream& stream, const std::shared_ptr<Context>& context) {
        const auto pool = current_pool(driver, *driver.device(static_cast<int>(context->device)));
        return allocate(driver, stream, context, *pool, bytes, address);
      });
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, std::size_t bytes, CUmemoryPool pool_handle,
                                 CUstream handle) {
  return stream_call(handle,
                     [&](Driver& driver, Stream& stream, const std::shared_ptr<Context>& context) {
                       const auto pool = resolve<Pool>(pool_handle);
                       if (pool == nullptr) return CUDA_ERROR_INVALID_HANDLE;
                       return allocate(driver, stream, context, *pool, bytes, address);
                     });
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  return stream_call(handle,
                     [&](Driver& driver, Stream& stream, const std::shared_ptr<Context>& context) {
                       if (address == 0) return CUDA_ERROR_INVALID_VALUE;
                       const auto region = driver.memory.find(address);
                       if (!region || region->address != address ||
                           (region->kind != RegionKind::pool &&
                            (region->kind != RegionKind::device || region->context == 0)))
                         return CUDA_ERROR_INVALID_VALUE;
                       if (is_capturing(driver, stream)) {
                         invalidate_capture(driver, stream);
                         return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
                       }
                       auto operation = std::make_shared<Operation>();
                       operation->work = CallWork{[&driver, id = region->id, found = *region] {
                         // Twice freed in a stream: the second time there is another allocation, or
                         // none.
                         const auto now = driver.memory.find(found.address);
                         if (now && now->id == id && driver.memory.free(found.address, found.kind))
                           pool_freed(driver, found);
                       }};
                       operation->context = context;
                       operation->priority = stream.priority;
                       operation->always = true;
                       driver.engine.submit(stream, operation);
                       return CUDA_SUCCESS;
                     });
}

CUresult cuMemPoolCreate(CUmemoryPool* handle, const CUmemPoolProps* properties) {
  return driver_call([&](Driver& driver) {
    if (handle == nullptr || properties == nullptr ||
        properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
      return CUDA_ERROR_INVALID_VALUE;
    if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
    const Device* device = driver.device(properties->location.id);
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    auto pool = std::make_shared<Pool>();
    pool->device = device->ordinal;
    pool->most = properties->maxSize;
    pool->heap = driver.memory.make_heap(device->ordinal);
    pool->heap->keep = 0;
    *handle = publish<CUmemoryPool>(pool);
    return *handle == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  });
}

CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  return pool_call(handle, [&](Driver& driver, const std::shared_ptr<Pool>& pool) {
    if (pool->is_default) return CUDA_ERROR_INVALID_VALUE;
    Device& device = *driver.device(static_cast<int>(pool->device));
    {
      std::lock_guard lock(device.mutex);
      if (device.current_pool == handle) device.current_pool = device.default_pool;
    }
    std::lock_guard lock(driver.mutex);
    if (retire<Pool>(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    std::lock_guard pool_lock(pool->mutex);
    if (pool->used != 0) driver.ended_pools.push_back(pool);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, std::size_t keep) {
  return pool_call(handle, [&](Driver& driver, const std::shared_ptr<Pool>& pool) {
    driver.memory.trim(*pool->heap, keep);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* list, std::size_t count) {
  return pool_call(handle, [&](Driver& driver, const std::shared_ptr<Pool>& pool) {
    if (list == nullptr && count != 0) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i) {
      if (list[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
      const Device* device = driver.device(list[i].location.id);
      if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
      if (list[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
          list[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
      const bool reach = list[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
      if (device->ordinal == pool->device) {
        if (!reach) return CUDA_ERROR_INVALID_VALUE;
        continue;
      }
      if (!driver.settings.peers) return CUDA_ERROR_INVALID_DEVICE;
      if (!driver.memory.set_reach(pool->heap.get(), pool->device, device->ordinal, reach))
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  return pool_call(handle, [&](Driver&, const std::shared_ptr<Pool>& pool) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(pool->mutex);
    const auto wide = [&] { return *static_cast<std::uint64_t*>(value); };
    switch (attribute) {
      case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        pool->follow_events = *static_cast<int*>(value);
        return CUDA_SUCCESS;
      case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        pool->opportunistic = *static_cast<int*>(value);
        return CUDA_SUCCESS;
      case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        pool->internal = *static_cast<int*>(value);
        return CUDA_SUCCESS;
      case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->release_threshold = wide();
        pool->heap->keep = wide();
        return CUDA_SUCCESS;
      case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        if (wide() != 0) return CUDA_ERROR_INVALID_VALUE;
        pool->reserved_high = pool->heap->reserved();
        return CUDA_SUCCESS;
      case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (wide() != 0) return CUDA_ERROR_INVALID_VALUE;
        pool->used_high = pool->used;
        return CUDA_SUCCESS;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  });
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  return pool_call(handle, [&](Driver&, const std::shared_ptr<Pool>& pool) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(pool->mutex);
    const auto wide = [&](std::uint64_t answer) {
      *static_cast<std::uint64_t*>(value) = answer;
      return CUDA_SUCCESS;
    };
    const auto narrow = [&](int answer) {
      *static_cast<int*>(value) = answer;
      return CUDA_SUCCESS;
    };
    switch (attribute) {
      case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        return narrow(pool->follow_events);
      case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        return narrow(pool->opportunistic);
      case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        return narrow(pool->internal);
      case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return wide(pool->release_threshold);
      case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return wide(pool->heap->reserved());
      case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return wide(pool->reserved_high);
      case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return wide(pool->used);
      case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return wide(pool->used_high);
    }
    return CUDA_ERROR_INVALID_VALUE;
  });
}

namespace {

template <typename Choose>
CUresult answer_pool(CUmemoryPool* pool, CUdevice ordinal, const Choose& choose) {
  return driver_call([&](Driver& driver) {
    Device* device = driver.device(ordinal);
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *pool = reinterpret_cast<CUmemoryPool>(choose(driver, *device)->handle);
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  return answer_pool(pool, device, default_pool);
}

CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  return answer_pool(pool, device, current_pool);
}

CUresult cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool handle) {
  return pool_call(handle, [&](Driver& driver, const std::shared_ptr<Pool>& pool) {
    Device* device = driver.device(ordinal);
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (pool->device != device->ordinal) return CUDA_ERROR_INVALID_VALUE;
    default_pool(driver, *device);
    std::lock_guard lock(device->mutex);
    device->current_pool = handle;
    return CUDA_SUCCESS;
  });
}
