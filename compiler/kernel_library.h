#pragma once

#include "kiln/runtime/compiler_interface.h"

namespace kiln::compiler {

/// What libkiln_kernel_compiler offers.
struct KernelLibrary {
  runtime::CompiledKernel (*compile_kernel)(const runtime::KernelSource& source) = nullptr;
};

/// The one symbol that it exports is a function of this type.
using KernelLibraryEntry = const KernelLibrary* (*)();
inline constexpr const char* kKernelLibraryEntryName = "kiln_kernel_compiler_entry";

/// The library that compiles kernel sources, opened on first use: it stands beside this one. When
/// it cannot be opened: RuntimeError that says why.
const KernelLibrary& kernel_library();

}  // namespace kiln::compiler
