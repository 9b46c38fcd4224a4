#include "kiln/gpu/kernel_compiler.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "kiln/driver/cuda/device.h"
#include "kiln/driver/cuda/module.h"
#include "kiln/gpu/cpu_grid.h"
#include "kiln/gpu/device_info.h"
#include "kiln/gpu/kernel_cache.h"
#include "kiln/gpu/toolkit.h"
#include "kiln/runtime/compiler_library.h"
#include "kiln/runtime/image.h"
#include "kiln/support/environment.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::gpu::detail {
namespace {

namespace cuda = driver::cuda;

/// PTX versions by the CUDA version that brought them, highest first; CUDA's release notes.
int ptx_version_of_driver(int cuda_version) {
  struct Row {
    int cuda, ptx;
  };
  constexpr Row kRows[] = {{13000, 90}, {12090, 88}, {12080, 87}, {12070, 86}, {12050, 85},
                           {12040, 84}, {12030, 83}, {12020, 82}, {12010, 81}, {12000, 80}};
  for (const Row& row : kRows)
    if (cuda_version >= row.cuda) return row.ptx;
  return 78;
}

int driver_version() {
  int version = 0;
  cuda::library().driver_version(&version);
  return version;
}

/// PTX without the lines that mark inline assembly.
std::string without_marks(const std::string& ptx) {
  std::string result;
  for (std::size_t at = 0; at < ptx.size();) {
    std::size_t end = ptx.find('\n', at);
    end = end == std::string::npos ? ptx.size() : end + 1;
    const std::string_view line(ptx.data() + at, end - at);
    if (line.find("// begin inline asm") == std::string_view::npos &&
        line.find("// end inline asm") == std::string_view::npos)
      result += line;
    at = end;
  }
  return result;
}

/// What the kernel says about itself, and the module it lies in.
void attach(Function& function, std::shared_ptr<const cuda::Module> module,
            cuda::NativeFunction native) {
  function.native = native;
  function.code = std::move(module);
  function.max_threads = attribute_of(function, Attribute::MAX_THREADS_PER_BLOCK);
  function.static_shared_bytes = attribute_of(function, Attribute::SHARED_SIZE_BYTES);
  function.shared_limit =
      std::max(0, device_attribute(function.device, DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK) -
                      function.static_shared_bytes);
  function.largest_shared_limit = std::max(
      0, device_attribute(function.device, DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) -
             function.static_shared_bytes);
}

void load_on_device(Function& function, const runtime::CompiledKernel& compiled) {
  auto* device = dynamic_cast<cuda::CudaDevice*>(function.device.backend());
  if (device == nullptr) return;  // virtual: there is nothing to load it
  std::shared_ptr<const cuda::Module> module;
  try {
    module = cuda::Module::load(*device, compiled.ptx);
  } catch (RuntimeError& error) {
    error.set_message(format("compile_function: '{}': {}", function.name, error.message()));
    throw;
  }
  const cuda::NativeFunction native = module->find_function(compiled.symbol);
  if (native == nullptr)
    throw RuntimeError(
        format("compile_function: the driver does not find the kernel '{}' in what "
               "was compiled.",
               function.name));
  attach(function, std::move(module), native);
}

void load_on_host(Function& function, const runtime::CompiledKernel& compiled) {
  const auto image = runtime::Image::load(compiled.image, function.name);
  function.run = reinterpret_cast<runtime::KernelRun>(image->symbol(runtime::kKernelRunName));
  if (function.run == nullptr)
    throw RuntimeError(format("The image of the kernel '{}' lacks the symbol {}.", function.name,
                              runtime::kKernelRunName));
  function.may_wait = compiled.may_wait;
  function.code = image;
  function.shared_limit = static_cast<int>(kSharedLimit);
  function.largest_shared_limit = static_cast<int>(kSharedLimit);
}

runtime::CompiledKernel compile_or_find(const runtime::KernelSource& source) {
  const std::string key = kernel_cache_key(source);
  if (std::optional<runtime::CompiledKernel> cached = find_cached_kernel(key)) return *cached;
  runtime::CompiledKernel compiled = runtime::compiler().compile_kernel(source);
  store_cached_kernel(key, compiled);
  return compiled;
}

DumpTarget target_of_environment(const char* name, const DumpTarget& fallback) {
  const std::optional<std::string> value = environment(name);
  if (!value) return fallback;
  if (const std::optional<bool> on = parse_bool(*value)) return *on;
  if (value->starts_with("/") || value->starts_with("./")) return *value;
  if (value->starts_with("~")) return environment("HOME").value_or("") + value->substr(1);
  throw ValueError(
      format("{} is '{}'; it takes a boolean, or a path that starts with '/', '~' or "
             "'./'.",
             name, *value));
}

}  // namespace

DumpOptions with_environment(DumpOptions targets) {
  targets.dump_asm = target_of_environment("KILN_DUMP_GPU_ASM", targets.dump_asm);
  targets.dump_llvm = target_of_environment("KILN_DUMP_GPU_LLVM", targets.dump_llvm);
  targets.dump_sass = target_of_environment("KILN_DUMP_GPU_SASS", targets.dump_sass);
  return targets;
}

void dump(const Function& function, const DumpOptions& targets) {
  const bool host = function.device.is_host();
  if (function.built_in) {
    for (const auto& [target, name] :
         {std::pair(&targets.dump_asm, "dump_asm"), std::pair(&targets.dump_llvm, "dump_llvm"),
          std::pair(&targets.dump_sass, "dump_sass")})
      if (*target)
        throw NotImplementedError(format("{}: the kernel was compiled by the host compiler", name));
    return;
  }
  if (host && targets.dump_sass)
    throw NotImplementedError("dump_sass: a kernel on a cpu context has no SASS");
  if (targets.dump_asm || targets.dump_llvm) {
    const Function* shown = &function;
    std::shared_ptr<const runtime::CompiledKernel> again;
    std::string assembly = shown->assembly, ir = shown->llvm_ir;
    if ((targets.dump_llvm && ir.empty()) || (targets.dump_asm && assembly.empty())) {
      if (!function.source)
        throw NotImplementedError(
            format("dump_rep: '{}' was loaded; there is no source of it to "
                   "compile again.",
                   function.name));
      runtime::KernelSource source = *function.source;
      source.keep_llvm_ir = true;
      source.keep_assembly = true;
      const runtime::CompiledKernel compiled = compile_or_find(source);
      assembly = host ? compiled.assembly : compiled.ptx;
      ir = compiled.llvm_ir;
    }
    targets.dump_asm.write(host ? assembly : without_marks(assembly), function.name);
    targets.dump_llvm.write(ir, function.name);
  }
  if (targets.dump_sass)
    targets.dump_sass.write(sass_of(function.assembly, function.device.architecture_name()),
                            function.name);
}

std::shared_ptr<const Function> compile_kernel(const driver::Device& device, const KernelText& text,
                                               const CompileOptions& options) {
  const DumpOptions targets = with_environment({.dump_asm = options.dump_asm,
                                                .dump_llvm = options.dump_llvm,
                                                .dump_sass = options.dump_sass});
  const bool host = device.is_host();
  if (host && targets.dump_sass)
    throw NotImplementedError("dump_sass: a kernel on a cpu context has no SASS");
  if (host && options.ptxas_info_verbose)
    throw NotImplementedError("ptxas_info_verbose: a kernel on a cpu context has no SASS");
  auto source = std::make_shared<runtime::KernelSource>();
  source->name = text.name;
  source->text = text.source;
  source->file = text.file;
  source->compile_options = options.compile_options;
  source->link_options = options.link_options;
  source->keep_llvm_ir = static_cast<bool>(targets.dump_llvm);
  source->keep_assembly = host && static_cast<bool>(targets.dump_asm);
  if (!host) {
    source->architecture = device.architecture_name();
    if (dynamic_cast<cuda::CudaDevice*>(device.backend()) != nullptr)
      source->max_ptx_version = ptx_version_of_driver(driver_version());
  }
  runtime::CompiledKernel compiled = compile_or_find(*source);
  auto function = std::make_shared<Function>(device);
  function->name = text.name;
  function->parameters = compiled.parameters;
  function->types_known = true;
  function->source = source;
  function->assembly = host ? compiled.assembly : compiled.ptx;
  function->llvm_ir = compiled.llvm_ir;
  if (host)
    load_on_host(*function, compiled);
  else
    load_on_device(*function, compiled);
  if (options.func_attribute) set_attribute(*function, *options.func_attribute);
  dump(*function, targets);
  if (options.ptxas_info_verbose) print_ptxas_info(function->assembly, source->architecture);
  return function;
}

std::shared_ptr<const Function> load_kernel(const driver::Device& device,
                                            const LoadOptions& options) {
  if (device.is_host())
    throw NotImplementedError(
        format("load_function: '{}' cannot be loaded on a cpu context; PTX "
               "and SASS are code of CUDA devices.",
               options.function_name));
  auto* cuda_device = dynamic_cast<cuda::CudaDevice*>(device.backend());
  if (cuda_device == nullptr) (void)device.default_queue();  // throws the text of virtual devices
  std::shared_ptr<const cuda::Module> module;
  try {
    module = cuda::Module::load(*cuda_device, options.asm_code);
  } catch (Error& error) {
    error.set_message(format("load_function: '{}': {}", options.function_name, error.message()));
    throw;
  }
  const cuda::NativeFunction native = module->find_function(options.function_name);
  if (native == nullptr)
    throw RuntimeError(format("load_function: kernel '{}' not found{}{}", options.function_name,
                              module->kernel_names().empty() ? "" : "; the text defines: ",
                              join(module->kernel_names(), ", ")));
  auto function = std::make_shared<Function>(device);
  function->name = options.function_name;
  function->assembly = options.asm_code;
  const auto sizes = cuda::parameter_sizes(*cuda_device, native);
  if (!sizes)
    throw RuntimeError(
        format("load_function: '{}': the driver cannot tell the sizes of a kernel's "
               "parameters; CUDA 12.4 or newer can.",
               options.function_name));
  for (const std::size_t size : *sizes)
    function->parameters.push_back({.size = static_cast<std::uint32_t>(size)});
  attach(*function, std::move(module), native);
  if (options.func_attribute) set_attribute(*function, *options.func_attribute);
  return function;
}

void check_signature(const Function& function, const std::string& requested) {
  std::vector<std::string> types;
  for (const runtime::KernelParameter& p : function.parameters) {
    // Element types of kiln are named without their namespace.
    std::string type = p.type;
    constexpr std::string_view kOwn = "kiln::";
    if (const std::size_t at = type.find(kOwn); at != std::string::npos)
      type.erase(at, kOwn.size());
    types.push_back(std::move(type));
  }
  const std::string declared = format("void({})", join(types, ", "));
  if (declared != requested)
    throw TypeError(format("kernel '{}' is declared as {} but {} was requested", function.name,
                           declared, requested));
}

}  // namespace kiln::gpu::detail
