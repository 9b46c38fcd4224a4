#pragma once

#include <llvm/Support/VirtualFileSystem.h>

#include <string>
#include <string_view>
#include <vector>

namespace kiln::compiler::kernel_source {

/// Where the headers of this library lie, and the bitcode of its functions.
inline constexpr const char* kHeaderFolder = "/kiln-headers";
inline constexpr const char* kMathFile = "/kiln-headers/math.bc";

/// Where the headers lie as Clang has read them.
inline constexpr const char* kPreludeFile = "/kiln-headers/prelude.pch";

/// The files that a compile sees: the source under its name, the texts of this library with
/// `prelude` as Clang has read them, and regular files below `folders`. The texts must outlive it.
/// Nothing else of the machine exists in it.
llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> make_file_system(
    std::string_view file, std::string_view text, std::string_view prelude,
    const std::vector<std::string>& folders);

}  // namespace kiln::compiler::kernel_source
