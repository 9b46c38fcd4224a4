#include "compiler/kernel_library.h"

#include <dlfcn.h>

#include <string>

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {
namespace {

constexpr const char* kFileName = "libkiln_kernel_compiler.so";

std::string library_path() {
  Dl_info info;
  if (::dladdr(reinterpret_cast<const void*>(&kernel_library), &info) != 0 &&
      info.dli_fname != nullptr) {
    const std::string own = info.dli_fname;
    if (const std::size_t slash = own.rfind('/'); slash != std::string::npos)
      return own.substr(0, slash + 1) + kFileName;
  }
  return kFileName;
}

const KernelLibrary& open() {
  const std::string path = library_path();
  // Not global: other packages bring their own Clang.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto entry =
      library == nullptr
          ? nullptr
          : reinterpret_cast<KernelLibraryEntry>(::dlsym(library, kKernelLibraryEntryName));
  if (entry == nullptr) {
    const char* reason = ::dlerror();
    throw RuntimeError(format(
        "The compiler of kernel sources cannot be opened: {}. It is installed with the compiler of "
        "kiln and needs the libraries of Clang 22.",
        reason != nullptr ? reason : path.c_str()));
  }
  return *entry();
}

}  // namespace

const KernelLibrary& kernel_library() {
  // A failure is not remembered: the next call tries again.
  static const KernelLibrary& opened = open();
  return opened;
}

}  // namespace kiln::compiler
