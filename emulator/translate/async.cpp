#include "emulator/execute/state.h"
#include "emulator/translate/forms.h"
#include "kiln/support/format.h"

// cp.async, cp.async.bulk and mbarrier. Copies are done where they are issued, so their groups have
// nothing to wait for.

namespace kiln::emulator::forms {
namespace {

using llvm::Value;
using Kind = ptx::Type::Kind;

constexpr ptx::Type kU32{Kind::unsigned_integer, 32};
constexpr ptx::Type kB64{Kind::bits, 64};
constexpr ptx::Type kPred{Kind::pred, 1};

enum MbarrierOperation : unsigned {
  kInit,
  kInval,
  kArrive,
  kArriveDrop,
  kExpect,
  kComplete,
  kArriveExpect,
  kCopyNoInc,
  kCopyInc
};

Value* mbarrier_call(FunctionTranslator& f, MbarrierOperation operation, Value* address,
                     Value* count, Value* bytes) {
  auto& b = f.builder();
  return f.call("kiln_mbarrier", b.getInt64Ty(),
                {f.hidden(kBlock), b.getInt32(operation), address, count, bytes});
}

bool shared_or_generic(FunctionTranslator& f, Modifiers& modifiers, ptx::Space& space) {
  space = take_space(f, modifiers);
  return space == ptx::Space::none || space == ptx::Space::shared;
}

// cp.async.cg.shared.global.L2::128B [to], [from], 16, 8;  the rest becomes zeros
void copy_small(FunctionTranslator& f, Modifiers& modifiers) {
  const int cache = modifiers.take_one_of(".ca", ".cg");
  ptx::Space space = ptx::Space::none;
  if (cache < 0 || !shared_or_generic(f, modifiers, space) || space != ptx::Space::shared ||
      !modifiers.take_if(".global"))
    f.unsupported("'.ca.shared.global' or '.cg.shared.global' is expected");
  const bool policy = modifiers.take_if(".L2::cache_hint");
  modifiers.take_one_of(".L2::64B", ".L2::128B", ".L2::256B");
  std::size_t operands = f.num_operands();
  f.finish(modifiers, operands);
  if (policy) --operands;
  if (operands != 3 && operands != 4) f.invalid("3 or 4 operands are expected");
  const ptx::Operand& size = f.operand(2);
  if (size.kind != ptx::Operand::Kind::integer ||
      (size.value != 4 && size.value != 8 && size.value != 16))
    f.invalid("4, 8 or 16 bytes can be copied");
  if (cache == 1 && size.value != 16) f.invalid("'.cg' copies 16 bytes");
  auto& b = f.builder();
  const auto bytes = static_cast<unsigned>(size.value);
  Value* to = f.address(f.operand(0), ptx::Space::shared);
  Value* from = f.address(f.operand(1), ptx::Space::global);
  f.check_access(to, bytes, ptx::Space::shared, AccessKind::write);
  llvm::Type* type = f.int_type(8 * bytes);
  const auto copy_all = [&] {
    f.check_access(from, bytes, ptx::Space::global, AccessKind::read);
    b.CreateAlignedStore(b.CreateAlignedLoad(type, f.pointer(from), llvm::Align(1)), f.pointer(to),
                         llvm::Align(1));
  };
  if (operands == 3) return copy_all();
  if (f.register_type(f.operand(3)).kind == Kind::pred) {
    // The predicate says to ignore the source.
    llvm::BasicBlock *zeros = f.new_block("zeros"), *copy = f.new_block("copy"),
                     *after = f.new_block("copied");
    b.CreateCondBr(f.read_predicate(f.operand(3)), zeros, copy);
    f.start(zeros);
    b.CreateAlignedStore(llvm::ConstantInt::get(type, 0), f.pointer(to), llvm::Align(1));
    b.CreateBr(after);
    f.start(copy);
    copy_all();
    b.CreateBr(after);
    return f.start(after);
  }
  // Only the first bytes are read; the source may end behind them.
  Value* count = b.CreateZExt(f.read(3, kU32), b.getInt64Ty());
  count = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, count, b.getInt64(bytes));
  Value* buffer = f.temporary(type);
  b.CreateStore(llvm::ConstantInt::get(type, 0), buffer);
  b.CreateMemCpy(buffer, llvm::MaybeAlign(1), f.pointer(from), llvm::MaybeAlign(1), count);
  b.CreateAlignedStore(b.CreateLoad(type, buffer), f.pointer(to), llvm::Align(1));
}

void wait_nothing(FunctionTranslator& f, const Modifiers& modifiers, std::size_t operands) {
  f.finish(modifiers, operands);
  if (operands == 1 && f.operand(0).kind != ptx::Operand::Kind::integer)
    f.invalid("a number of groups is expected");
}

// cp.async.mbarrier.arrive.noinc.shared.b64 [p]
void copy_arrive(FunctionTranslator& f, Modifiers& modifiers) {
  if (!modifiers.take_if(".arrive")) f.unsupported("'.arrive' is expected");
  const bool noinc = modifiers.take_if(".noinc");
  ptx::Space space = ptx::Space::none;
  if (!shared_or_generic(f, modifiers, space) || !modifiers.take_if(".b64"))
    f.unsupported("'.shared.b64' is expected");
  f.finish(modifiers, 1);
  auto& b = f.builder();
  // Without .noinc the arrival is added first, which leaves nothing of both.
  mbarrier_call(f, noinc ? kCopyNoInc : kCopyInc, f.address(f.operand(0), space), b.getInt32(1),
                b.getInt32(0));
}

void bulk(FunctionTranslator& f, Modifiers& modifiers) {
  auto& b = f.builder();
  if (modifiers.take_if(".commit_group")) return wait_nothing(f, modifiers, 0);
  if (modifiers.take_if(".wait_group")) {
    modifiers.take_if(".read");
    return wait_nothing(f, modifiers, 1);
  }
  if (modifiers.take_if(".prefetch")) {
    if (!modifiers.take_if(".L2") || !modifiers.take_if(".global"))
      f.unsupported("'.L2.global' is expected");
    const bool policy = modifiers.take_if(".L2::cache_hint");
    f.finish(modifiers, policy ? 3 : 2);
    f.address(f.operand(0), ptx::Space::global);
    f.read(1, kU32);
    return;
  }
  const ptx::Space target = take_space(f, modifiers), source = take_space(f, modifiers);
  const bool loads = target == ptx::Space::shared && source == ptx::Space::global;
  const bool stores = target == ptx::Space::global && source == ptx::Space::shared;
  const bool within = target == ptx::Space::shared && source == ptx::Space::shared;
  const bool counted = modifiers.take_if(".mbarrier::complete_tx::bytes");
  if (!(((loads || within) && counted) || (stores && modifiers.take_if(".bulk_group"))))
    f.unsupported("this bulk copy is not implemented");
  const bool policy = modifiers.take_if(".L2::cache_hint");
  f.finish(modifiers, (counted ? 4U : 3U) + (policy ? 1U : 0U));
  Value* to = f.address(f.operand(0), target);
  Value* from = f.address(f.operand(1), source);
  Value* bytes = f.read(2, kU32);
  f.call("kiln_bulk_copy", b.getVoidTy(), {f.hidden(kBlock), to, from, bytes});
  if (counted)
    mbarrier_call(f, kComplete, f.address(f.operand(3), ptx::Space::shared), b.getInt32(0), bytes);
}

void cp(FunctionTranslator& f, Modifiers modifiers) {
  if (!modifiers.take_if(".async")) f.unsupported("'.async' is expected");
  if (modifiers.take_if(".commit_group") || modifiers.take_if(".wait_all"))
    return wait_nothing(f, modifiers, 0);
  if (modifiers.take_if(".wait_group")) return wait_nothing(f, modifiers, 1);
  if (modifiers.take_if(".mbarrier")) return copy_arrive(f, modifiers);
  if (modifiers.take_if(".bulk")) return bulk(f, modifiers);
  copy_small(f, modifiers);
}

void take_semantics(Modifiers& modifiers) {
  if (modifiers.take_one_of(".release", ".relaxed", ".acquire") >= 0) take_scope(modifiers);
}

// mbarrier.try_wait.parity.shared.b64 p, [m], parity, hint;
void mbarrier_wait(FunctionTranslator& f, Modifiers& modifiers, bool may_suspend) {
  bool parity = modifiers.take_if(".parity");
  take_semantics(modifiers);
  parity |= modifiers.take_if(".parity");
  ptx::Space space = ptx::Space::none;
  if (!shared_or_generic(f, modifiers, space) || !modifiers.take_if(".b64"))
    f.unsupported("'.shared.b64' is expected");
  const std::size_t operands = f.num_operands();
  if (operands != 3 && !(may_suspend && operands == 4)) f.invalid("3 operands are expected");
  f.finish(modifiers, operands);
  auto& b = f.builder();
  Value* state = parity ? b.CreateZExt(f.read(2, kU32), b.getInt64Ty()) : f.read(2, kB64);
  Value* done = f.call("kiln_mbarrier_wait", b.getInt32Ty(),
                       {f.hidden(kThread), f.address(f.operand(1), space), state,
                        b.getInt32(parity), f.line_value()});
  f.write(0, b.CreateIsNotNull(done), kPred);
}

void mbarrier_arrive(FunctionTranslator& f, Modifiers& modifiers, bool drop) {
  const bool expects = modifiers.take_if(".expect_tx");
  if (expects && drop) f.unsupported("'.arrive_drop.expect_tx' is not implemented");
  take_semantics(modifiers);
  modifiers.take_if(".noComplete");
  ptx::Space space = ptx::Space::none;
  if (!shared_or_generic(f, modifiers, space) || !modifiers.take_if(".b64"))
    f.unsupported("'.shared.b64' is expected");
  auto& b = f.builder();
  // The state is left out where the barrier may be of another block.
  const bool has_state = f.operand(0).kind != ptx::Operand::Kind::address;
  const std::size_t at = has_state ? 1 : 0, operands = f.num_operands();
  if (operands < at + 1 || operands > at + 2) f.invalid("an address and a count are expected");
  f.finish(modifiers, operands);
  Value* given = operands > at + 1 ? f.read(at + 1, kU32) : b.getInt32(expects ? 0 : 1);
  Value* address = f.address(f.operand(at), space);
  Value* state =
      expects ? mbarrier_call(f, kArriveExpect, address, b.getInt32(1), given)
              : mbarrier_call(f, drop ? kArriveDrop : kArrive, address, given, b.getInt32(0));
  if (has_state) f.write(0, state, kB64);
}

void mbarrier(FunctionTranslator& f, Modifiers modifiers) {
  auto& b = f.builder();
  if (modifiers.take_if(".test_wait")) return mbarrier_wait(f, modifiers, false);
  if (modifiers.take_if(".try_wait")) return mbarrier_wait(f, modifiers, true);
  if (modifiers.take_if(".arrive")) return mbarrier_arrive(f, modifiers, false);
  if (modifiers.take_if(".arrive_drop")) return mbarrier_arrive(f, modifiers, true);
  if (modifiers.take_if(".pending_count")) {
    if (!modifiers.take_if(".b64")) f.unsupported("'.b64' is expected");
    f.finish(modifiers, 2);
    return f.write(
        0, b.CreateTrunc(b.CreateAnd(f.read(1, kB64), b.getInt64(0xfffff)), b.getInt32Ty()), kU32);
  }
  const int what = modifiers.take_one_of(".init", ".inval", ".expect_tx", ".complete_tx");
  if (what < 0) f.unsupported("this form is not implemented");
  take_semantics(modifiers);
  ptx::Space space = ptx::Space::none;
  if (!shared_or_generic(f, modifiers, space) || !modifiers.take_if(".b64"))
    f.unsupported("'.shared.b64' is expected");
  f.finish(modifiers, what == 1 ? 1 : 2);
  Value* address = f.address(f.operand(0), space);
  Value* zero = b.getInt32(0);
  if (what == 0)
    mbarrier_call(f, kInit, address, f.read(1, kU32), zero);
  else if (what == 1)
    mbarrier_call(f, kInval, address, zero, zero);
  else
    mbarrier_call(f, what == 2 ? kExpect : kComplete, address, zero, f.read(1, kU32));
}

// What starts when the kernel before has ended: kernels of a stream do not overlap here.
void griddepcontrol(FunctionTranslator& f, Modifiers modifiers) {
  if (modifiers.take_one_of(".launch_dependents", ".wait") < 0)
    f.unsupported("'.launch_dependents' or '.wait' is expected");
  f.finish(modifiers, 0);
}

}  // namespace

void add_async(Table& table) {
  table.insert({{"cp", cp}, {"mbarrier", mbarrier}, {"griddepcontrol", griddepcontrol}});
}

}  // namespace kiln::emulator::forms
