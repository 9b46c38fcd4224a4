#include "compiler/kernel_source/kernel_source.h"

#include <llvm/Demangle/Demangle.h>
#include <llvm/Object/ELFObjectFile.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>

#include "compiler/kernel_library.h"
#include "compiler/kernel_source/arguments.h"
#include "compiler/kernel_source/file_system.h"
#include "compiler/kernel_source/frontend.h"
#include "compiler/link.h"
#include "compiler/target.h"
#include "kiln/runtime/kernel_abi.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {
namespace {

using namespace kernel_source;

// The lowest version of PTX in which an architecture can be written, as LLVM knows it.
struct Architecture {
  std::string_view name;
  int ptx_version;
};
constexpr std::array<Architecture, 24> kArchitectures = {
    {{"sm_70", 60},  {"sm_72", 61},   {"sm_75", 63},   {"sm_80", 70},  {"sm_86", 71},
     {"sm_87", 74},  {"sm_88", 90},   {"sm_89", 78},   {"sm_90", 78},  {"sm_90a", 80},
     {"sm_100", 86}, {"sm_100a", 86}, {"sm_100f", 88}, {"sm_101", 86}, {"sm_101a", 86},
     {"sm_103", 88}, {"sm_103a", 88}, {"sm_103f", 88}, {"sm_110", 90}, {"sm_110a", 90},
     {"sm_120", 87}, {"sm_120a", 87}, {"sm_121", 88},  {"sm_121a", 88}}};
// The versions that LLVM knows, from the lowest of the table above.
constexpr std::array kPtxVersions = {60, 61, 62, 63, 64, 65, 70, 71, 72, 73, 74, 75, 76,
                                     77, 78, 80, 81, 82, 83, 84, 85, 86, 87, 88, 90};

std::string target_name(const runtime::KernelSource& source) {
  return source.architecture.empty() ? "cpu" : source.architecture;
}

[[noreturn]] void throw_failed(const runtime::KernelSource& source, std::string_view diagnostics) {
  while (diagnostics.ends_with('\n')) diagnostics.remove_suffix(1);
  throw RuntimeError(format("compile_function: '{}' failed to compile for {}\n{}", source.name,
                            target_name(source), diagnostics));
}

// The kernel that the source's name means.
const Declaration& choose(const runtime::KernelSource& source,
                          const std::vector<Declaration>& kernels) {
  const auto list = [](const auto& all, const auto& name_of) {
    std::string names;
    for (const auto& one : all) names += (names.empty() ? "" : ", ") + name_of(one);
    return names;
  };
  const std::vector<const Declaration*> named = find_named(kernels, source.name);
  if (named.empty())
    throw RuntimeError(format("kernel '{}' not found; the source defines: {}", source.name,
                              kernels.empty()
                                  ? "no kernel"
                                  : list(kernels, [](const Declaration& k) { return k.name; })));
  if (named.size() > 1)
    throw RuntimeError(
        format("kernel '{}' is not unique; the source defines: {}", source.name,
               list(named, [](const Declaration* k) { return llvm::demangle(k->symbol); })));
  return *named.front();
}

void append(std::vector<std::string>& to, std::initializer_list<const char*> words) {
  to.insert(to.end(), words.begin(), words.end());
}

FrontendInput common_input(const runtime::KernelSource& source, const Arguments& options) {
  FrontendInput input;
  input.source = &source;
  input.text = source.text;
  input.folders = options.folders;
  input.language = {"-std=c++20",        "-O3",
                    "-fdeclspec",        "-fno-threadsafe-statics",
                    "-nobuiltininc",     "-nostdsysteminc",
                    "-internal-isystem", kHeaderFolder,
                    "-ferror-limit",     "20"};
  input.arguments = {"-vectorize-loops", "-vectorize-slp", "-Werror=null-character"};
  return input;
}

void finish_arguments(FrontendInput& input, const Arguments& options) {
  input.language.insert(input.language.end(), options.language.begin(), options.language.end());
  input.arguments.insert(input.arguments.end(), options.frontend.begin(), options.frontend.end());
}

runtime::CompiledKernel compile_for_device(const runtime::KernelSource& source,
                                           const Arguments& options) {
  const auto* architecture =
      std::find_if(kArchitectures.begin(), kArchitectures.end(),
                   [&](const Architecture& a) { return a.name == source.architecture; });
  if (architecture == kArchitectures.end())
    throw_failed(source, format("error: unknown architecture '{}'", source.architecture));
  const int newest = source.max_ptx_version == 0 ? kPtxVersions.back() : source.max_ptx_version;
  if (newest < architecture->ptx_version)
    throw_failed(source, format("error: {} needs PTX {}.{}, and the driver reads up to {}.{}",
                                source.architecture, architecture->ptx_version / 10,
                                architecture->ptx_version % 10, newest / 10, newest % 10));
  // LLVM does not read instructions in the text, so they may be of any version.
  const bool has_assembly = source.text.find("asm") != std::string::npos;
  FrontendResult result;
  for (const int version : kPtxVersions) {
    if (version < architecture->ptx_version || version > newest) continue;
    const auto next = std::find_if(kPtxVersions.begin(), kPtxVersions.end(),
                                   [&](int other) { return other > version; });
    const bool last = next == kPtxVersions.end() || *next > newest;
    if (has_assembly && !last) continue;
    FrontendInput input = common_input(source, options);
    input.output = FrontendInput::Output::assembly;
    const std::string feature = format("+ptx{}", version);
    append(input.language,
           {"-triple", "nvptx64-nvidia-cuda", "-target-cpu", source.architecture.c_str(),
            "-target-feature", feature.c_str(), "-x", "cuda", "-fcuda-is-device",
            // Without the honour, the backend also fuses what libclc keeps apart.
            "-ffp-contract=fast-honor-pragmas"});
    // The form of line tables that PTX knows.
    append(input.arguments,
           {"-mlink-builtin-bitcode", kMathFile, "-dwarf-version=2", "-fno-dwarf-directory-asm"});
    finish_arguments(input, options);
    result = run_frontend(input);
    if (result.succeeded || last ||
        (result.diagnostics.find("ptx") == std::string::npos &&
         result.diagnostics.find("PTX") == std::string::npos))
      break;
  }
  if (!result.succeeded) throw_failed(source, result.diagnostics);
  const Declaration& kernel = choose(source, result.kernels);
  runtime::CompiledKernel compiled;
  compiled.symbol = kernel.symbol;
  compiled.parameters = kernel.parameters;
  compiled.ptx.assign(result.output.begin(), result.output.end());
  compiled.llvm_ir = std::move(result.llvm_ir);
  return compiled;
}

// What replaces a word that only GPUs know.
std::string hint_of(const std::string& word) {
  if (word == "__shared__") return "; use shared<T, N>()";
  return "";
}

void check_host(const runtime::KernelSource& source, const FrontendResult& result) {
  if (result.succeeded) {
    for (const Declaration& kernel : result.kernels)
      if (kernel.returns_value)
        throw_failed(source, format("error: kernel '{}' must have void return type", kernel.name));
    return;
  }
  for (const std::string& word : result.gpu_words) {
    // A source may give one of these names a meaning of its own: then nothing is said about it.
    const std::string quoted = "'" + word + "'";
    const bool is_meant = result.diagnostics.find(quoted) != std::string::npos ||
                          (word == "asm" && result.diagnostics.find("asm") != std::string::npos);
    if (is_meant)
      throw NotImplementedError(format("kernel '{}' uses {}, which has no form on cpu{}",
                                       source.name, word, hint_of(word)));
  }
  throw_failed(source, result.diagnostics);
}

template <typename T>
T take(llvm::Expected<T> value) {
  if (value) return std::move(*value);
  throw InternalError("A compiled kernel cannot be read back: " +
                      llvm::toString(value.takeError()) + ". This is a defect of kiln.");
}

// The rules of link_image, in words of the source.
void check_object(const runtime::KernelSource& source, llvm::StringRef object) {
  const auto elf = take(llvm::object::ELF64LEFile::create(object));
  const auto sections = take(elf.sections());
  for (const auto& section : sections) {
    if (section.sh_type != llvm::ELF::SHT_SYMTAB) continue;
    const llvm::StringRef names = take(elf.getStringTableForSymtab(section));
    for (const auto& symbol : take(elf.symbols(&section))) {
      if (symbol.st_shndx != llvm::ELF::SHN_UNDEF || symbol.st_name == 0) continue;
      const llvm::StringRef name = take(symbol.getName(names));
      if (!may_call(name) && name != "_GLOBAL_OFFSET_TABLE_")
        throw_failed(source,
                     format("error: the kernel calls '{}', which the source does not define",
                            llvm::demangle(name)));
    }
  }
  for (const auto& section : sections)
    if ((section.sh_flags & llvm::ELF::SHF_ALLOC) && (section.sh_flags & llvm::ELF::SHF_WRITE) &&
        section.sh_size > 0 && !take(elf.getSectionName(section)).starts_with(".data.rel.ro"))
      throw NotImplementedError(
          format("kernel '{}' uses a variable that outlives its threads, which has no form on cpu; "
                 "pass a buffer",
                 source.name));
}

bool is_qualified_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == ':';
  });
}

// The function that runs the threads of a kernel.
std::string host_entry_text(const std::string& kernel) {
  return format(
      "\n\nextern \"C\" __attribute__((visibility(\"default\"))) void {}("
      "::kiln::gpu::__kiln_block* block, const void* const* arguments, unsigned begin, "
      "unsigned end) {{ ::kiln::gpu::__kiln_entry<&::{}, decltype(&::{})>::start(block, arguments, "
      "begin, end); }}\n",
      runtime::kKernelRunName, kernel, kernel);
}

runtime::CompiledKernel compile_for_host(const runtime::KernelSource& source,
                                         const Arguments& options) {
  const Isa isa = resolve_isa("");
  FrontendInput input = common_input(source, options);
  input.host = true;
  append(input.language,
         {"-triple", isa.triple.c_str(), "-target-cpu", isa.cpu.c_str(), "-x", "c++",
          "-mrelocation-model", "pic", "-pic-level", "2", "-ffp-contract=fast-honor-pragmas"});
  append(input.arguments, {"-ffunction-sections", "-fdata-sections", "-funwind-tables=2"});
  std::string_view rest = isa.features;
  while (!rest.empty()) {
    const std::string_view feature = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), feature.size() + 1));
    append(input.language, {"-target-feature", std::string(feature).c_str()});
  }
  finish_arguments(input, options);

  FrontendInput whole = input;
  whole.output = FrontendInput::Output::object;
  FrontendResult result;
  // Most kernels are called as they are written, and no error is in the way.
  const auto is_done = [&] {
    if (!is_qualified_name(source.name)) return false;
    whole.text = input.text + host_entry_text(source.name);
    result = run_frontend(whole);
    const auto named = find_named(result.kernels, source.name);
    return result.succeeded && named.size() == 1 && named.front()->qualified_name == source.name;
  };
  if (!is_done()) {
    // A run that only reads the source finds the kernel, or says what is wrong.
    result = run_frontend(input);
    check_host(source, result);
    whole.text = input.text + host_entry_text(choose(source, result.kernels).qualified_name);
    result = run_frontend(whole);
  }
  check_host(source, result);
  runtime::CompiledKernel compiled;
  compiled.symbol = choose(source, result.kernels).symbol;
  compiled.parameters = choose(source, result.kernels).parameters;
  if (!result.host_entry.recursive.empty())
    throw NotImplementedError(format(
        "kernel '{}' uses the index of a thread, a barrier or shared memory in a function that "
        "calls itself or is called by its address, which has no form on cpu",
        source.name));
  compiled.may_wait = result.host_entry.may_wait;
  compiled.llvm_ir = std::move(result.llvm_ir);
  if (source.keep_assembly) {
    whole.output = FrontendInput::Output::assembly;
    const FrontendResult listing = run_frontend(whole);
    compiled.assembly.assign(listing.output.begin(), listing.output.end());
  }
  const auto* begin = reinterpret_cast<const std::byte*>(result.output.data());
  check_object(source, {result.output.data(), result.output.size()});
  const std::vector<std::byte> object(begin, begin + result.output.size());
  const std::string exported = runtime::kKernelRunName;
  compiled.image = link_image(std::span(&object, 1), std::span(&exported, 1));
  return compiled;
}

}  // namespace

runtime::CompiledKernel compile_kernel(const runtime::KernelSource& source) {
  const Arguments options = read_options(source);
  return source.architecture.empty() ? compile_for_host(source, options)
                                     : compile_for_device(source, options);
}

}  // namespace kiln::compiler

extern "C" __attribute__((visibility("default"))) const kiln::compiler::KernelLibrary*
kiln_kernel_compiler_entry() {
  static const kiln::compiler::KernelLibrary library = {&kiln::compiler::compile_kernel};
  return &library;
}
