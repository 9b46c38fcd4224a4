#pragma once

#include <string>

#include "kiln/runtime/compiler_interface.h"

namespace kiln::runtime {

/// The compiler, opened on first use: the library that KILN_COMPILER_LIBRARY names, else the one
/// beside libkiln. When it cannot be opened: RuntimeError that says why, on every call.
Compiler& compiler();

/// Tells one build of the compiler from another, without opening it: path, size and time of its
/// file.
std::string compiler_identity();
/// As above, with the part that compiles kernel sources, which lies beside it.
std::string kernel_compiler_identity();

}  // namespace kiln::runtime
