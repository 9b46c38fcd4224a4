#include "emulator/api/call.h"
#include "emulator/memory/registration.h"

using namespace kiln::emulator;

CUresult cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned flags) {
  return context_call([&](Driver& driver, const std::shared_ptr<Context>& context) {
    constexpr unsigned kKnown = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
    if ((flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0) return CUDA_ERROR_NOT_SUPPORTED;
    if (const CUresult refused = refuse_during_capture()) return refused;
    return register_host(driver.memory, reinterpret_cast<std::uint64_t>(memory), bytes, flags,
                         context->device, context->handle);
  });
}

CUresult cuMemHostUnregister(void* memory) {
  return context_call([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult refused = refuse_during_capture()) return refused;
    driver.engine.wait(*context);
    return unregister_host(driver.memory, reinterpret_cast<std::uint64_t>(memory));
  });
}
