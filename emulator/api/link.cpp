#include <cstring>
#include <string>
#include <vector>

#include "emulator/api/load.h"
#include "emulator/memory/guarded_copy.h"

namespace kiln::emulator {
namespace {

/// Texts to link, and the image that came out: PTX again, since there is no machine code.
struct Linker : Object {
  static constexpr ObjectKind kKind = ObjectKind::linker;
  Linker() : Object(kKind) {}

  std::mutex mutex;
  JitOptions options;
  std::vector<std::string> texts;
  std::string image;
};

}  // namespace
}  // namespace kiln::emulator

using namespace kiln::emulator;

CUresult cuLinkCreate_v2(unsigned count, CUjit_option* options, void** values, CUlinkState* state) {
  return context_call([&](Driver&, const std::shared_ptr<Context>&) {
    if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto linker = std::make_shared<Linker>();
    if (const CUresult result = linker->options.read(count, options, values)) return result;
    *state = publish<CUlinkState>(linker);
    return *state == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  });
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, std::size_t bytes,
                          const char*, unsigned count, CUjit_option* options, void** values) {
  return context_call([&](Driver& driver, const std::shared_ptr<Context>&) {
    const auto linker = resolve<Linker>(state);
    if (linker == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    JitOptions own;
    if (const CUresult result = own.read(count, options, values)) return result;
    if (type < CU_JIT_INPUT_CUBIN || type > CU_JIT_INPUT_NVVM || data == nullptr || bytes == 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_JIT_INPUT_PTX) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    std::string text(bytes, '\0');
    if (!guarded_copy(text.data(), data, bytes)) return CUDA_ERROR_INVALID_VALUE;
    text.resize(std::strlen(text.c_str()));
    // Faults of a text belong to the call that brings it.
    std::shared_ptr<const Program> program;
    std::lock_guard lock(linker->mutex);
    if (const CUresult result = load_text(driver, text, linker->options, program)) return result;
    linker->texts.push_back(std::move(text));
    return CUDA_SUCCESS;
  });
}

CUresult cuLinkComplete(CUlinkState state, void** image, std::size_t* bytes) {
  return context_call([&](Driver&, const std::shared_ptr<Context>&) {
    const auto linker = resolve<Linker>(state);
    if (linker == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(linker->mutex);
    if (linker->texts.empty()) return CUDA_ERROR_INVALID_VALUE;
    // Texts that refer to each other would need their symbols resolved.
    if (linker->texts.size() > 1) return CUDA_ERROR_NOT_SUPPORTED;
    linker->image = linker->texts.front();
    linker->options.write_logs({}, {});
    *image = linker->image.data();
    if (bytes != nullptr) *bytes = linker->image.size() + 1;
    return CUDA_SUCCESS;
  });
}

CUresult cuLinkDestroy(CUlinkState state) {
  return driver_call([&](Driver&) {
    return retire<Linker>(state) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
  });
}
