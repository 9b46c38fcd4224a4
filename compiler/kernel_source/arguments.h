#pragma once

#include <string>
#include <vector>

#include "kiln/runtime/compiler_interface.h"

namespace kiln::compiler::kernel_source {

/// What the options of a source ask for.
struct Arguments {
  /// For clang's `cc1`.
  std::vector<std::string> frontend;
  /// Absolute folders in which an #include may look.
  std::vector<std::string> folders;
};

/// Reads `compile_options` and `link_options`: those of Clang and of nvcc that mean something here.
/// Any other: RuntimeError that names it.
Arguments read_options(const runtime::KernelSource& source);

}  // namespace kiln::compiler::kernel_source
