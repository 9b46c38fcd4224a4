#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/TargetParser/Host.h>

#include "emulator/execute/state.h"
#include "emulator/translate/forms.h"

// bar and barrier. Barriers count threads; what is said of whole warps follows from that.

namespace kiln::emulator::forms {
namespace {

using llvm::Value;
using Kind = ptx::Type::Kind;

constexpr ptx::Type kU32{Kind::unsigned_integer, 32};
constexpr ptx::Type kPred{Kind::pred, 1};

Value* zero(FunctionTranslator& f) { return f.builder().getInt32(0); }

// Which barrier, and of how many threads: 0 means all.
Value* count_operand(FunctionTranslator& f, std::size_t index) {
  return f.num_operands() > index ? f.read(index, kU32) : zero(f);
}

// What a switch to another stack leaves undefined: everything but the two registers that it saves.
std::string clobbered(bool wide) {
  std::string list;
  for (const char* name : {"rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
                           "r13", "r14", "r15", "memory", "flags", "dirflag", "fpsr"})
    list += std::string(list.empty() ? "~{" : ",~{") + name + "}";
  for (int i = 0; i < (wide ? 32 : 16); ++i) list += ",~{xmm" + std::to_string(i) + "}";
  if (wide)
    for (int i = 0; i < 8; ++i) list += ",~{k" + std::to_string(i) + "}";
  return list;
}

// kiln_switch_stack in place, with nothing saved that is not needed.
void switch_stack(FunctionTranslator& f, Value* save, Value* load) {
  static const std::string kConstraints =
      "{rdi},{rsi}," + clobbered(llvm::sys::getHostCPUFeatures().lookup("avx512f"));
  auto& b = f.builder();
  auto* type = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getPtrTy()}, false);
  b.CreateCall(type,
               llvm::InlineAsm::get(type,
                                    "pushq %rbp\n pushq %rbx\n leaq 1f(%rip), %rax\n pushq %rax\n"
                                    "movq %rsp, (%rdi)\n movq %rsi, %rsp\n popq %rax\n"
                                    "jmpq *%rax\n 1:\n popq %rbx\n popq %rbp",
                                    kConstraints, /*hasSideEffects=*/true),
               {save, load});
}

// The barrier of all threads, without a call but for the last one to arrive. The same as
// kiln_barrier and switch_thread of the runtime do.
void inline_barrier(FunctionTranslator& f, unsigned id) {
  auto& b = f.builder();
  llvm::Type *narrow = b.getInt32Ty(), *pointer = b.getPtrTy();
  Value *block = f.hidden(kBlock), *thread = f.hidden(kThread);
  const auto at = [&](Value* base, std::size_t offset) {
    return b.CreateConstGEP1_64(b.getInt8Ty(), base, offset);
  };
  const std::size_t barrier = offsetof(BlockState, barriers) + id * sizeof(Barrier);
  Value* arrived_slot = at(block, barrier + offsetof(Barrier, arrived));
  Value* generation_slot = at(block, barrier + offsetof(Barrier, generation));
  Value* generation = b.CreateLoad(narrow, generation_slot);
  Value* arrived = b.CreateAdd(b.CreateLoad(narrow, arrived_slot), b.getInt32(1));
  Value* live = b.CreateLoad(narrow, at(block, offsetof(BlockState, live)));
  b.CreateStore(arrived, arrived_slot);
  b.CreateStore(b.getInt32(0), at(block, barrier + offsetof(Barrier, expected)));
  llvm::BasicBlock *last = f.new_block("last"), *wait = f.new_block("wait"),
                   *turn = f.new_block("turn"), *next = f.new_block("next"),
                   *look = f.new_block("look"), *done = f.new_block("passed");
  llvm::MDBuilder metadata(f.module().context());
  llvm::MDNode* rare = metadata.createBranchWeights(1, 256);
  b.CreateCondBr(b.CreateICmpUGE(arrived, live), last, wait, rare);
  f.start(last);
  f.call("kiln_barrier_complete", b.getVoidTy(), {block, b.getInt32(id)});
  b.CreateBr(done);

  f.start(wait);
  Value* line_slot = at(thread, offsetof(ThreadState, line));
  b.CreateStore(llvm::ConstantPointerNull::get(b.getPtrTy()),
                at(thread, offsetof(ThreadState, wait)));
  b.CreateStore(f.line_value(), line_slot);
  llvm::BasicBlock* loop = f.new_block("again");
  b.CreateBr(loop);
  f.start(loop);
  Value* other = b.CreateLoad(pointer, at(thread, offsetof(ThreadState, next)));
  Value* wraps = b.CreateICmpULE(b.CreateLoad(narrow, at(other, offsetof(ThreadState, linear))),
                                 b.CreateLoad(narrow, at(thread, offsetof(ThreadState, linear))));
  b.CreateCondBr(wraps, turn, next, rare);
  f.start(turn);
  f.call("kiln_turn", b.getVoidTy(), {thread});
  b.CreateBr(look);
  f.start(next);
  b.CreateStore(other, at(block, offsetof(BlockState, current)));
  switch_stack(f, at(thread, offsetof(ThreadState, stack)),
               b.CreateLoad(pointer, at(other, offsetof(ThreadState, stack))));
  b.CreateBr(look);
  f.start(look);
  Value* same = b.CreateICmpEQ(b.CreateLoad(narrow, generation_slot), generation);
  llvm::BasicBlock* passed = f.new_block("resumed");
  b.CreateCondBr(same, loop, passed, rare);
  f.start(passed);
  b.CreateStore(b.getInt32(0), line_slot);
  b.CreateBr(done);
  f.start(done);
}

void warp_barrier(FunctionTranslator& f, Modifiers modifiers) {
  if (!modifiers.take_if(".sync")) f.unsupported("'.sync' is expected");
  f.finish(modifiers, 1);
  f.call("kiln_warp_barrier", f.builder().getVoidTy(),
         {f.hidden(kThread), f.read(0, kU32), f.line_value()});
}

void reduce(FunctionTranslator& f, Modifiers& modifiers, bool aligned) {
  const int operation = modifiers.take_one_of(".popc", ".and", ".or");
  if (aligned) modifiers.take_if(".aligned");
  const ptx::Type type = f.take_type(modifiers);
  if (operation < 0 || !(type == (operation == 0 ? kU32 : kPred)))
    f.unsupported("this reduction is not implemented");
  if (f.num_operands() != 3 && f.num_operands() != 4) f.invalid("3 or 4 operands are expected");
  f.finish(modifiers, f.num_operands());
  auto& b = f.builder();
  const bool counted = f.num_operands() == 4;
  Value* predicate = b.CreateZExt(f.read_predicate(f.operand(counted ? 3 : 2)), b.getInt32Ty());
  Value* result = f.call("kiln_barrier_reduce", b.getInt32Ty(),
                         {f.hidden(kThread), f.read(1, kU32), counted ? f.read(2, kU32) : zero(f),
                          predicate, b.getInt32(operation), f.line_value()});
  if (operation == 0)
    f.write(0, result, kU32);
  else
    f.write(0, b.CreateIsNotNull(result), kPred);
}

void block_barrier(FunctionTranslator& f, Modifiers modifiers, bool aligned) {
  modifiers.take_if(".cta");
  if (aligned && modifiers.take_if(".warp")) return warp_barrier(f, modifiers);
  if (!aligned && modifiers.take_if(".cluster")) {
    const int arrive = modifiers.take_one_of(".arrive", ".wait");
    if (arrive < 0) f.unsupported("'.arrive' or '.wait' is expected");
    modifiers.take_one_of(".release", ".acquire", ".relaxed");
    modifiers.take_if(".aligned");
    f.finish(modifiers, 0);
    // The cluster is the block. Arrival and wait use the barrier behind the named ones.
    f.call(arrive == 0 ? "kiln_cluster_arrive" : "kiln_cluster_wait", f.builder().getVoidTy(),
           {f.hidden(kThread), f.line_value()});
    return;
  }
  const int what = modifiers.take_one_of(".sync", ".arrive", ".red");
  if (what < 0) f.unsupported("'.sync', '.arrive' or '.red' is expected");
  if (what == 2) return reduce(f, modifiers, true);
  modifiers.take_if(".aligned");
  if (f.num_operands() < 1 || f.num_operands() > 2) f.invalid("1 or 2 operands are expected");
  f.finish(modifiers, f.num_operands());
  Value *id = f.read(0, kU32), *count = count_operand(f, 1);
  const ptx::Operand& number = f.operand(0);
  const bool constant = number.kind == ptx::Operand::Kind::integer && number.value >= 0 &&
                        number.value < kNumBarriers;
  if (what == 0 && constant && f.num_operands() == 1) {
    inline_barrier(f, static_cast<unsigned>(number.value));
  } else if (what == 0) {
    f.call("kiln_barrier", f.builder().getVoidTy(), {f.hidden(kThread), id, count, f.line_value()});
  } else {
    if (f.num_operands() != 2) f.invalid("'.arrive' needs a count of threads");
    f.call("kiln_barrier_arrive", f.builder().getVoidTy(), {f.hidden(kThread), id, count});
  }
}

void bar(FunctionTranslator& f, Modifiers modifiers) { block_barrier(f, modifiers, true); }
void barrier(FunctionTranslator& f, Modifiers modifiers) { block_barrier(f, modifiers, false); }

}  // namespace

void add_barrier(Table& table) { table.insert({{"bar", bar}, {"barrier", barrier}}); }

}  // namespace kiln::emulator::forms
