#include "kiln/runtime/compiler_library.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdlib>

#include "kiln/support/background.h"
#include "kiln/support/format.h"

namespace kiln::runtime {
namespace {

constexpr const char* kFileName = "libkiln_compiler.so";

std::string library_path() {
  if (const char* path = std::getenv("KILN_COMPILER_LIBRARY"); path != nullptr && *path != '\0')
    return path;
  Dl_info info;
  if (::dladdr(reinterpret_cast<const void*>(&compiler_identity), &info) != 0 &&
      info.dli_fname != nullptr) {
    const std::string own = info.dli_fname;
    if (const std::size_t slash = own.rfind('/'); slash != std::string::npos)
      return own.substr(0, slash + 1) + kFileName;
  }
  return kFileName;
}

Compiler& open() {
  const std::string path = library_path();
  // Not global: other packages bring their own LLVM.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    throw RuntimeError(
        format("The compiler of kiln cannot be opened: {}. Graphs can only be compiled where it is "
               "installed; a MEF that was compiled elsewhere runs without it.",
               reason != nullptr ? reason : path.c_str()));
  }
  const auto entry = reinterpret_cast<CompilerEntry>(::dlsym(library, kCompilerEntryName));
  Compiler* compiler = entry != nullptr ? entry(kCompilerInterfaceVersion) : nullptr;
  if (compiler == nullptr)
    throw RuntimeError(
        format("'{}' is not the compiler of this kiln: it does not speak version {} of "
               "the compiler interface. Install both from one build.",
               path, kCompilerInterfaceVersion));
  // The statics of LLVM go before what was registered before it was loaded.
  end_background_at_exit();
  return *compiler;
}

}  // namespace

Compiler& compiler() {
  // A failure is not remembered: the next call tries again.
  static Compiler& opened = open();
  return opened;
}

namespace {

std::string identity_of(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return path;
  return format("{}:{}:{}.{:09}", path, status.st_size, status.st_mtim.tv_sec,
                status.st_mtim.tv_nsec);
}

}  // namespace

std::string compiler_identity() { return identity_of(library_path()); }

std::string kernel_compiler_identity() {
  const std::string path = library_path();
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  return compiler_identity() + "\n" + identity_of(folder + "libkiln_kernel_compiler.so");
}

}  // namespace kiln::runtime
