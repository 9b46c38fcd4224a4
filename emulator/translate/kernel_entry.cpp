#include <llvm/IR/MDBuilder.h>

#include <array>

#include "emulator/execute/grid.h"
#include "emulator/execute/state.h"
#include "emulator/translate/function.h"
#include "emulator/translate/module.h"

// What the runtime calls: a loop over blocks and threads around a kernel that never waits, or the
// start of one thread that has its own stack.

namespace kiln::emulator {
namespace {

using llvm::Value;

// Emits loops and what they need; one object a function.
class Entry {
 public:
  Entry(llvm::LLVMContext& context, llvm::Function* function) : b(context), function_(function) {
    b.SetInsertPoint(block("entry"));
  }

  llvm::BasicBlock* block(const char* name) {
    return llvm::BasicBlock::Create(b.getContext(), name, function_);
  }

  Value* field(Value* base, std::size_t offset, llvm::Type* type, bool constant = true) {
    auto* load = b.CreateLoad(type, b.CreateConstGEP1_64(b.getInt8Ty(), base, offset));
    if (constant)
      load->setMetadata(llvm::LLVMContext::MD_invariant_load,
                        llvm::MDNode::get(b.getContext(), {}));
    return load;
  }

  /// for (i = begin; i != end; ++i) body(i), where begin != end; returns the jump back.
  template <typename Body>
  llvm::Instruction* loop(Value* begin, Value* end, Body body) {
    llvm::BasicBlock* before = b.GetInsertBlock();
    llvm::BasicBlock* head = block("loop");
    llvm::BasicBlock* done = block("done");
    b.CreateBr(head);
    b.SetInsertPoint(head);
    auto* i = b.CreatePHI(begin->getType(), 2);
    i->addIncoming(begin, before);
    body(i);
    Value* next = b.CreateNUWAdd(i, llvm::ConstantInt::get(begin->getType(), 1));
    i->addIncoming(next, b.GetInsertBlock());
    auto* back = b.CreateCondBr(b.CreateICmpEQ(next, end), done, head);
    b.SetInsertPoint(done);
    return back;
  }

  /// Faults when an address that is not aligned was noted. `who` are block and thread.
  void fault_if_noted(llvm::FunctionCallee fault, std::array<Value*, 2> who, Value* slot,
                      Value* (&cta)[3], std::array<Value*, 3> tid) {
    llvm::BasicBlock* bad = block("misaligned");
    llvm::BasicBlock* good = block("aligned");
    Value* noted = b.CreateZExt(b.CreateLoad(b.getInt32Ty(), slot), b.getInt64Ty());
    llvm::MDBuilder metadata(b.getContext());
    b.CreateCondBr(b.CreateIsNotNull(noted), bad, good, metadata.createBranchWeights(1, 1 << 20));
    b.SetInsertPoint(bad);
    Value* code = b.getInt32(static_cast<std::uint32_t>(FaultCode::misaligned_address));
    b.CreateCall(fault, {who[0], who[1], code, noted, b.getInt32(0), tid[0], tid[1], tid[2], cta[0],
                         cta[1], cta[2]});
    b.CreateUnreachable();
    b.SetInsertPoint(good);
  }

  llvm::IRBuilder<> b;

 private:
  llvm::Function* function_;
};

}  // namespace

void ModuleTranslator::emit_range(std::uint32_t function, std::uint32_t kernel) {
  llvm::Type* pointer = llvm::PointerType::get(*context_, 0);
  llvm::Type* wide = llvm::Type::getInt64Ty(*context_);
  auto* code = llvm::Function::Create(
      llvm::FunctionType::get(llvm::Type::getVoidTy(*context_), {pointer, wide, wide}, false),
      llvm::Function::ExternalLinkage, range_symbol(kernel), *module_);
  code->setDoesNotThrow();
  code->addFnAttr(llvm::Attribute::NoRedZone);
  code->addDereferenceableParamAttr(0, sizeof(BlockState));
  code->addParamAttr(0, llvm::Attribute::getWithAlignment(*context_, llvm::Align(8)));
  Entry entry(*context_, code);
  auto& b = entry.b;
  Value* state = code->getArg(0);
  Value* misaligned = b.CreateAlloca(b.getInt32Ty());
  b.CreateStore(b.getInt32(0), misaligned);
  Value *threads[3], *blocks[2];
  for (int axis = 0; axis < 3; ++axis)
    threads[axis] = entry.field(state, offsetof(BlockState, threads) + 4 * axis, b.getInt32Ty());
  for (int axis = 0; axis < 2; ++axis)
    blocks[axis] = b.CreateZExt(
        entry.field(state, offsetof(BlockState, blocks) + 4 * axis, b.getInt32Ty()), wide);
  Value* local = entry.field(state, offsetof(BlockState, local), wide);
  Value* zero = b.getInt32(0);
  Value* null = llvm::ConstantPointerNull::get(llvm::cast<llvm::PointerType>(pointer));

  entry.loop(code->getArg(1), code->getArg(2), [&](Value* index) {
    Value* row = b.CreateUDiv(index, blocks[0]);
    Value* cta[3] = {b.CreateURem(index, blocks[0]), b.CreateURem(row, blocks[1]),
                     b.CreateUDiv(row, blocks[1])};
    for (Value*& value : cta) value = b.CreateTrunc(value, b.getInt32Ty());
    entry.loop(zero, threads[2], [&](Value* z) {
      entry.loop(zero, threads[1], [&](Value* y) {
        llvm::Instruction* back = entry.loop(zero, threads[0], [&](Value* x) {
          b.CreateCall(facts_[function].code,
                       {state, null, local, misaligned, x, y, z, cta[0], cta[1], cta[2]});
        });
        // Threads of a block are independent of each other where they do not wait; but their local
        // memory is one place, which each of them has in turn.
        if (!facts_[function].code->getArg(kLocal)->use_empty()) return;
        llvm::Metadata* parallel = llvm::MDNode::get(
            *context_,
            {llvm::MDString::get(*context_, "llvm.loop.parallel_accesses"), access_group_});
        auto* loop = llvm::MDNode::getDistinct(*context_, {nullptr, parallel});
        loop->replaceOperandWith(0, loop);
        back->setMetadata(llvm::LLVMContext::MD_loop, loop);
      });
    });
    entry.fault_if_noted(helper_fault(), {state, null}, misaligned, cta, {zero, zero, zero});
  });
  b.CreateRetVoid();
}

void ModuleTranslator::emit_thread(std::uint32_t function, std::uint32_t kernel) {
  llvm::Type* pointer = llvm::PointerType::get(*context_, 0);
  auto* code = llvm::Function::Create(
      llvm::FunctionType::get(llvm::Type::getVoidTy(*context_), {pointer, pointer}, false),
      llvm::Function::ExternalLinkage, thread_symbol(kernel), *module_);
  code->setDoesNotThrow();
  code->addFnAttr(llvm::Attribute::NoRedZone);
  code->addDereferenceableParamAttr(0, sizeof(BlockState));
  code->addParamAttr(0, llvm::Attribute::getWithAlignment(*context_, llvm::Align(8)));
  Entry entry(*context_, code);
  auto& b = entry.b;
  Value *state = code->getArg(0), *thread = code->getArg(1);
  Value* misaligned = b.CreateAlloca(b.getInt32Ty());
  b.CreateStore(b.getInt32(0), misaligned);
  Value *tid[3], *cta[3];
  for (int axis = 0; axis < 3; ++axis) {
    tid[axis] = entry.field(thread, offsetof(ThreadState, index) + 4 * axis, b.getInt32Ty());
    cta[axis] = entry.field(state, offsetof(BlockState, index) + 4 * axis, b.getInt32Ty());
  }
  Value* local = entry.field(thread, offsetof(ThreadState, local), b.getInt64Ty());
  b.CreateCall(facts_[function].code,
               {state, thread, local, misaligned, tid[0], tid[1], tid[2], cta[0], cta[1], cta[2]});
  // Functions that do not wait note such addresses.
  entry.fault_if_noted(helper_fault(), {state, thread}, misaligned, cta, {tid[0], tid[1], tid[2]});
  b.CreateRetVoid();
}

llvm::FunctionCallee ModuleTranslator::helper_fault() {
  llvm::Type* pointer = llvm::PointerType::get(*context_, 0);
  llvm::Type* narrow = llvm::Type::getInt32Ty(*context_);
  llvm::Type* types[] = {pointer, pointer, narrow, llvm::Type::getInt64Ty(*context_),
                         narrow,  narrow,  narrow, narrow,
                         narrow,  narrow,  narrow};
  return helper("kiln_fault", llvm::Type::getVoidTy(*context_), types, /*no_return=*/true);
}

}  // namespace kiln::emulator
