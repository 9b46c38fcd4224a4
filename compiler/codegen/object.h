#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "compiler/target.h"

namespace llvm {
class Module;
}

namespace kiln::compiler {

/// Optimises `module` in place and returns it as a relocatable ELF object for `isa`. Kernels are
/// taken to be as wide as they should be: no vectoriser and no loop unrolling runs. Modules of
/// different contexts may be emitted on several threads at once. What LLVM cannot compile throws
/// InternalError with LLVM's text; the module is of no use after that. `optimized` receives the
/// text of what is emitted.
std::vector<std::byte> emit_object(llvm::Module& module, const Isa& isa,
                                   std::string* optimized = nullptr);
/// LLVM's text of the module.
std::string module_text(const llvm::Module& module);

}  // namespace kiln::compiler
