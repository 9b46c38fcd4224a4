#include "compiler/codegen/function_builder.h"

#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "kiln/support/error.h"

namespace kiln::compiler {

std::unique_ptr<llvm::Module> make_module(llvm::LLVMContext& context, const std::string& name,
                                          const Isa& isa) {
  auto module = std::make_unique<llvm::Module>(name, context);
  module->setTargetTriple(llvm::Triple(isa.triple));
  // x86-64 ELF; fixed here so that constants fold without a target machine.
  module->setDataLayout(
      "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128");
  module->setPICLevel(llvm::PICLevel::BigPIC);
  module->setUwtable(llvm::UWTableKind::Async);
  return module;
}

FunctionBuilder::FunctionBuilder(llvm::Module& module, const Isa& isa, const std::string& name,
                                 llvm::Type* result, const std::vector<llvm::Type*>& parameters,
                                 Linkage linkage)
    : module(module), isa(isa), function(nullptr), b(module.getContext()), lower(b, isa) {
  auto* type = llvm::FunctionType::get(result, parameters, /*isVarArg=*/false);
  // Helpers are private to their kernel's module; kernels are called from the host function, which
  // may lie in another object of the same image.
  function = llvm::Function::Create(type,
                                    linkage == Linkage::helper ? llvm::Function::InternalLinkage
                                                               : llvm::Function::ExternalLinkage,
                                    name, module);
  if (linkage == Linkage::kernel) function->setVisibility(llvm::Function::HiddenVisibility);
  if (linkage != Linkage::entry) function->addFnAttr(llvm::Attribute::NoInline);
  function->addFnAttr("target-cpu", isa.cpu);
  if (!isa.features.empty()) function->addFnAttr("target-features", isa.features);
  if (isa.avx512) function->addFnAttr("min-legal-vector-width", "512");
  function->setUWTableKind(llvm::UWTableKind::Async);
  b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", function));
}

Values FunctionBuilder::loop(
    llvm::Value* from, llvm::Value* to, llvm::Value* step, Values initial,
    const std::function<Values(llvm::Value* i, const Values& carried)>& body) {
  llvm::LLVMContext& context = b.getContext();
  llvm::BasicBlock* before = b.GetInsertBlock();
  auto* head = llvm::BasicBlock::Create(context, "loop", function);
  auto* inside = llvm::BasicBlock::Create(context, "body", function);
  auto* after = llvm::BasicBlock::Create(context, "after", function);
  b.CreateBr(head);
  b.SetInsertPoint(head);
  llvm::PHINode* i = b.CreatePHI(b.getInt64Ty(), 2, "i");
  i->addIncoming(from, before);
  std::vector<llvm::PHINode*> phis;
  Values carried;
  for (llvm::Value* value : initial) {
    llvm::PHINode* phi = b.CreatePHI(value->getType(), 2);
    phi->addIncoming(value, before);
    phis.push_back(phi);
    carried.push_back(phi);
  }
  b.CreateCondBr(b.CreateICmpSLT(i, to), inside, after);
  b.SetInsertPoint(inside);
  Values next = body(i, carried);
  KILN_CHECK(next.size() == initial.size(), "a loop body must return every carried value");
  llvm::Value* next_i = b.CreateNSWAdd(i, step);
  llvm::BasicBlock* latch = b.GetInsertBlock();
  i->addIncoming(next_i, latch);
  for (std::size_t k = 0; k < phis.size(); ++k) phis[k]->addIncoming(next[k], latch);
  llvm::BranchInst* back = b.CreateBr(head);
  // Kernels are already as wide as they should be.
  llvm::Metadata* disable_unroll[] = {llvm::MDString::get(context, "llvm.loop.unroll.disable")};
  llvm::Metadata* disable_vectorize[] = {llvm::MDString::get(context, "llvm.loop.vectorize.enable"),
                                         llvm::ConstantAsMetadata::get(b.getFalse())};
  llvm::MDNode* id =
      llvm::MDNode::getDistinct(context, {nullptr, llvm::MDNode::get(context, disable_unroll),
                                          llvm::MDNode::get(context, disable_vectorize)});
  id->replaceOperandWith(0, id);
  back->setMetadata(llvm::LLVMContext::MD_loop, id);
  b.SetInsertPoint(after);
  return carried;
}

void FunctionBuilder::loop(llvm::Value* from, llvm::Value* to, llvm::Value* step,
                           const std::function<void(llvm::Value* i)>& body) {
  loop(from, to, step, {}, [&](llvm::Value* i, const Values&) {
    body(i);
    return Values{};
  });
}

Values FunctionBuilder::branch(llvm::Value* condition, const std::function<Values()>& then,
                               const std::function<Values()>& otherwise) {
  llvm::LLVMContext& context = b.getContext();
  auto* yes = llvm::BasicBlock::Create(context, "then", function);
  auto* no = llvm::BasicBlock::Create(context, "else", function);
  auto* after = llvm::BasicBlock::Create(context, "join", function);
  b.CreateCondBr(condition, yes, no);
  b.SetInsertPoint(yes);
  Values a = then();
  llvm::BasicBlock* yes_end = b.GetInsertBlock();
  b.CreateBr(after);
  b.SetInsertPoint(no);
  Values c = otherwise();
  llvm::BasicBlock* no_end = b.GetInsertBlock();
  b.CreateBr(after);
  KILN_CHECK(a.size() == c.size(), "both sides of a branch must return the same values");
  b.SetInsertPoint(after);
  Values joined;
  for (std::size_t k = 0; k < a.size(); ++k) {
    llvm::PHINode* phi = b.CreatePHI(a[k]->getType(), 2);
    phi->addIncoming(a[k], yes_end);
    phi->addIncoming(c[k], no_end);
    joined.push_back(phi);
  }
  return joined;
}

void FunctionBuilder::when(llvm::Value* condition, const std::function<void()>& then,
                           bool unlikely) {
  llvm::LLVMContext& context = b.getContext();
  auto* yes = llvm::BasicBlock::Create(context, "then", function);
  auto* after = llvm::BasicBlock::Create(context, "join", function);
  llvm::MDNode* weights =
      unlikely ? llvm::MDBuilder(context).createBranchWeights(1, 1 << 20) : nullptr;
  b.CreateCondBr(condition, yes, after, weights);
  b.SetInsertPoint(yes);
  then();
  if (!b.GetInsertBlock()->getTerminator()) b.CreateBr(after);
  b.SetInsertPoint(after);
}

llvm::Value* FunctionBuilder::stack_slot(llvm::Type* type, std::int64_t count,
                                         std::int64_t alignment) {
  llvm::IRBuilder<> entry(&function->getEntryBlock(), function->getEntryBlock().begin());
  llvm::AllocaInst* slot = entry.CreateAlloca(type, i64(count));
  slot->setAlignment(llvm::Align(static_cast<std::uint64_t>(alignment)));
  return slot;
}

llvm::Value* FunctionBuilder::element(llvm::Type* type, llvm::Value* pointer, llvm::Value* index) {
  return b.CreateInBoundsGEP(type, pointer, index);
}

void FunctionBuilder::finish() {
  std::string text;
  llvm::raw_string_ostream out(text);
  if (llvm::verifyFunction(*function, &out)) {
    out << "\n" << *function;
    KILN_CHECK(false, "generated function is not valid: " + text);
  }
}

}  // namespace kiln::compiler
