#include "emulator/api/load.h"

namespace kiln::emulator {

CUfunction library_function(LibraryKernel& kernel, const std::shared_ptr<Module>& module) {
  const CUfunction handle = function_of(module, kernel.index);
  const auto function = resolve<Function>(handle);
  if (function == nullptr) return nullptr;
  std::lock_guard lock(kernel.mutex);
  for (const LibraryKernel::Setting& setting : kernel.settings)
    if (setting.device == static_cast<int>(module->device))
      set_function_attribute(*function, setting.attribute, setting.value);
  return handle;
}

}  // namespace kiln::emulator

using namespace kiln::emulator;

CUresult cuLibraryLoadData(CUlibrary* handle, const void* code, CUjit_option* jit_options,
                           void** jit_values, unsigned jit_count, CUlibraryOption* options,
                           void** values, unsigned count) {
  return driver_call([&](Driver& driver) {
    if (handle == nullptr || (count != 0 && (options == nullptr || values == nullptr)))
      return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; ++i)
      if (options[i] != CU_LIBRARY_BINARY_IS_PRESERVED) return CUDA_ERROR_NOT_SUPPORTED;
    JitOptions jit;
    if (const CUresult result = jit.read(jit_count, jit_options, jit_values)) return result;
    auto library = std::make_shared<Library>();
    if (const CUresult result = load_image(driver, code, jit, library->program)) return result;
    *handle = publish<CUlibrary>(library);
    return *handle == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  });
}

CUresult cuLibraryUnload(CUlibrary handle) {
  return driver_call([&](Driver& driver) {
    const auto library = retire<Library>(handle);
    if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    std::lock_guard lock(library->mutex);
    for (const auto& [index, kernel] : library->kernels) retire<LibraryKernel>(kernel);
    for (const auto& [owner, module_handle] : library->modules) {
      const auto context =
          std::static_pointer_cast<Context>(handles().find(owner, ObjectKind::context));
      if (context != nullptr) driver.engine.wait(*context);
      const auto module = retire<Module>(module_handle);
      if (module == nullptr) continue;
      for (const auto& [index, function] : module->functions) retire<Function>(function);
      if (context == nullptr) continue;
      std::lock_guard context_lock(context->mutex);
      context->modules.erase(module->handle);
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryGetKernel(CUkernel* handle, CUlibrary library_handle, const char* name) {
  return driver_call([&](Driver&) {
    if (handle == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto library = resolve<Library>(library_handle);
    if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const int index = find_kernel(*library->program, name);
    if (index < 0) return CUDA_ERROR_NOT_FOUND;
    std::lock_guard lock(library->mutex);
    CUkernel& known = library->kernels[static_cast<std::uint32_t>(index)];
    if (known == nullptr) {
      auto kernel = std::make_shared<LibraryKernel>();
      kernel->library = library;
      kernel->index = static_cast<std::uint32_t>(index);
      kernel->about = &library->program->kernels()[index];
      kernel->program = library->program;
      known = publish<CUkernel>(kernel);
    }
    *handle = known;
    return known == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  });
}

CUresult cuLibraryGetModule(CUmodule* handle, CUlibrary library_handle) {
  return context_call([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto library = resolve<Library>(library_handle);
    if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const auto module = module_of(driver, context, *library);
    if (module == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    *handle = reinterpret_cast<CUmodule>(module->handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryGetGlobal(CUdeviceptr* address, std::size_t* bytes, CUlibrary library,
                            const char* name) {
  CUmodule module = nullptr;
  if (const CUresult result = cuLibraryGetModule(&module, library)) return result;
  return cuModuleGetGlobal_v2(address, bytes, module, name);
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel handle) {
  return context_call([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto kernel = resolve<LibraryKernel>(handle);
    const auto library = kernel == nullptr ? nullptr : kernel->library.lock();
    if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const auto module = module_of(driver, context, *library);
    if (module == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    *function = library_function(*kernel, module);
    return *function == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  });
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel handle,
                              CUdevice device) {
  return driver_call([&](Driver& driver) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto kernel = resolve<LibraryKernel>(handle);
    if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (driver.device(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    std::lock_guard lock(kernel->mutex);
    for (auto setting = kernel->settings.rbegin(); setting != kernel->settings.rend(); ++setting) {
      if (setting->attribute != attribute || setting->device != device) continue;
      *value = setting->value;
      return CUDA_SUCCESS;
    }
    return get_function_attribute(driver, *kernel->about, nullptr, attribute, *value);
  });
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle,
                              CUdevice device) {
  return driver_call([&](Driver& driver) {
    const auto kernel = resolve<LibraryKernel>(handle);
    if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (driver.device(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    Function trial;
    trial.about = kernel->about;
    if (const CUresult result = set_function_attribute(trial, attribute, value)) return result;
    {
      std::lock_guard lock(kernel->mutex);
      std::erase_if(kernel->settings, [&](const LibraryKernel::Setting& each) {
        return each.attribute == attribute && each.device == device;
      });
      kernel->settings.push_back({attribute, value, device});
    }
    // Functions that exist follow.
    const auto library = kernel->library.lock();
    if (library == nullptr) return CUDA_SUCCESS;
    std::lock_guard lock(library->mutex);
    for (const auto& [owner, module_handle] : library->modules)
      if (const auto module = resolve<Module>(module_handle))
        if (module->device == static_cast<std::uint32_t>(device)) library_function(*kernel, module);
    return CUDA_SUCCESS;
  });
}
