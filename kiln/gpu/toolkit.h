#pragma once

#include <string>

namespace kiln::gpu::detail {

// What only programs of the CUDA toolkit can tell.

/// A listing of the machine code that PTX text becomes. No toolkit: RuntimeError.
std::string sass_of(const std::string& ptx, const std::string& architecture);
/// Prints registers, spills and shared memory as `ptxas -v` tells them. No toolkit: RuntimeError.
void print_ptxas_info(const std::string& ptx, const std::string& architecture);

}  // namespace kiln::gpu::detail
