#pragma once

#include <string>

#include "kiln/gpu/kernel.h"

namespace kiln::gpu::detail {

/// A kernel's body as text for the compiler, and the line on which it begins.
struct SourceBody {
  std::string text;
  int line = 1;
};

/// The preprocessor hands a body over as one line. Where the source file can be read and has the
/// same tokens behind the macro, its text is taken with its lines; else the one line counts as the
/// macro's.
SourceBody body_with_lines(const KernelDefinition& definition);

}  // namespace kiln::gpu::detail
