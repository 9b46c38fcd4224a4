#include "kiln/driver/cuda/module.h"

#include <array>

#include "kiln/driver/cuda/completion.h"
#include "kiln/driver/cuda/device.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::driver::cuda {
namespace {

bool is_image(const std::string& text) {
  const auto starts = [&](std::string_view with) { return text.starts_with(with); };
  // An ELF image or a fat binary.
  return starts(
             "\x7f"
             "ELF") ||
         starts("\x50\xed\x55\xba");
}

/// The names behind `.entry`.
std::vector<std::string> entries_of(const std::string& ptx) {
  constexpr std::string_view kEntry = ".entry";
  constexpr std::string_view kSpace = " \t\r\n";
  std::vector<std::string> names;
  for (std::size_t at = ptx.find(kEntry); at != std::string::npos; at = ptx.find(kEntry, at)) {
    at = ptx.find_first_not_of(kSpace, at + kEntry.size());
    if (at == std::string::npos) break;
    const std::size_t end = ptx.find_first_of(" \t\r\n(", at);
    names.push_back(ptx.substr(at, end - at));
  }
  return names;
}

}  // namespace

std::shared_ptr<const Module> Module::load(CudaDevice& device, const std::string& image) {
  const bool binary = is_image(image);
  if (!binary && image.find(".version") == std::string::npos &&
      image.find("/*0000*/") != std::string::npos)
    throw ValueError(
        "The text is a listing of SASS, which cannot be assembled; give PTX text or a binary "
        "image.");
  std::array<char, 8192> log{};
  int options[] = {kLoadErrorLog, kLoadErrorLogBytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  NativeModule module = nullptr;
  const ContextScope scope(device.context());
  const Result result = library().module_load(&module, image.c_str(), 2, options, values);
  if (result != kSuccess) {
    log.back() = '\0';
    const std::vector<std::string> names = binary ? std::vector<std::string>() : entries_of(image);
    throw RuntimeError(format("The driver cannot load the {}: {}.{}{}{}{}",
                              binary ? "image" : "PTX text", describe(result),
                              log[0] != '\0' ? "\n" : "", log.data(),
                              names.empty() ? "" : "\nIt defines: ", join(names, ", ")));
  }
  std::shared_ptr<Module> loaded(new Module(device, module));
  if (!binary) loaded->kernel_names_ = entries_of(image);
  return loaded;
}

Module::~Module() {
  after_present_work([&device = device_, module = module_] {
    if (library().context_push(device.context()) != kSuccess) return;
    library().module_unload(module);
    Context ignored = nullptr;
    library().context_pop(&ignored);
  });
}

NativeFunction Module::find_function(const std::string& name) const {
  const ContextScope scope(device_.context());
  NativeFunction function = nullptr;
  const Result result = library().module_function(&function, module_, name.c_str());
  if (result == kNotFound) return nullptr;
  check(result, "cuModuleGetFunction", device_.id());
  return function;
}

std::optional<std::pair<DevicePointer, std::size_t>> Module::find_variable(
    const std::string& name) const {
  const ContextScope scope(device_.context());
  DevicePointer address = 0;
  std::size_t bytes = 0;
  const Result result = library().module_global(&address, &bytes, module_, name.c_str());
  if (result == kNotFound) return std::nullopt;
  check(result, "cuModuleGetGlobal", device_.id());
  return std::pair(address, bytes);
}

std::optional<std::vector<std::size_t>> parameter_sizes(const CudaDevice& device,
                                                        NativeFunction function) {
  if (library().function_parameter == nullptr) return std::nullopt;
  const ContextScope scope(device.context());
  std::vector<std::size_t> sizes;
  std::size_t offset = 0, size = 0;
  while (library().function_parameter(function, sizes.size(), &offset, &size) == kSuccess)
    sizes.push_back(size);
  return sizes;
}

}  // namespace kiln::driver::cuda
