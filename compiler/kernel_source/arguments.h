#pragma once

#include <string>
#include <vector>

#include "kiln/runtime/compiler_interface.h"

namespace kiln::compiler::kernel_source {

/// What the options of a source ask for.
struct Arguments {
  /// For Clang's `cc1`: what changes the language, and what concerns the source alone.
  std::vector<std::string> language, frontend;
  /// Absolute folders in which an #include may look.
  std::vector<std::string> folders;
};

/// Reads `compile_options` and `link_options`: those of Clang and of nvcc that mean something here.
/// Any other: RuntimeError that names it.
Arguments read_options(const runtime::KernelSource& source);

}  // namespace kiln::compiler::kernel_source
