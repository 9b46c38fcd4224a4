#include "compiler/kernel_source/declarations.h"

#include <clang/AST/ASTContext.h>
#include <clang/AST/Attr.h>
#include <clang/AST/Decl.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/Mangle.h>
#include <clang/AST/PrettyPrinter.h>
#include <llvm/Support/raw_ostream.h>

#include <string_view>

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
  if (!function.isDefined() || function.isInvalidDecl()) return false;
  if (function.hasAttr<clang::CUDAGlobalAttr>()) return true;
  for (const auto* mark : function.specific_attrs<clang::AnnotateAttr>())
    if (mark->getAnnotation() == kKernelMark) return true;
  return false;
}

class Collection {
 public:
  explicit Collection(clang::ASTContext& context) : context_(context), symbols_(context) {}
  std::vector<Declaration> take() { return std::move(found_); }

  void add_all(const clang::DeclContext& scope) {
    for (const clang::Decl* decl : scope.decls()) {
      if (const auto* function = llvm::dyn_cast<clang::FunctionDecl>(decl)) {
        if (function->isThisDeclarationADefinition()) add(*function);
      } else if (const auto* pattern = llvm::dyn_cast<clang::FunctionTemplateDecl>(decl)) {
        // A template is a kernel where the source instantiates it.
        if (!pattern->isThisDeclarationADefinition()) continue;
        for (const clang::FunctionDecl* instance : pattern->specializations())
          if (instance->getTemplateSpecializationKind() ==
              clang::TSK_ExplicitInstantiationDefinition)
            add(*instance);
      } else if (llvm::isa<clang::NamespaceDecl, clang::LinkageSpecDecl>(decl)) {
        add_all(*llvm::cast<clang::DeclContext>(decl));
      }
    }
  }

 private:
  void add(const clang::FunctionDecl& function) {
    if (!is_kernel(function)) return;
    Declaration kernel;
    kernel.name = function.getNameAsString();
    llvm::raw_string_ostream out(kernel.qualified_name);
    function.getNameForDiagnostic(out, clang::PrintingPolicy(context_.getLangOpts()),
                                  /*Qualified=*/true);
    kernel.symbol = function.isExternC() ? kernel.name : symbols_.getName(&function);
    kernel.returns_value = !function.getReturnType()->isVoidType();
    for (const clang::ParmVarDecl* parameter : function.parameters())
      kernel.parameters.push_back(describe(parameter->getType(), context_));
    found_.push_back(std::move(kernel));
  }

  clang::ASTContext& context_;
  clang::ASTNameGenerator symbols_;
  std::vector<Declaration> found_;
};

}  // namespace

std::vector<Declaration> find_kernels(clang::ASTContext& context) {
  Collection collection(context);
  collection.add_all(*context.getTranslationUnitDecl());
  return collection.take();
}

std::vector<const Declaration*> find_named(const std::vector<Declaration>& kernels,
                                           const std::string& name) {
  std::vector<const Declaration*> found;
  for (const auto& part :
       {&Declaration::symbol, &Declaration::qualified_name, &Declaration::name}) {
    for (const Declaration& kernel : kernels)
      if (kernel.*part == name) found.push_back(&kernel);
    if (!found.empty()) break;
  }
  return found;
}

}  // namespace kiln::compiler::kernel_source
