#include <llvm/IR/Intrinsics.h>

#include "emulator/translate/arithmetic.h"
#include "kiln/support/format.h"

// Integer arithmetic. Nothing traps: a division by zero gives ones in every bit, as the hardware's
// own sequence does, and the smallest number divided by -1 is itself.

namespace kiln::emulator::forms {
namespace {

using llvm::Value;

void need_integer(FunctionTranslator& f, ptx::Type type, unsigned smallest = 16) {
  using Kind = ptx::Type::Kind;
  if ((type.kind != Kind::signed_integer && type.kind != Kind::unsigned_integer) ||
      type.bits < smallest || type.bits > 64)
    f.unsupported("this type is not implemented here");
}

// Adds with the carry of the instruction before, and keeps the one of this; both where asked for.
Value* add_with_carry(FunctionTranslator& f, Value* a, Value* b, Value* carry_in, bool keep) {
  auto& builder = f.builder();
  const auto width = a->getType()->getIntegerBitWidth();
  llvm::Type* wide = builder.getIntNTy(width + 1);
  Value* sum = builder.CreateAdd(builder.CreateZExt(a, wide), builder.CreateZExt(b, wide));
  if (carry_in != nullptr) sum = builder.CreateAdd(sum, builder.CreateZExt(carry_in, wide));
  if (keep)
    builder.CreateStore(builder.CreateTrunc(builder.CreateLShr(sum, width), builder.getInt1Ty()),
                        f.carry());
  return builder.CreateTrunc(sum, a->getType());
}

Value* load_carry(FunctionTranslator& f) {
  return f.builder().CreateLoad(f.builder().getInt1Ty(), f.carry());
}

// a - b - borrow as a + ~b + !borrow, whose carry is the opposite of the borrow.
Value* subtract_with_borrow(FunctionTranslator& f, Value* a, Value* b, Value* borrow, bool keep) {
  auto& builder = f.builder();
  Value* carry = borrow == nullptr ? builder.getInt1(true) : builder.CreateNot(borrow);
  Value* result = add_with_carry(f, a, builder.CreateNot(b), carry, keep);
  if (keep) builder.CreateStore(builder.CreateNot(load_carry(f)), f.carry());
  return result;
}

Value* per_lane(FunctionTranslator& f, ptx::Type type, Value* a, Value* b,
                llvm::function_ref<Value*(Value*, Value*)> op) {
  if (type.lanes == 1) return op(a, b);
  const auto x = unpack(f, a), y = unpack(f, b);
  return pack(f, op(x[0], y[0]), op(x[1], y[1]));
}

void add_or_sub(FunctionTranslator& f, Modifiers modifiers, bool subtract) {
  const Arithmetic form = parse_arithmetic(f, modifiers, kSat | kCarry, 3);
  need_integer(f, form.type);
  auto& b = f.builder();
  Value *x = f.read(1, form.type), *y = f.read(2, form.type);
  Value* result = nullptr;
  if (form.has(kCarry)) {
    if (form.type.bits < 32 || form.has(kSat)) f.invalid("'.cc' takes 32 or 64 bits");
    result = subtract ? subtract_with_borrow(f, x, y, nullptr, true)
                      : add_with_carry(f, x, y, nullptr, true);
  } else if (form.has(kSat)) {
    if (!form.type.is_signed() || form.type.bits != 32) f.invalid("'.sat' takes .s32");
    result = b.CreateBinaryIntrinsic(
        subtract ? llvm::Intrinsic::ssub_sat : llvm::Intrinsic::sadd_sat, x, y);
  } else {
    result = per_lane(f, form.type, x, y, [&](Value* p, Value* q) {
      return subtract ? b.CreateSub(p, q) : b.CreateAdd(p, q);
    });
  }
  f.write(0, result, form.type);
}

void add(FunctionTranslator& f, Modifiers modifiers) { add_or_sub(f, modifiers, false); }
void sub(FunctionTranslator& f, Modifiers modifiers) { add_or_sub(f, modifiers, true); }

template <bool subtract>
void add_sub_carry(FunctionTranslator& f, Modifiers modifiers) {
  const Arithmetic form = parse_arithmetic(f, modifiers, kCarry, 3);
  need_integer(f, form.type, 32);
  Value *x = f.read(1, form.type), *y = f.read(2, form.type);
  Value* carry = load_carry(f);
  f.write(0,
          subtract ? subtract_with_borrow(f, x, y, carry, form.has(kCarry))
                   : add_with_carry(f, x, y, carry, form.has(kCarry)),
          form.type);
}

Value* extend(FunctionTranslator& f, Value* value, ptx::Type type, unsigned bits) {
  llvm::Type* wide = f.builder().getIntNTy(bits);
  return type.is_signed() ? f.builder().CreateSExt(value, wide)
                          : f.builder().CreateZExt(value, wide);
}

ptx::Type doubled(ptx::Type type) {
  type.bits = static_cast<std::uint8_t>(type.bits * 2);
  return type;
}

// The half of the product that the flags name, or all of it.
Value* product(FunctionTranslator& f, const Arithmetic& form, Value* x, Value* y) {
  auto& b = f.builder();
  const unsigned bits = form.type.bits;
  if (form.has(kLo)) return b.CreateMul(x, y);
  Value* whole = b.CreateMul(extend(f, x, form.type, 2 * bits), extend(f, y, form.type, 2 * bits));
  if (form.has(kWide)) return whole;
  return b.CreateTrunc(b.CreateLShr(whole, bits), f.int_type(bits));
}

void need_half(FunctionTranslator& f, const Arithmetic& form) {
  if (std::popcount(form.flags & (kLo | kHi | kWide)) != 1)
    f.invalid("one of '.lo', '.hi' and '.wide' is expected");
  if (form.has(kWide) && form.type.bits > 32) f.invalid("'.wide' takes 16 or 32 bits");
}

void mul(FunctionTranslator& f, Modifiers modifiers) {
  const Arithmetic form = parse_arithmetic(f, modifiers, kLo | kHi | kWide, 3);
  need_integer(f, form.type);
  need_half(f, form);
  Value* result = product(f, form, f.read(1, form.type), f.read(2, form.type));
  f.write(0, result, form.has(kWide) ? doubled(form.type) : form.type);
}

Value* saturating_add(FunctionTranslator& f, Value* a, Value* b) {
  return f.builder().CreateBinaryIntrinsic(llvm::Intrinsic::sadd_sat, a, b);
}

void mad_integer(FunctionTranslator& f, Modifiers modifiers, bool with_carry) {
  const Arithmetic form = parse_arithmetic(f, modifiers, kLo | kHi | kWide | kSat | kCarry, 4);
  need_integer(f, form.type);
  need_half(f, form);
  const ptx::Type target = form.has(kWide) ? doubled(form.type) : form.type;
  Value* result = product(f, form, f.read(1, form.type), f.read(2, form.type));
  Value* added = f.read(3, target);
  if (with_carry || form.has(kCarry)) {
    if (form.has(kWide) || form.has(kSat) || form.type.bits < 32)
      f.invalid("carries take '.lo' or '.hi' of 32 or 64 bits");
    Value* carry = with_carry ? load_carry(f) : nullptr;
    result = add_with_carry(f, result, added, carry, form.has(kCarry));
  } else if (form.has(kSat)) {
    if (!form.has(kHi) || !form.type.is_signed() || form.type.bits != 32)
      f.invalid("'.sat' takes .hi and .s32");
    result = saturating_add(f, result, added);
  } else {
    result = f.builder().CreateAdd(result, added);
  }
  f.write(0, result, target);
}

void mad_only_integer(FunctionTranslator& f, Modifiers modifiers) {
  mad_integer(f, modifiers, false);
}
void madc(FunctionTranslator& f, Modifiers modifiers) { mad_integer(f, modifiers, true); }

// 24 bits of each factor; the low or the high 32 of the 48 bits of the product.
Value* product24(FunctionTranslator& f, const Arithmetic& form) {
  if (form.type.bits != 32 || std::popcount(form.flags & (kLo | kHi)) != 1)
    f.invalid("'.lo' or '.hi' of 32 bits is expected");
  auto& b = f.builder();
  const auto cut = [&](Value* value) {
    value = b.CreateShl(extend(f, value, form.type, 64), 40);
    return form.type.is_signed() ? b.CreateAShr(value, 40) : b.CreateLShr(value, 40);
  };
  Value* whole = b.CreateMul(cut(f.read(1, form.type)), cut(f.read(2, form.type)));
  return b.CreateTrunc(form.has(kHi) ? b.CreateLShr(whole, 16) : whole, b.getInt32Ty());
}

void mul24(FunctionTranslator& f, Modifiers modifiers) {
  const Arithmetic form = parse_arithmetic(f, modifiers, kLo | kHi, 3);
  need_integer(f, form.type);
  f.write(0, product24(f, form), form.type);
}

void mad24(FunctionTranslator& f, Modifiers modifiers) {
  const Arithmetic form = parse_arithmetic(f, modifiers, kLo | kHi | kSat, 4);
  need_integer(f, form.type);
  if (form.has(kSat) && (!form.has(kHi) || !form.type.is_signed()))
    f.invalid("'.sat' takes .hi and .s32");
  Value *whole = product24(f, form), *added = f.read(3, form.type);
  f.write(0, form.has(kSat) ? saturating_add(f, whole, added) : f.builder().CreateAdd(whole, added),
          form.type);
}

void sad(FunctionTranslator& f, Modifiers modifiers) {
  const Arithmetic form = parse_arithmetic(f, modifiers, 0, 4);
  need_integer(f, form.type);
  auto& b = f.builder();
  Value *x = f.read(1, form.type), *y = f.read(2, form.type);
  Value* less = form.type.is_signed() ? b.CreateICmpSLT(x, y) : b.CreateICmpULT(x, y);
  Value* difference = b.CreateSelect(less, b.CreateSub(y, x), b.CreateSub(x, y));
  f.write(0, b.CreateAdd(f.read(3, form.type), difference), form.type);
}

void divide(FunctionTranslator& f, Modifiers modifiers, bool rest) {
  const Arithmetic form = parse_arithmetic(f, modifiers, 0, 3);
  need_integer(f, form.type);
  auto& b = f.builder();
  Value *x = f.read(1, form.type), *y = f.read(2, form.type);
  llvm::Type* type = x->getType();
  Value* zero = llvm::ConstantInt::get(type, 0);
  Value* one = llvm::ConstantInt::get(type, 1);
  Value* by_zero = b.CreateICmpEQ(y, zero);
  Value* result = nullptr;
  if (form.type.is_signed()) {
    Value* by_minus_one = b.CreateICmpEQ(y, llvm::ConstantInt::getAllOnesValue(type));
    Value* safe = b.CreateSelect(b.CreateOr(by_zero, by_minus_one), one, y);
    result = rest ? b.CreateSRem(x, safe) : b.CreateSDiv(x, safe);
    result = b.CreateSelect(by_minus_one, rest ? zero : b.CreateSub(zero, x), result);
  } else {
    Value* safe = b.CreateSelect(by_zero, one, y);
    result = rest ? b.CreateURem(x, safe) : b.CreateUDiv(x, safe);
  }
  f.write(0, b.CreateSelect(by_zero, llvm::ConstantInt::getAllOnesValue(type), result), form.type);
}

void div_integer(FunctionTranslator& f, Modifiers modifiers) { divide(f, modifiers, false); }
void rem(FunctionTranslator& f, Modifiers modifiers) { divide(f, modifiers, true); }

void min_max(FunctionTranslator& f, Modifiers modifiers, bool maximum) {
  const ptx::Type type = peek_arithmetic(f, modifiers).type;
  if (type.is_real())
    return type.bits == 16 ? half_min_max(f, modifiers, maximum)
                           : real_min_max(f, modifiers, maximum);
  const Arithmetic form = parse_arithmetic(f, modifiers, kRelu, 3);
  need_integer(f, type);
  if (form.has(kRelu) && (!type.is_signed() || type.width() != 32))
    f.invalid("'.relu' takes .s32 or .s16x2");
  auto& b = f.builder();
  const auto id = type.is_signed() ? maximum ? llvm::Intrinsic::smax : llvm::Intrinsic::smin
                  : maximum        ? llvm::Intrinsic::umax
                                   : llvm::Intrinsic::umin;
  f.write(
      0,
      per_lane(f, type, f.read(1, type), f.read(2, type),
               [&](Value* x, Value* y) {
                 Value* result = b.CreateBinaryIntrinsic(id, x, y);
                 if (!form.has(kRelu)) return result;
                 return static_cast<Value*>(b.CreateBinaryIntrinsic(
                     llvm::Intrinsic::smax, result, llvm::ConstantInt::get(result->getType(), 0)));
               }),
      type);
}

void min(FunctionTranslator& f, Modifiers modifiers) { min_max(f, modifiers, false); }
void max(FunctionTranslator& f, Modifiers modifiers) { min_max(f, modifiers, true); }

void neg_abs(FunctionTranslator& f, Modifiers modifiers, bool absolute) {
  const ptx::Type type = peek_arithmetic(f, modifiers).type;
  if (type.is_real())
    return type.bits == 16 ? half_neg_abs(f, modifiers, absolute)
                           : real_neg_abs(f, modifiers, absolute);
  parse_arithmetic(f, modifiers, 0, 2);
  need_integer(f, type);
  if (!type.is_signed()) f.invalid("a signed type is expected");
  auto& b = f.builder();
  Value* x = f.read(1, type);
  Value* minus = b.CreateNeg(x);
  Value* negative = b.CreateICmpSLT(x, llvm::ConstantInt::get(x->getType(), 0));
  f.write(0, absolute ? b.CreateSelect(negative, minus, x) : minus, type);
}

void neg(FunctionTranslator& f, Modifiers modifiers) { neg_abs(f, modifiers, false); }
void abs(FunctionTranslator& f, Modifiers modifiers) { neg_abs(f, modifiers, true); }

// Sums of products of the bytes of a, and bytes (dp4a) or halves (dp2a) of b.
void dot_product(FunctionTranslator& f, Modifiers modifiers, bool four) {
  const bool high = !four && modifiers.take_one_of(".lo", ".hi") == 1;
  const Arithmetic form = parse_arithmetic(f, modifiers, kLo | kHi, 4, 2);
  if (form.first.bits != 32 || form.type.bits != 32 || form.has(kLo | kHi))
    f.invalid("the types .u32 and .s32 are expected");
  need_integer(f, form.first);
  need_integer(f, form.type);
  auto& b = f.builder();
  Value *x = f.read(1, form.first), *y = f.read(2, form.type);
  const ptx::Type wide{form.first.is_signed() || form.type.is_signed()
                           ? ptx::Type::Kind::signed_integer
                           : ptx::Type::Kind::unsigned_integer,
                       32};
  Value* sum = f.read(3, wide);
  const auto part = [&](Value* value, unsigned at, unsigned bits, bool is_signed) {
    value = b.CreateTrunc(b.CreateLShr(value, at), b.getIntNTy(bits));
    return is_signed ? b.CreateSExt(value, b.getInt32Ty()) : b.CreateZExt(value, b.getInt32Ty());
  };
  if (four) {
    for (unsigned i = 0; i < 4; ++i)
      sum = b.CreateAdd(sum, b.CreateMul(part(x, 8 * i, 8, form.first.is_signed()),
                                         part(y, 8 * i, 8, form.type.is_signed())));
  } else {
    for (unsigned i = 0; i < 2; ++i)
      sum =
          b.CreateAdd(sum, b.CreateMul(part(x, 16 * i, 16, form.first.is_signed()),
                                       part(y, 8 * i + (high ? 16 : 0), 8, form.type.is_signed())));
  }
  f.write(0, sum, wide);
}

void dp4a(FunctionTranslator& f, Modifiers modifiers) { dot_product(f, modifiers, true); }
void dp2a(FunctionTranslator& f, Modifiers modifiers) { dot_product(f, modifiers, false); }

// Opcodes that integers share with real numbers go by the type.
template <Translate integer, RealOp op>
void by_type(FunctionTranslator& f, Modifiers modifiers) {
  const ptx::Type type = peek_arithmetic(f, modifiers).type;
  if (!type.is_real()) return integer(f, modifiers);
  if (type.bits == 16) return half_arithmetic(f, modifiers, op);
  real_arithmetic(f, modifiers, op);
}

}  // namespace

std::array<Value*, 2> unpack(FunctionTranslator& f, Value* value) {
  auto& b = f.builder();
  const unsigned half = value->getType()->getIntegerBitWidth() / 2;
  return {b.CreateTrunc(value, b.getIntNTy(half)),
          b.CreateTrunc(b.CreateLShr(value, half), b.getIntNTy(half))};
}

Value* pack(FunctionTranslator& f, Value* low, Value* high) {
  auto& b = f.builder();
  const unsigned half = low->getType()->getIntegerBitWidth();
  llvm::Type* wide = b.getIntNTy(2 * half);
  return b.CreateOr(b.CreateZExt(low, wide), b.CreateShl(b.CreateZExt(high, wide), half));
}

void add_integer(Table& table) {
  table.insert({{"add", by_type<add, RealOp::add>},
                {"sub", by_type<sub, RealOp::sub>},
                {"mul", by_type<mul, RealOp::mul>},
                {"mad", by_type<mad_only_integer, RealOp::fma>},
                {"div", by_type<div_integer, RealOp::div>},
                {"addc", add_sub_carry<false>},
                {"subc", add_sub_carry<true>},
                {"madc", madc},
                {"mul24", mul24},
                {"mad24", mad24},
                {"sad", sad},
                {"rem", rem},
                {"min", min},
                {"max", max},
                {"neg", neg},
                {"abs", abs},
                {"dp4a", dp4a},
                {"dp2a", dp2a}});
}

}  // namespace kiln::emulator::forms
