#include <llvm/IR/MDBuilder.h>

#include "emulator/execute/grid.h"
#include "emulator/execute/state.h"
#include "emulator/translate/function.h"
#include "kiln/support/format.h"

// Addresses. A kernel reads device address `a` at `base + a`, as a GEP, which LLVM can vectorise
// where it could not with an integer that becomes a pointer.

namespace kiln::emulator {

llvm::Value* FunctionTranslator::block_field(std::size_t offset, llvm::Type* type) {
  Value* slot = b_.CreateConstGEP1_64(b_.getInt8Ty(), hidden(kBlock), offset);
  auto* load = b_.CreateLoad(type, slot);
  // Nothing changes the state of a block while its code runs.
  load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(module_.context(), {}));
  // A loop counts as parallel only when every access in it says so.
  mark_independent(load);
  return load;
}

// What may always be read can be read before a condition, and so be lifted out of loops.
void FunctionTranslator::set_readable(llvm::LoadInst* pointer, std::uint64_t bytes) {
  auto& context = module_.context();
  auto* size = llvm::ConstantAsMetadata::get(b_.getInt64(bytes));
  pointer->setMetadata(llvm::LLVMContext::MD_dereferenceable, llvm::MDNode::get(context, size));
}

llvm::Value* FunctionTranslator::pointer(Value* address) {
  return b_.CreateGEP(b_.getInt8Ty(), base_, address);
}

llvm::Value* FunctionTranslator::address_of(Value* pointer) {
  return b_.CreateSub(b_.CreatePtrToInt(pointer, b_.getInt64Ty()),
                      b_.CreatePtrToInt(base_, b_.getInt64Ty()));
}

llvm::Value* FunctionTranslator::address(const Operand& operand, ptx::Space space) {
  if (operand.kind != Operand::Kind::address) invalid("an address in brackets is expected");
  if (!operand.elements.empty()) unsupported("addresses of several parts are not implemented");
  const Type wide{ptx::Type::Kind::unsigned_integer, 64};
  const Type narrow{ptx::Type::Kind::unsigned_integer, 32};
  Value* value = b_.getInt64(0);
  if (!operand.name.empty()) {
    Operand name = operand;
    name.kind = Operand::Kind::name;
    name.value = 0;
    const Type type = register_type(name);
    if (type.kind == ptx::Type::Kind::none || type.width() == 64) {
      value = name_value(name, wide, false);
    } else if (type.width() == 32 && space == ptx::Space::shared) {
      value = b_.CreateZExt(name_value(name, narrow, false), b_.getInt64Ty());
    } else {
      invalid("an address has 64 bits, or 32 in shared memory");
    }
  }
  value = b_.CreateAdd(value, b_.getInt64(static_cast<std::uint64_t>(operand.value)));
  if (space != ptx::Space::shared) return value;
  Value* window = block_field(offsetof(BlockState, shared), b_.getInt64Ty());
  return b_.CreateAdd(window,
                      b_.CreateZExt(b_.CreateTrunc(value, b_.getInt32Ty()), b_.getInt64Ty()));
}

llvm::Value* FunctionTranslator::param_pointer(const Operand& operand) {
  if (operand.name.empty()) return nullptr;
  Symbol* symbol = find(operand.name);
  if (symbol == nullptr || symbol->kind != Symbol::Kind::param) return nullptr;
  return symbol->pointer;
}

bool FunctionTranslator::param_holds(const Operand& operand, std::uint64_t bytes) {
  const Symbol* symbol = find(operand.name);
  const auto offset = static_cast<std::uint64_t>(operand.value);
  return offset <= symbol->bytes && bytes <= symbol->bytes - offset;
}

bool FunctionTranslator::param_is_constant(const Operand& operand) {
  return find(operand.name)->constant;
}

void FunctionTranslator::check_aligned(Value* address, unsigned bytes) {
  if (bytes <= 1) return;
  Value* rest = b_.CreateAnd(address, b_.getInt64(bytes - 1));
  if (waits_) {
    fault_if(b_.CreateIsNotNull(rest), static_cast<std::uint32_t>(FaultCode::misaligned_address),
             address);
    return;
  }
  // A branch would keep LLVM from vectorising the loop over threads; the rest is noted instead and
  // looked at when the threads have run. Mostly it is a constant or the same for all threads.
  Value* slot = hidden(kMisaligned);
  rest = b_.CreateTrunc(rest, b_.getInt32Ty());
  b_.CreateStore(b_.CreateOr(b_.CreateLoad(b_.getInt32Ty(), slot), rest), slot);
}

void FunctionTranslator::check_access(Value* address, unsigned bytes, ptx::Space space,
                                      AccessKind kind) {
  check_aligned(address, bytes);
  const LoadOptions& options = module_.options();
  if (options.check_memory && space == ptx::Space::shared) {
    Value* offset =
        b_.CreateSub(address, block_field(offsetof(BlockState, shared), b_.getInt64Ty()));
    Value* size = b_.CreateZExt(block_field(offsetof(BlockState, shared_limit), b_.getInt32Ty()),
                                b_.getInt64Ty());
    Value* end = b_.CreateAdd(offset, b_.getInt64(bytes));
    fault_if(b_.CreateICmpUGT(end, size), static_cast<std::uint32_t>(FaultCode::illegal_address),
             address);
  } else if (options.check_memory && space != ptx::Space::local) {
    check_memory(address, bytes);
  }
  if (options.check_init && (space == ptx::Space::none || space == ptx::Space::global))
    call_check("kiln_check_init", address, bytes, kind);
}

// A byte of bounds says how much of 8 bytes is memory; 0, all of it, needs nothing more.
void FunctionTranslator::check_memory(Value* address, unsigned bytes) {
  Value* offset =
      b_.CreateSub(address, block_field(offsetof(BlockState, view_first), b_.getInt64Ty()));
  Value* inside =
      b_.CreateICmpULT(offset, block_field(offsetof(BlockState, view_bytes), b_.getInt64Ty()));
  Value* index = b_.CreateLShr(b_.CreateSelect(inside, offset, b_.getInt64(0)), 3);
  Value* bounds = block_field(offsetof(BlockState, bounds), b_.getPtrTy());
  llvm::Type* type = int_type(bytes <= 8 ? 8 : bytes);
  Value* known =
      b_.CreateAlignedLoad(type, b_.CreateGEP(b_.getInt8Ty(), bounds, index), llvm::Align(1));
  llvm::BasicBlock *look = new_block("look"), *good = new_block("good");
  llvm::MDBuilder metadata(module_.context());
  b_.CreateCondBr(b_.CreateAnd(inside, b_.CreateIsNotNull(known)), look, good,
                  metadata.createBranchWeights(1, 1 << 20));
  start(look);
  call_check("kiln_check_memory", address, bytes, AccessKind::update);
  b_.CreateBr(good);
  start(good);
}

void FunctionTranslator::call_check(std::string_view helper, Value* address, unsigned bytes,
                                    AccessKind kind) {
  call(helper, b_.getVoidTy(),
       {hidden(kBlock), address, b_.getInt32(bytes), b_.getInt32(static_cast<unsigned>(kind)),
        line_value(), hidden(kTidX), hidden(kTidY), hidden(kTidZ), hidden(kCtaX), hidden(kCtaY),
        hidden(kCtaZ)});
}

void FunctionTranslator::mark_independent(llvm::Instruction* access) {
  access->setMetadata(llvm::LLVMContext::MD_access_group, module_.access_group());
}

llvm::Value* FunctionTranslator::call(std::string_view helper, llvm::Type* result,
                                      std::initializer_list<Value*> arguments) {
  std::vector<llvm::Type*> types;
  for (Value* argument : arguments) types.push_back(argument->getType());
  return b_.CreateCall(module_.helper(helper, result, types),
                       llvm::ArrayRef<Value*>(arguments.begin(), arguments.size()));
}

void FunctionTranslator::fault(std::uint32_t code, Value* address) {
  Value* arguments[] = {hidden(kBlock), hidden(kThread), b_.getInt32(code), address,
                        line_value(),   hidden(kTidX),   hidden(kTidY),     hidden(kTidZ),
                        hidden(kCtaX),  hidden(kCtaY),   hidden(kCtaZ)};
  b_.CreateCall(module_.helper_fault(), arguments);
  b_.CreateUnreachable();
  start(new_block("after_fault"));
}

void FunctionTranslator::fault_if(Value* condition, std::uint32_t code, Value* address) {
  llvm::BasicBlock* bad = new_block("fault");
  llvm::BasicBlock* good = new_block("good");
  llvm::MDBuilder metadata(module_.context());
  b_.CreateCondBr(condition, bad, good, metadata.createBranchWeights(1, 1 << 20));
  start(bad);
  fault(code, address);
  // The block behind the fault is not needed here.
  llvm::BasicBlock* after = b_.GetInsertBlock();
  start(good);
  after->eraseFromParent();
}

}  // namespace kiln::emulator
