#include "emulator/api/load.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "emulator/memory/guarded_copy.h"
#include "kiln/support/format.h"

namespace kiln::emulator {
namespace {

constexpr std::size_t kLargestImage = 1ull << 30;
constexpr unsigned char kElf[] = {0x7F, 'E', 'L', 'F'};
constexpr unsigned char kFatBinary[] = {0x50, 0xED, 0x55, 0xBA};
constexpr unsigned char kFatWrapper[] = {0xB1, 0x43, 0x62, 0x46};

CUresult result_of(LoadError::Kind kind) {
  return kind == LoadError::Kind::version ? CUDA_ERROR_UNSUPPORTED_PTX_VERSION
                                          : CUDA_ERROR_INVALID_PTX;
}

bool begins_with(const unsigned char (&bytes)[4], const unsigned char (&mark)[4]) {
  return std::memcmp(bytes, mark, sizeof mark) == 0;
}

CUresult refuse(const JitOptions& options, CUresult result, const std::string& text) {
  options.write_logs({}, text);
  std::fprintf(stderr, "kiln emulator: %s\n", text.c_str());
  return result;
}

// Gives the variables memory and their first values.
bool place_variables(Driver& driver, Module& module) {
  const auto variables = module.program->variables();
  module.variables.assign(variables.size(), 0);
  for (std::size_t i = 0; i < variables.size(); ++i) {
    Memory::Request request;
    request.device = module.device;
    request.call = "variable of a module";
    const auto address =
        driver.memory.allocate(std::max<std::uint64_t>(variables[i].bytes, 1), request);
    if (!address) return false;
    module.variables[i] = *address;
  }
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const Variable& variable = variables[i];
    std::vector<std::byte> bytes = variable.initial;
    bytes.resize(variable.bytes);
    for (const Variable::Relocation& relocation : variable.relocations) {
      const std::uint64_t value =
          module.variables[relocation.variable] + static_cast<std::uint64_t>(relocation.addend);
      std::memcpy(bytes.data() + relocation.offset, &value, sizeof value);
    }
    const std::uint64_t address = module.variables[i];
    std::byte* memory = driver.memory.reach(address, bytes.size(), module.device, true);
    if (!bytes.empty()) std::memcpy(memory, bytes.data(), bytes.size());
    driver.memory.mark_written(address, bytes.size());
  }
  return true;
}

}  // namespace

CUresult load_text(Driver& driver, std::string_view text, const JitOptions& options,
                   std::shared_ptr<const Program>& program) {
  LoadOptions load;
  load.architecture = driver.settings.architecture;
  load.check_memory = driver.settings.check_memory;
  load.check_init = driver.settings.check_init;
  try {
    program = Program::load(text, load);
  } catch (const LoadError& error) {
    return refuse(options, result_of(error.kind), error.what());
  }
  options.write_logs({}, {});
  return CUDA_SUCCESS;
}

CUresult load_image(Driver& driver, const void* image, const JitOptions& options,
                    std::shared_ptr<const Program>& program) {
  unsigned char mark[4];
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!guarded_copy(mark, image, sizeof mark))
    return refuse(options, CUDA_ERROR_INVALID_IMAGE, "The image of a module cannot be read.");
  if (begins_with(mark, kElf) || begins_with(mark, kFatBinary) || begins_with(mark, kFatWrapper))
    return refuse(options, CUDA_ERROR_NO_BINARY_FOR_GPU,
                  "The image of a module is machine code or a bundle of such; emulated devices run "
                  "texts of PTX. Compile with -ptx (nvcc) or -S --cuda-device-only (clang).");
  const auto* text = static_cast<const char*>(image);
  const std::ptrdiff_t length = guarded_length(text, kLargestImage);
  if (length < 0)
    return refuse(options, CUDA_ERROR_INVALID_IMAGE,
                  "The image of a module is no text: no zero byte ends it.");
  return load_text(driver, {text, static_cast<std::size_t>(length)}, options, program);
}

std::shared_ptr<Module> make_module(Driver& driver, const std::shared_ptr<Context>& context,
                                    std::shared_ptr<const Program> program) {
  auto module = std::make_shared<Module>();
  module->program = std::move(program);
  module->context = context->handle;
  module->device = context->device;
  if (!place_variables(driver, *module) || publish<CUmodule>(module) == nullptr) return nullptr;
  std::lock_guard lock(context->mutex);
  context->modules.insert(module->handle);
  return module;
}

int find_kernel(const Program& program, const char* name) {
  const auto kernels = program.kernels();
  for (std::size_t i = 0; i < kernels.size(); ++i)
    if (kernels[i].name == name) return static_cast<int>(i);
  return -1;
}

CUfunction function_of(const std::shared_ptr<Module>& module, std::uint32_t kernel) {
  std::lock_guard lock(module->mutex);
  CUfunction& handle = module->functions[kernel];
  if (handle == nullptr) {
    auto function = std::make_shared<Function>();
    function->module = module;
    function->index = kernel;
    function->about = &module->program->kernels()[kernel];
    function->max_dynamic_shared =
        std::max(0, static_cast<int>(kSharedPerBlock) -
                        static_cast<int>(function->about->static_shared_bytes));
    handle = publish<CUfunction>(function);
  }
  return handle;
}

std::shared_ptr<Module> module_of(Driver& driver, const std::shared_ptr<Context>& context,
                                  Library& library) {
  std::lock_guard lock(library.mutex);
  CUmodule& handle = library.modules[context->handle];
  if (handle != nullptr) {
    if (auto module = resolve<Module>(handle)) return module;
  }
  auto module = make_module(driver, context, library.program);
  handle = module == nullptr ? nullptr : reinterpret_cast<CUmodule>(module->handle);
  return module;
}

}  // namespace kiln::emulator
