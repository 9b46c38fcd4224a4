#include "emulator/translate/arithmetic.h"
#include "kiln/support/format.h"

// atom, red, membar and fence. Every atomic is sequentially consistent for the processor, which is
// at least what any memory order of PTX asks for.

namespace kiln::emulator::forms {
namespace {

using llvm::Value;
using Kind = ptx::Type::Kind;

enum class Op { add, min, max, inc, dec, cas, exch, and_, or_, xor_ };

struct Form {
  ptx::Space space = ptx::Space::none;
  Op op = Op::add;
  bool noftz = false;
  unsigned vector = 1;
  ptx::Type type;
};

// The order and the scope may stand in front of the operation or behind it.
void take_order(Modifiers& modifiers) {
  modifiers.take_one_of(".relaxed", ".acquire", ".release", ".acq_rel");
  take_scope(modifiers);
}

Form parse(FunctionTranslator& f, Modifiers& modifiers, bool reduction) {
  Form form;
  take_order(modifiers);
  form.space = take_space(f, modifiers);
  take_scope(modifiers);
  const int op = modifiers.take_one_of(".add", ".min", ".max", ".inc", ".dec", ".cas", ".exch",
                                       ".and", ".or", ".xor");
  if (op < 0) f.unsupported(format("'{}' is not an operation", modifiers.peek()));
  form.op = static_cast<Op>(op);
  if (reduction && (form.op == Op::cas || form.op == Op::exch))
    f.invalid("a reduction has no such operation");
  take_order(modifiers);
  form.noftz = modifiers.take_if(".noftz");
  modifiers.take_if(".L2::cache_hint");
  if (modifiers.take_if(".v2"))
    form.vector = 2;
  else if (modifiers.take_if(".v4"))
    form.vector = 4;
  else if (modifiers.take_if(".v8"))
    form.vector = 8;
  form.type = f.take_type(modifiers);
  if (form.space == ptx::Space::local || form.space == ptx::Space::constant ||
      form.space == ptx::Space::param)
    f.invalid("atomics take global and shared memory");
  return form;
}

void check(FunctionTranslator& f, const Form& form) {
  const ptx::Type type = form.type;
  const bool bitwise = form.op == Op::and_ || form.op == Op::or_ || form.op == Op::xor_;
  const bool swap = form.op == Op::cas || form.op == Op::exch;
  const bool number = type.kind == Kind::unsigned_integer || type.kind == Kind::signed_integer;
  bool good = false;
  if (bitwise)
    good = type.kind == Kind::bits && (type.bits == 32 || type.bits == 64);
  else if (swap)
    good = (type.kind == Kind::bits && type.bits >= 32 && type.bits <= 128) ||
           (form.op == Op::cas && type.kind == Kind::bits && type.bits == 16) ||
           (number && type.bits >= 32);
  else if (form.op == Op::inc || form.op == Op::dec)
    good = type.kind == Kind::unsigned_integer && type.bits == 32;
  else if (form.op == Op::add)
    good = (number && type.bits >= 32 && type.lanes == 1) || type.is_real();
  else
    good = number && type.bits >= 32 && type.lanes == 1;
  if (!good) f.unsupported("this type is not implemented here");
  if (type.is_real() && type.bits == 16 && !form.noftz) f.invalid("'.noftz' is expected");
}

llvm::AtomicRMWInst::BinOp rmw_of(const Form& form) {
  using Rmw = llvm::AtomicRMWInst;
  const bool is_signed = form.type.is_signed();
  switch (form.op) {
    case Op::add:
      return form.type.is_real() ? Rmw::FAdd : Rmw::Add;
    case Op::min:
      return is_signed ? Rmw::Min : Rmw::UMin;
    case Op::max:
      return is_signed ? Rmw::Max : Rmw::UMax;
    case Op::inc:
      return Rmw::UIncWrap;
    case Op::dec:
      return Rmw::UDecWrap;
    case Op::and_:
      return Rmw::And;
    case Op::or_:
      return Rmw::Or;
    case Op::xor_:
      return Rmw::Xor;
    default:
      return Rmw::Xchg;
  }
}

constexpr auto kOrder = llvm::AtomicOrdering::SequentiallyConsistent;

// A loop of compare and swap around `sum(old)`, both as bits.
template <typename Sum>
Value* add_in_loop(FunctionTranslator& f, Value* place, ptx::Type type, const Sum& sum) {
  auto& b = f.builder();
  llvm::Type* bits = f.int_type(type.width());
  const llvm::Align alignment(type.bytes());
  auto* first = b.CreateLoad(bits, place);
  first->setAtomic(llvm::AtomicOrdering::Monotonic);
  first->setAlignment(alignment);
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::BasicBlock* loop = f.new_block("again");
  llvm::BasicBlock* done = f.new_block("added");
  b.CreateBr(loop);
  f.start(loop);
  auto* old = b.CreatePHI(bits, 2);
  old->addIncoming(first, before);
  auto* swap = b.CreateAtomicCmpXchg(place, old, sum(old), alignment, kOrder, kOrder);
  old->addIncoming(b.CreateExtractValue(swap, 0), b.GetInsertBlock());
  b.CreateCondBr(b.CreateExtractValue(swap, 1), done, loop);
  f.start(done);
  return b.CreateExtractValue(swap, 0);
}

// Halves are added with the arithmetic of `add`.
Value* add_halves(FunctionTranslator& f, Value* place, ptx::Type type, Value* added) {
  auto& b = f.builder();
  const ptx::Type lane{type.kind, 16};
  const auto sum = [&](Value* x, Value* y) {
    return narrow(f, b.CreateFAdd(widen(f, x, lane), widen(f, y, lane)), lane);
  };
  return add_in_loop(f, place, type, [&](Value* old) {
    if (type.lanes == 1) return sum(old, added);
    const auto x = unpack(f, old), y = unpack(f, added);
    Value* low = sum(x[0], y[0]);
    return pack(f, low, sum(x[1], y[1]));
  });
}

// Global memory adds .f32 with zeros in the place of subnormals; `keeps` says where it is not
// global.
Value* add_flushing(FunctionTranslator& f, Value* place, ptx::Type type, Value* added,
                    Value* keeps) {
  auto& b = f.builder();
  llvm::Type* real = b.getFloatTy();
  const auto flushed = [&](Value* value) {
    return keeps ? b.CreateSelect(keeps, value, flush(f, value)) : flush(f, value);
  };
  Value* operand = flushed(added);
  Value* old = add_in_loop(f, place, type, [&](Value* bits) {
    Value* sum = b.CreateFAdd(flushed(b.CreateBitCast(bits, real)), operand);
    return b.CreateBitCast(flushed(sum), b.getInt32Ty());
  });
  return b.CreateBitCast(old, real);
}

// Whether an address lies in the memory of this block; null when it surely does not.
Value* is_of_block(FunctionTranslator& f, ptx::Space space, Value* address) {
  if (space == ptx::Space::global) return nullptr;
  auto& b = f.builder();
  Value* first = f.block_field(offsetof(BlockState, shared), b.getInt64Ty());
  Value* bytes = b.CreateZExt(f.block_field(offsetof(BlockState, shared_bytes), b.getInt32Ty()),
                              b.getInt64Ty());
  return b.CreateICmpULT(b.CreateSub(address, first), bytes);
}

Value* perform(FunctionTranslator& f, const Form& form, Value* address, Value* operand,
               Value* replacement) {
  auto& b = f.builder();
  Value* place = f.pointer(address);
  const llvm::Align alignment(form.type.bytes());
  if (form.type.is_real() && form.type.bits == 16) return add_halves(f, place, form.type, operand);
  const bool flushes = form.op == Op::add && form.type == ptx::Type{ptx::Type::Kind::real, 32} &&
                       form.space != ptx::Space::shared;
  if (flushes)
    return add_flushing(f, place, form.type, operand, is_of_block(f, form.space, address));
  if (form.op == Op::cas) {
    auto* swap = b.CreateAtomicCmpXchg(place, operand, replacement, alignment, kOrder, kOrder);
    return b.CreateExtractValue(swap, 0);
  }
  return b.CreateAtomicRMW(rmw_of(form), place, operand, alignment, kOrder);
}

void atom(FunctionTranslator& f, Modifiers modifiers) {
  const Form form = parse(f, modifiers, false);
  const std::size_t sources = form.op == Op::cas ? 2 : 1;
  f.finish(modifiers, 2 + sources);
  check(f, form);
  spin(f);
  Value* address = f.address(f.operand(1), form.space);
  f.check_access(address, form.type.bytes() * form.vector, form.space, AccessKind::update);
  if (form.vector == 1) {
    Value* operand = f.read(2, form.type);
    Value* replacement = sources == 2 ? f.read(3, form.type) : nullptr;
    return f.write(0, perform(f, form, address, operand, replacement), form.type);
  }
  // Each element is atomic by itself.
  const auto& targets = f.operand(0).elements;
  const auto& operands = f.operand(2).elements;
  if (form.op != Op::add || targets.size() != form.vector || operands.size() != form.vector)
    f.invalid("a vector of as many registers is expected");
  for (unsigned i = 0; i < form.vector; ++i) {
    Value* place = f.builder().CreateAdd(address, f.builder().getInt64(i * form.type.bytes()));
    f.write(targets[i], perform(f, form, place, f.read(operands[i], form.type), nullptr),
            form.type);
  }
}

void red(FunctionTranslator& f, Modifiers modifiers) {
  if (modifiers.take_if(".async")) f.unsupported("'red.async' is not implemented");
  const Form form = parse(f, modifiers, true);
  f.finish(modifiers, 2);
  check(f, form);
  Value* address = f.address(f.operand(0), form.space);
  f.check_access(address, form.type.bytes() * form.vector, form.space, AccessKind::update);
  if (form.vector == 1) {
    perform(f, form, address, f.read(1, form.type), nullptr);
    return;
  }
  const auto& operands = f.operand(1).elements;
  if (operands.size() != form.vector) f.invalid("a vector of as many registers is expected");
  for (unsigned i = 0; i < form.vector; ++i) {
    Value* place = f.builder().CreateAdd(address, f.builder().getInt64(i * form.type.bytes()));
    perform(f, form, place, f.read(operands[i], form.type), nullptr);
  }
}

void membar(FunctionTranslator& f, Modifiers modifiers) {
  if (modifiers.take_one_of(".cta", ".gl", ".sys") < 0) f.unsupported("a scope is expected");
  f.finish(modifiers, 0);
  f.builder().CreateFence(kOrder);
}

void fence(FunctionTranslator& f, Modifiers modifiers) {
  if (modifiers.take_if(".proxy")) {
    // There is one way to memory, so that other proxies need no order of their own.
    if (modifiers.take_one_of(".alias", ".async", ".async.global", ".async.shared::cta") < 0)
      f.unsupported("this proxy is not implemented");
    modifiers.take_one_of(".global", ".shared::cta", ".shared::cluster");
  } else if (modifiers.take_if(".mbarrier_init")) {
    if (!modifiers.take_if(".release") || !modifiers.take_if(".cluster"))
      f.invalid("'.release.cluster' is expected");
  } else {
    modifiers.take_one_of(".sc", ".acq_rel", ".acquire", ".release");
    if (!take_scope(modifiers)) f.invalid("a scope such as '.gpu' is expected");
  }
  f.finish(modifiers, 0);
  f.builder().CreateFence(kOrder);
}

}  // namespace

void add_atomic(Table& table) {
  table.insert({{"atom", atom}, {"red", red}, {"membar", membar}, {"fence", fence}});
}

}  // namespace kiln::emulator::forms
