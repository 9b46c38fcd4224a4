#include "emulator/api/call.h"

using namespace kiln::emulator;

namespace {

CUresult create(CUcontext* context, unsigned flags, CUdevice ordinal, unsigned version) {
  return driver_call([&](Driver& driver) {
    const Device* device = driver.device(ordinal);
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    const unsigned schedule = flags & CU_CTX_SCHED_MASK;
    if (context == nullptr || (flags & ~CU_CTX_FLAGS_MASK) != 0 || (schedule & (schedule - 1)) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    auto made = make_context(driver, device->ordinal, flags, version);
    *context = publish<CUcontext>(made);
    if (*context == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    context_stack().push_back(std::move(made));
    return CUDA_SUCCESS;
  });
}

// Null for a primary context, too, that has ended.
std::shared_ptr<Context> find_active(CUcontext handle) {
  auto context = resolve<Context>(handle);
  return context != nullptr && context->error.load() != CUDA_ERROR_CONTEXT_IS_DESTROYED ? context
                                                                                        : nullptr;
}

// What the handle means to a call that takes null for the current context.
std::shared_ptr<Context> given_or_current(CUcontext handle) {
  if (handle != nullptr) return resolve<Context>(handle);
  const auto* current = current_context();
  return current == nullptr ? nullptr : *current;
}

}  // namespace

CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
  return create(context, flags, device, 3020);
}

CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam* affinity, int count,
                        unsigned flags, CUdevice device) {
  // Parts of a device cannot be had.
  if (affinity != nullptr || count != 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return create(context, flags, device, 3020);
}

CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* parameters, unsigned flags,
                        CUdevice device) {
  if (parameters != nullptr) {
    if (parameters->execAffinityParams != nullptr || parameters->numExecAffinityParams != 0)
      return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    if (parameters->cigParams != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  }
  return create(context, flags, device, 3020);
}

CUresult cuCtxDestroy_v2(CUcontext handle) {
  return driver_call([&](Driver& driver) {
    const auto found = resolve<Context>(handle);
    if (found == nullptr || found->primary) return CUDA_ERROR_INVALID_CONTEXT;
    if (retire<Context>(handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    end_context(driver, found);
    auto& stack = context_stack();
    if (!stack.empty() && stack.back() == found) stack.pop_back();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetCurrent(CUcontext handle) {
  return driver_call([&](Driver&) {
    auto& stack = context_stack();
    if (handle == nullptr) {
      if (!stack.empty()) stack.pop_back();
      return CUDA_SUCCESS;
    }
    // Most calls set what is set already.
    if (!stack.empty() && stack.back() != nullptr &&
        stack.back()->handle == reinterpret_cast<std::uint64_t>(handle) &&
        stack.back()->error.load(std::memory_order_relaxed) != CUDA_ERROR_CONTEXT_IS_DESTROYED)
      return CUDA_SUCCESS;
    auto context = find_active(handle);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (stack.empty()) {
      stack.push_back(std::move(context));
    } else {
      stack.back() = std::move(context);
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetCurrent(CUcontext* handle) {
  return driver_call([&](Driver&) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto* current = current_context();
    *handle = current == nullptr ? nullptr : reinterpret_cast<CUcontext>((*current)->handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  return driver_call([&](Driver&) {
    auto context = find_active(handle);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    context_stack().push_back(std::move(context));
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPopCurrent_v2(CUcontext* handle) {
  return driver_call([&](Driver&) {
    auto& stack = context_stack();
    if (stack.empty() || stack.back() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (handle != nullptr) *handle = reinterpret_cast<CUcontext>(stack.back()->handle);
    stack.pop_back();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext handle) {
  return driver_call([&](Driver&) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto context = given_or_current(handle);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    *device = static_cast<CUdevice>(context->device);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevice(CUdevice* device) { return cuCtxGetDevice_v2(device, nullptr); }

CUresult cuCtxSynchronize_v2(CUcontext handle) {
  return driver_call([&](Driver& driver) {
    const auto context = given_or_current(handle);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (const CUresult error = state_of(*context)) return error;
    if (const CUresult refused = refuse_during_capture()) return refused;
    driver.engine.wait(*context);
    return state_of(*context);
  });
}

CUresult cuCtxSynchronize() { return cuCtxSynchronize_v2(nullptr); }

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return context_call([&](Driver&, const std::shared_ptr<Context>&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = kGreatestPriority;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned flags) {
  return context_call([&](Driver& driver, const std::shared_ptr<Context>& context) {
    const auto peer = resolve<Context>(handle);
    if (peer == nullptr || peer == context) return CUDA_ERROR_INVALID_CONTEXT;
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (!driver.settings.peers || peer->device == context->device)
      return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    std::lock_guard lock(context->mutex);
    if ((context->peers >> peer->device & 1) != 0) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    if (!driver.memory.set_reach(nullptr, peer->device, context->device, true))
      return CUDA_ERROR_OUT_OF_MEMORY;
    context->peers |= 1u << peer->device;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxDisablePeerAccess(CUcontext handle) {
  return context_call([&](Driver& driver, const std::shared_ptr<Context>& context) {
    const auto peer = resolve<Context>(handle);
    if (peer == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    driver.engine.wait(*context);
    std::lock_guard lock(context->mutex);
    if ((context->peers >> peer->device & 1) == 0) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    driver.memory.set_reach(nullptr, peer->device, context->device, false);
    context->peers &= ~(1u << peer->device);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetLimit(std::size_t* value, CUlimit limit) {
  return context_call([&](Driver&, const std::shared_ptr<Context>& context) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(context->mutex);
    if (limit < 0 || static_cast<std::size_t>(limit) >= context->limits.size())
      return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = context->limits[limit];
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetLimit(CUlimit limit, std::size_t value) {
  return context_call([&](Driver&, const std::shared_ptr<Context>& context) {
    std::lock_guard lock(context->mutex);
    switch (limit) {
      case CU_LIMIT_STACK_SIZE:
        if (value == 0 || value > (512 << 10)) return CUDA_ERROR_INVALID_VALUE;
        break;
      case CU_LIMIT_PRINTF_FIFO_SIZE:
      case CU_LIMIT_MALLOC_HEAP_SIZE:
        if (value == 0) return CUDA_ERROR_INVALID_VALUE;
        break;
      case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
        if (value > 128) return CUDA_ERROR_INVALID_VALUE;
        break;
      case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
        if (value != 0) return CUDA_ERROR_INVALID_VALUE;
        break;
      default:  // those of launches by the device, which cannot be had
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    }
    context->limits[limit] = value;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned* version) {
  return driver_call([&](Driver&) {
    if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto context = given_or_current(handle);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    *version = context->version;
    return CUDA_SUCCESS;
  });
}
