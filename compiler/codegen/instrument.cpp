#include "compiler/codegen/instrument.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Instrumentation/AddressSanitizer.h>
#include <llvm/Transforms/Instrumentation/ThreadSanitizer.h>

#include <algorithm>
#include <vector>

#include "kiln/support/sanitizer.h"

namespace kiln::compiler {

namespace {

/// The sanitizers' passes leave functions without the attribute alone.
struct MarkFunctions : llvm::PassInfoMixin<MarkFunctions> {
  explicit MarkFunctions(llvm::Attribute::AttrKind mark) : mark(mark) {}
  llvm::PreservedAnalyses run(llvm::Module& module, llvm::ModuleAnalysisManager&) {
    for (llvm::Function& function : module)
      if (!function.isDeclaration()) function.addFnAttr(mark);
    return llvm::PreservedAnalyses::none();
  }
  static bool isRequired() { return true; }
  llvm::Attribute::AttrKind mark;
};

/// ThreadSanitizer's pass knows accesses of up to 16 bytes and none with a mask; these passes over
/// whole vectors are reported to its runtime here.
struct ReportVectors : llvm::PassInfoMixin<ReportVectors> {
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager&) {
    std::vector<llvm::Instruction*> accesses;
    for (llvm::BasicBlock& block : function)
      for (llvm::Instruction& instruction : block)
        if (llvm::isa<llvm::LoadInst, llvm::StoreInst, llvm::IntrinsicInst>(instruction))
          accesses.push_back(&instruction);
    for (llvm::Instruction* access : accesses) report(*access);
    return llvm::PreservedAnalyses::none();
  }
  static bool isRequired() { return true; }

 private:
  static void report(llvm::Instruction& access) {
    if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&access)) {
      if (llvm::Value* bytes = whole(*load, load->getType()))
        call(*load, "__tsan_read_range", load->getPointerOperand(), bytes);
    } else if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&access)) {
      if (llvm::Value* bytes = whole(*store, store->getValueOperand()->getType()))
        call(*store, "__tsan_write_range", store->getPointerOperand(), bytes);
    } else if (auto* intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(&access)) {
      if (intrinsic->getIntrinsicID() == llvm::Intrinsic::masked_load)
        masked(*intrinsic, "__tsan_read_range", intrinsic->getArgOperand(0),
               intrinsic->getArgOperand(1), intrinsic->getType());
      else if (intrinsic->getIntrinsicID() == llvm::Intrinsic::masked_store)
        masked(*intrinsic, "__tsan_write_range", intrinsic->getArgOperand(1),
               intrinsic->getArgOperand(2), intrinsic->getArgOperand(0)->getType());
    }
  }

  /// The size of a vector that the pass of LLVM leaves out; null for what it handles.
  static llvm::Value* whole(llvm::Instruction& at, llvm::Type* type) {
    const std::uint64_t bytes = at.getDataLayout().getTypeStoreSize(type).getFixedValue();
    const bool known = bytes <= 16 && (bytes & (bytes - 1)) == 0;
    return known ? nullptr : llvm::ConstantInt::get(llvm::Type::getInt64Ty(at.getContext()), bytes);
  }

  /// Masks are those of the ends of rows: the lanes that take part lie side by side.
  static void masked(llvm::IntrinsicInst& at, const char* name, llvm::Value* pointer,
                     llvm::Value* mask, llvm::Type* type) {
    llvm::IRBuilder<> b(&at);
    auto* vector = llvm::cast<llvm::FixedVectorType>(type);
    const std::uint64_t size =
        at.getDataLayout().getTypeStoreSize(vector->getElementType()).getFixedValue();
    // Panels of bytes have masks of 128 lanes.
    const unsigned width = std::max(64U, vector->getNumElements());
    llvm::Value* bits = b.CreateBitCast(mask, b.getIntNTy(vector->getNumElements()));
    bits = b.CreateZExt(bits, b.getIntNTy(width));
    llvm::Value* none = b.CreateICmpEQ(bits, b.getIntN(width, 0));
    auto count = [&](llvm::Intrinsic::ID zeros) {
      return b.CreateTrunc(b.CreateBinaryIntrinsic(zeros, bits, b.getFalse()), b.getInt64Ty());
    };
    llvm::Value* first = count(llvm::Intrinsic::cttz);
    llvm::Value* lanes =
        b.CreateSub(b.CreateSub(b.getInt64(width), count(llvm::Intrinsic::ctlz)), first);
    first = b.CreateSelect(none, b.getInt64(0), first);
    lanes = b.CreateSelect(none, b.getInt64(0), lanes);
    call(at, name, b.CreateGEP(vector->getElementType(), pointer, first),
         b.CreateMul(lanes, b.getInt64(size)));
  }

  static void call(llvm::Instruction& before, const char* name, llvm::Value* pointer,
                   llvm::Value* bytes) {
    llvm::IRBuilder<> b(&before);
    auto* type = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getInt64Ty()}, false);
    llvm::FunctionCallee callee = before.getModule()->getOrInsertFunction(name, type);
    llvm::cast<llvm::Function>(callee.getCallee())->setDoesNotThrow();
    b.CreateCall(callee, {pointer, bytes});
  }
};

}  // namespace

void add_instrumentation(llvm::ModulePassManager& pipeline) {
  if constexpr (kAddressSanitizer) {
    pipeline.addPass(MarkFunctions(llvm::Attribute::SanitizeAddress));
    pipeline.addPass(llvm::AddressSanitizerPass(llvm::AddressSanitizerOptions()));
  }
  if constexpr (kThreadSanitizer) {
    pipeline.addPass(MarkFunctions(llvm::Attribute::SanitizeThread));
    llvm::FunctionPassManager passes;
    passes.addPass(ReportVectors());
    passes.addPass(llvm::ThreadSanitizerPass());
    pipeline.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  }
}

}  // namespace kiln::compiler
