#pragma once

#include <memory>
#include <string>

#include "kiln/gpu/function.h"

namespace kiln::gpu::detail {

/// A kernel's source and what its diagnostics call it.
struct KernelText {
  std::string name;
  std::string source;
  std::string file = "kernel.cu";
};

/// Compiles a kernel for `device`, or takes the result of an earlier process from the cache folder,
/// and loads it. Errors: section 6 of the specification.
std::shared_ptr<const Function> compile_kernel(const driver::Device& device, const KernelText& text,
                                               const CompileOptions& options);

/// Takes a kernel out of PTX text or a binary image.
std::shared_ptr<const Function> load_kernel(const driver::Device& device,
                                            const LoadOptions& options);

/// Compares a kernel's parameters with a requested signature, both in the compiler's spelling.
/// Different: TypeError.
void check_signature(const Function& function, const std::string& result_and_parameters);

/// The targets that the environment asks for in place of those of the options. A value that cannot
/// be read: ValueError.
DumpOptions with_environment(DumpOptions targets);

}  // namespace kiln::gpu::detail
