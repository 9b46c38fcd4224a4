#pragma once

#include <optional>
#include <string>

#include "kiln/runtime/compiler_interface.h"

namespace kiln::gpu::detail {

/// Compiled kernels in the cache folder, under a hash of everything that makes them. Entries are
/// checksummed; what cannot be read counts as absent.
std::optional<runtime::CompiledKernel> find_cached_kernel(const std::string& key);
/// Keeps a kernel; a failure is no error.
void store_cached_kernel(const std::string& key, const runtime::CompiledKernel& kernel);
/// The key of a source, without opening the compiler.
std::string kernel_cache_key(const runtime::KernelSource& source);

}  // namespace kiln::gpu::detail
