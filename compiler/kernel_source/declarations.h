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
  bool returns_value = false;
};

/// The annotation of kernels where the language has no word for them.
inline constexpr const char* kKernelMark = "kiln kernel";

/// Every kernel of a parsed source, in order.
std::vector<Declaration> find_kernels(clang::ASTContext& context);

/// Those that `name` can mean: the one with this symbol or this whole name, else all whose plain
/// name it is.
std::vector<const Declaration*> find_named(const std::vector<Declaration>& kernels,
                                           const std::string& name);

}  // namespace kiln::compiler::kernel_source
