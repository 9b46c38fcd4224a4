#include "emulator/api/load.h"

using namespace kiln::emulator;

CUresult cuModuleLoadDataEx(CUmodule* handle, const void* image, unsigned count,
                            CUjit_option* options, void** values) {
  return context_call([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *handle = nullptr;
    JitOptions jit;
    if (const CUresult result = jit.read(count, options, values)) return result;
    std::shared_ptr<const Program> program;
    if (const CUresult result = load_image(driver, image, jit, program)) return result;
    const auto module = make_module(driver, context, std::move(program));
    if (module == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    *handle = reinterpret_cast<CUmodule>(module->handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleLoadData(CUmodule* handle, const void* image) {
  return cuModuleLoadDataEx(handle, image, 0, nullptr, nullptr);
}

CUresult cuModuleUnload(CUmodule handle) {
  return context_call([&](Driver& driver, const std::shared_ptr<Context>& context) {
    const auto module = resolve<Module>(handle);
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (module->context != context->handle) return CUDA_ERROR_INVALID_CONTEXT;
    // Kernels of it may still run.
    driver.engine.wait(*context);
    if (retire<Module>(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    {
      std::lock_guard lock(context->mutex);
      context->modules.erase(module->handle);
    }
    std::lock_guard lock(module->mutex);
    for (const auto& [index, function] : module->functions) retire<Function>(function);
    return state_of(*context);
  });
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  return context_call([&](Driver&, const std::shared_ptr<Context>&) {
    if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto module = resolve<Module>(handle);
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const int index = find_kernel(*module->program, name);
    if (index < 0) return CUDA_ERROR_NOT_FOUND;
    *function = function_of(module, static_cast<std::uint32_t>(index));
    return *function == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  });
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, std::size_t* bytes, CUmodule handle,
                              const char* name) {
  return context_call([&](Driver&, const std::shared_ptr<Context>&) {
    if (name == nullptr || (address == nullptr && bytes == nullptr))
      return CUDA_ERROR_INVALID_VALUE;
    const auto module = resolve<Module>(handle);
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const auto variables = module->program->variables();
    for (std::size_t i = 0; i < variables.size(); ++i) {
      if (variables[i].name != name) continue;
      if (address != nullptr) *address = module->variables[i];
      if (bytes != nullptr) *bytes = variables[i].bytes;
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
  });
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  return driver_call([&](Driver&) {
    if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_EAGER_LOADING;
    return CUDA_SUCCESS;
  });
}
