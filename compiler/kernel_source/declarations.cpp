#include "compiler/kernel_source/declarations.h"

#include <clang/AST/ASTContext.h>
#include <clang/AST/Attr.h>
#include <clang/AST/Decl.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/Mangle.h>
#include <clang/AST/PrettyPrinter.h>

#include <string_view>

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler::kernel_source {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

std::string spell(clang::QualType type, const clang::ASTContext& context) {
  clang::PrintingPolicy policy(context.getLangOpts());
  policy.PrintAsCanonical = true;
  std::string text = type.getCanonicalType().getAsString(policy);
  replace_all(text, " *", "*");
  replace_all(text, " &", "&");
  // Kiln's own types have one name on both sides of a launch.
  replace_all(text, "kiln::gpu::", "kiln::");
  return text;
}

runtime::KernelParameter describe(clang::QualType type, const clang::ASTContext& context) {
  type = type.getCanonicalType().getUnqualifiedType();
  runtime::KernelParameter parameter;
  parameter.type = spell(type, context);
  parameter.size = static_cast<std::uint32_t>(context.getTypeSizeInChars(type).getQuantity());
  parameter.alignment = static_cast<std::uint32_t>(context.getTypeAlignInChars(type).getQuantity());
  if (type->isPointerType()) {
    const clang::QualType pointee = type->getPointeeType();
    parameter.is_pointer = true;
    parameter.points_to_const = pointee.isConstQualified();
    parameter.pointee = spell(pointee.getUnqualifiedType(), context);
  }
  return parameter;
}

bool is_kernel(const clang::FunctionDecl& function) {
  if (!function.isThisDeclarationADefinition() || function.isInvalidDecl()) return false;
  if (function.hasAttr<clang::CUDAGlobalAttr>()) return true;
  for (const auto* mark : function.specific_attrs<clang::AnnotateAttr>())
    if (mark->getAnnotation() == kKernelMark) return true;
  return false;
}

void collect(const clang::DeclContext& scope, clang::ASTContext& context,
             clang::ASTNameGenerator& symbols, std::vector<Declaration>& found) {
  for (const clang::Decl* decl : scope.decls()) {
    if (const auto* function = llvm::dyn_cast<clang::FunctionDecl>(decl)) {
      if (!is_kernel(*function)) continue;
      Declaration kernel;
      kernel.name = function->getNameAsString();
      kernel.qualified_name = function->getQualifiedNameAsString();
      kernel.symbol = function->isExternC() ? kernel.name : symbols.getName(function);
      for (const clang::ParmVarDecl* parameter : function->parameters())
        kernel.parameters.push_back(describe(parameter->getType(), context));
      found.push_back(std::move(kernel));
    } else if (llvm::isa<clang::NamespaceDecl, clang::LinkageSpecDecl>(decl)) {
      collect(*llvm::cast<clang::DeclContext>(decl), context, symbols, found);
    }
  }
}

}  // namespace

std::vector<Declaration> find_kernels(clang::ASTContext& context) {
  std::vector<Declaration> found;
  clang::ASTNameGenerator symbols(context);
  collect(*context.getTranslationUnitDecl(), context, symbols, found);
  return found;
}

const Declaration* choose(const std::vector<Declaration>& kernels, const std::string& name) {
  const Declaration* chosen = nullptr;
  for (const Declaration& kernel : kernels) {
    if (kernel.symbol == name || kernel.qualified_name == name) {
      chosen = &kernel;
      if (kernel.symbol == name) return chosen;
    }
  }
  if (chosen) return chosen;
  for (const Declaration& kernel : kernels) {
    if (kernel.name != name) continue;
    if (chosen)
      throw RuntimeError(format("kernel '{}' is not unique; the source defines: {}, {}", name,
                                chosen->symbol, kernel.symbol));
    chosen = &kernel;
  }
  return chosen;
}

}  // namespace kiln::compiler::kernel_source
