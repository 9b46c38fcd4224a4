#pragma once

#include <string>
#include <vector>

#include "kiln/runtime/compiler_interface.h"

namespace clang {
class ASTContext;
}

namespace kiln::compiler::kernel_source {

/// A kernel that a source defines.
struct Declaration {
  /// As it is written, and with its namespaces.
  std::string name, qualified_name;
  std::string symbol;
  std::vector<runtime::KernelParameter> parameters;
};

/// The annotation of kernels where the language has no word for them.
inline constexpr const char* kKernelMark = "kiln kernel";

/// Every kernel of a parsed source, in order.
std::vector<Declaration> find_kernels(clang::ASTContext& context);

/// The one that `name` means; null when there is none. More than one: RuntimeError.
const Declaration* choose(const std::vector<Declaration>& kernels, const std::string& name);

}  // namespace kiln::compiler::kernel_source
