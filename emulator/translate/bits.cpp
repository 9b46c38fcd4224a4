#include <llvm/IR/Intrinsics.h>

#include "emulator/translate/arithmetic.h"
#include "kiln/support/format.h"

// Logic, shifts and fields of bits. Shifts by the width or more give zeros (or signs), as in PTX.

namespace kiln::emulator::forms {
namespace {

using llvm::Value;
using Kind = ptx::Type::Kind;

constexpr ptx::Type kU32{Kind::unsigned_integer, 32};
constexpr ptx::Type kS32{Kind::signed_integer, 32};

void need(FunctionTranslator& f, bool holds) {
  if (!holds) f.unsupported("this type is not implemented here");
}

bool is_bits(ptx::Type type, unsigned smallest, unsigned largest) {
  return type.kind == Kind::bits && type.bits >= smallest && type.bits <= largest;
}

template <llvm::Instruction::BinaryOps op>
void logic(FunctionTranslator& f, Modifiers modifiers) {
  const ptx::Type type = parse_arithmetic(f, modifiers, 0, 3).type;
  need(f, type.kind == Kind::pred || is_bits(type, 16, 64));
  f.write(0, f.builder().CreateBinOp(op, f.read(1, type), f.read(2, type)), type);
}

void not_(FunctionTranslator& f, Modifiers modifiers) {
  const ptx::Type type = parse_arithmetic(f, modifiers, 0, 2).type;
  need(f, type.kind == Kind::pred || is_bits(type, 16, 64));
  f.write(0, f.builder().CreateNot(f.read(1, type)), type);
}

void cnot(FunctionTranslator& f, Modifiers modifiers) {
  const ptx::Type type = parse_arithmetic(f, modifiers, 0, 2).type;
  need(f, is_bits(type, 16, 64));
  auto& b = f.builder();
  f.write(0, b.CreateZExt(b.CreateIsNull(f.read(1, type)), f.llvm_type(type)), type);
}

// Each bit of the result is looked up by the bits of a, b and c in an 8-bit table.
void lop3(FunctionTranslator& f, Modifiers modifiers) {
  const int combine = modifiers.take_one_of(".or", ".and");
  const ptx::Type type = f.take_type(modifiers);
  f.finish(modifiers, combine >= 0 ? 6 : 5);
  need(f, is_bits(type, 32, 32));
  auto& b = f.builder();
  const ptx::Operand& table = f.operand(4);
  if (table.kind != ptx::Operand::Kind::integer || table.value < 0 || table.value > 255)
    f.invalid("the table of 'lop3' is an integer from 0 to 255");
  Value* inputs[3] = {f.read(1, type), f.read(2, type), f.read(3, type)};
  Value* result = b.getInt32(0);
  for (unsigned row = 0; row < 8; ++row) {
    if ((table.value >> row & 1) == 0) continue;
    Value* term = nullptr;
    for (unsigned i = 0; i < 3; ++i) {
      Value* input = row >> (2 - i) & 1 ? inputs[i] : b.CreateNot(inputs[i]);
      term = term == nullptr ? input : b.CreateAnd(term, input);
    }
    result = b.CreateOr(result, term);
  }
  if (combine < 0) return f.write(0, result, type);
  const ptx::Operand& target = f.operand(0);
  if (target.kind != ptx::Operand::Kind::pair) f.invalid("a target d|p is expected");
  Value* predicate = f.read_predicate(f.operand(5));
  Value* any = b.CreateIsNotNull(result);
  f.write(target.elements[0], result, type);
  f.write(target.elements[1],
          combine == 0 ? b.CreateOr(any, predicate) : b.CreateAnd(any, predicate), {Kind::pred, 1});
}

void shift(FunctionTranslator& f, Modifiers modifiers, bool left) {
  const ptx::Type type = parse_arithmetic(f, modifiers, 0, 3).type;
  need(f, left ? is_bits(type, 16, 64) : type.is_integer() && type.bits >= 16 && type.bits <= 64);
  auto& b = f.builder();
  Value *value = f.read(1, type), *amount = f.read(2, kU32);
  const unsigned bits = type.bits;
  Value* over = b.CreateICmpUGE(amount, b.getInt32(bits));
  const auto fit = [&](Value* count) {
    return bits <= 32 ? b.CreateTrunc(count, f.int_type(bits))
                      : b.CreateZExt(count, f.int_type(bits));
  };
  Value* result = nullptr;
  if (type.is_signed()) {
    result = b.CreateAShr(value, fit(b.CreateSelect(over, b.getInt32(bits - 1), amount)));
  } else {
    Value* safe = fit(b.CreateSelect(over, b.getInt32(0), amount));
    result = left ? b.CreateShl(value, safe) : b.CreateLShr(value, safe);
    result = b.CreateSelect(over, llvm::ConstantInt::get(value->getType(), 0), result);
  }
  f.write(0, result, type);
}

void shl(FunctionTranslator& f, Modifiers modifiers) { shift(f, modifiers, true); }
void shr(FunctionTranslator& f, Modifiers modifiers) { shift(f, modifiers, false); }

// The high (l) or low (r) word of the pair b:a, shifted.
void shf(FunctionTranslator& f, Modifiers modifiers) {
  const Arithmetic form = parse_arithmetic(f, modifiers, kLeft | kRight | kWrap | kClamp, 4);
  need(f, is_bits(form.type, 32, 32));
  if (form.has(kLeft) == form.has(kRight) || form.has(kWrap) == form.has(kClamp))
    f.invalid("'.l' or '.r' and '.wrap' or '.clamp' are expected");
  auto& b = f.builder();
  Value* whole = pack(f, f.read(1, form.type), f.read(2, form.type));
  Value* amount = f.read(3, kU32);
  amount = form.has(kWrap) ? b.CreateAnd(amount, b.getInt32(31))
                           : b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, amount, b.getInt32(32));
  amount = b.CreateZExt(amount, b.getInt64Ty());
  Value* result =
      form.has(kLeft) ? b.CreateLShr(b.CreateShl(whole, amount), 32) : b.CreateLShr(whole, amount);
  f.write(0, b.CreateTrunc(result, b.getInt32Ty()), form.type);
}

// The position is 8 bits of b, the length 8 bits of c; both count within the value, and a signed
// field that ends beyond it takes the value's sign.
void bfe(FunctionTranslator& f, Modifiers modifiers) {
  const ptx::Type type = parse_arithmetic(f, modifiers, 0, 4).type;
  need(f, type.is_integer() && type.kind != Kind::bits && type.bits >= 32);
  auto& b = f.builder();
  const unsigned bits = type.bits;
  llvm::Type* wide = b.getIntNTy(2 * bits);
  Value* value = f.read(1, type);
  Value* position = b.CreateAnd(f.read(2, kU32), 255);
  Value* length = b.CreateAnd(f.read(3, kU32), 255);
  // In twice the width, with the sign in front, every position and length below the width is safe.
  Value* extended = type.is_signed() ? b.CreateSExt(value, wide) : b.CreateZExt(value, wide);
  const auto cap = [&](Value* count) {
    count = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, count, b.getInt32(bits));
    return b.CreateZExtOrTrunc(count, wide);
  };
  Value* field = type.is_signed() ? b.CreateAShr(extended, cap(position))
                                  : b.CreateLShr(extended, cap(position));
  Value* unused = b.CreateSub(llvm::ConstantInt::get(wide, 2 * bits), cap(length));
  Value* empty = b.CreateIsNull(length);
  unused = b.CreateSelect(empty, llvm::ConstantInt::get(wide, 0), unused);
  field = b.CreateShl(field, unused);
  field = type.is_signed() ? b.CreateAShr(field, unused) : b.CreateLShr(field, unused);
  field = b.CreateSelect(empty, llvm::ConstantInt::get(wide, 0), field);
  f.write(0, b.CreateTrunc(field, value->getType()), type);
}

// Bits [position, position + length) of the second operand become the low ones of the first.
void bfi(FunctionTranslator& f, Modifiers modifiers) {
  const ptx::Type type = parse_arithmetic(f, modifiers, 0, 5).type;
  need(f, is_bits(type, 32, 64));
  auto& b = f.builder();
  const unsigned bits = type.bits;
  llvm::Type* wide = b.getIntNTy(2 * bits);
  Value* from = b.CreateZExt(f.read(1, type), wide);
  Value* into = f.read(2, type);
  const auto cap = [&](Value* count) {
    count =
        b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b.CreateAnd(count, 255), b.getInt32(bits));
    return b.CreateZExtOrTrunc(count, wide);
  };
  Value *position = cap(f.read(3, kU32)), *length = cap(f.read(4, kU32));
  Value* one = llvm::ConstantInt::get(wide, 1);
  Value* mask = b.CreateShl(b.CreateSub(b.CreateShl(one, length), one), position);
  mask = b.CreateTrunc(mask, into->getType());
  Value* moved = b.CreateTrunc(b.CreateShl(from, position), into->getType());
  f.write(0, b.CreateOr(b.CreateAnd(into, b.CreateNot(mask)), b.CreateAnd(moved, mask)), type);
}

// The position of the highest bit that is set (that differs from the sign), or -1.
void bfind(FunctionTranslator& f, Modifiers modifiers) {
  const Arithmetic form = parse_arithmetic(f, modifiers, kShiftAmount, 2);
  need(f, form.type.is_integer() && form.type.kind != Kind::bits && form.type.bits >= 32);
  auto& b = f.builder();
  Value* value = f.read(1, form.type);
  llvm::Type* type = value->getType();
  if (form.type.is_signed()) value = b.CreateXor(value, b.CreateAShr(value, form.type.bits - 1));
  Value* zeros = b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, value, b.getInt1(false));
  Value* result = form.has(kShiftAmount)
                      ? zeros
                      : b.CreateSub(llvm::ConstantInt::get(type, form.type.bits - 1), zeros);
  result = b.CreateSelect(b.CreateIsNull(value), llvm::ConstantInt::getAllOnesValue(type), result);
  f.write(0, b.CreateTrunc(result, b.getInt32Ty()), kU32);
}

void brev(FunctionTranslator& f, Modifiers modifiers) {
  const ptx::Type type = parse_arithmetic(f, modifiers, 0, 2).type;
  need(f, is_bits(type, 32, 64));
  f.write(0, f.builder().CreateUnaryIntrinsic(llvm::Intrinsic::bitreverse, f.read(1, type)), type);
}

void clz(FunctionTranslator& f, Modifiers modifiers) {
  const ptx::Type type = parse_arithmetic(f, modifiers, 0, 2).type;
  need(f, is_bits(type, 32, 64));
  auto& b = f.builder();
  Value* zeros = b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, f.read(1, type), b.getInt1(false));
  f.write(0, b.CreateTrunc(zeros, b.getInt32Ty()), kU32);
}

void popc(FunctionTranslator& f, Modifiers modifiers) {
  const ptx::Type type = parse_arithmetic(f, modifiers, 0, 2).type;
  need(f, is_bits(type, 32, 64));
  auto& b = f.builder();
  f.write(0,
          b.CreateTrunc(b.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, f.read(1, type)),
                        b.getInt32Ty()),
          kU32);
}

// The position of the n-th bit that is set, counted from a base upwards or downwards.
void fns(FunctionTranslator& f, Modifiers modifiers) {
  const ptx::Type type = parse_arithmetic(f, modifiers, 0, 4).type;
  need(f, is_bits(type, 32, 32));
  f.write(0,
          f.call("kiln_fns", f.builder().getInt32Ty(),
                 {f.read(1, kU32), f.read(2, kU32), f.read(3, kS32)}),
          kU32);
}

// Picks four bytes out of eight, each by four bits of the selector: three name the byte, the fourth
// repeats its sign instead.
Value* permute(FunctionTranslator& f, Value* bytes, Value* selector) {
  auto& b = f.builder();
  Value* result = b.getInt32(0);
  for (unsigned i = 0; i < 4; ++i) {
    Value* which = b.CreateLShr(selector, 4 * i);
    Value* shift = b.CreateZExt(b.CreateShl(b.CreateAnd(which, 7), 3), b.getInt64Ty());
    Value* byte = b.CreateTrunc(b.CreateLShr(bytes, shift), b.getInt8Ty());
    Value* sign = b.CreateAShr(byte, 7);
    Value* repeat = b.CreateIsNotNull(b.CreateAnd(which, 8));
    byte = b.CreateZExt(b.CreateSelect(repeat, sign, byte), b.getInt32Ty());
    result = b.CreateOr(result, b.CreateShl(byte, 8 * i));
  }
  return result;
}

// The selectors of the named modes, by the two low bits of c.
constexpr std::uint32_t kPermutations[6][4] = {
    {0x3210, 0x4321, 0x5432, 0x6543},  // .f4e: forward four bytes
    {0x5670, 0x6701, 0x7012, 0x0123},  // .b4e: backward four bytes
    {0x0000, 0x1111, 0x2222, 0x3333},  // .rc8: replicate a byte
    {0x3210, 0x3211, 0x3222, 0x3333},  // .ecl: clamp to the left
    {0x0000, 0x1110, 0x2210, 0x3210},  // .ecr: clamp to the right
    {0x1010, 0x3232, 0x1010, 0x3232},  // .rc16: replicate a half
};

void prmt(FunctionTranslator& f, Modifiers modifiers) {
  const ptx::Type type = f.take_type(modifiers);
  const int mode = modifiers.take_one_of(".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16");
  f.finish(modifiers, 4);
  need(f, is_bits(type, 32, 32));
  auto& b = f.builder();
  Value* bytes = pack(f, f.read(1, type), f.read(2, type));
  Value* selector = f.read(3, type);
  if (mode >= 0) {
    Value* low = b.CreateAnd(selector, 3);
    selector = b.getInt32(kPermutations[mode][3]);
    for (unsigned i = 0; i < 3; ++i)
      selector = b.CreateSelect(b.CreateICmpEQ(low, b.getInt32(i)),
                                b.getInt32(kPermutations[mode][i]), selector);
  }
  f.write(0, permute(f, bytes, selector), type);
}

// The low bits of a value as a number of that many bits.
void szext(FunctionTranslator& f, Modifiers modifiers) {
  const Arithmetic form = parse_arithmetic(f, modifiers, kWrap | kClamp, 3);
  need(f, form.type.is_integer() && form.type.kind != Kind::bits && form.type.bits == 32);
  if (form.has(kWrap) == form.has(kClamp)) f.invalid("'.wrap' or '.clamp' is expected");
  auto& b = f.builder();
  Value* value = f.read(1, form.type);
  Value* count = f.read(2, kU32);
  count = form.has(kWrap) ? b.CreateAnd(count, 31)
                          : b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, count, b.getInt32(32));
  Value* unused = b.CreateZExt(b.CreateSub(b.getInt32(32), count), b.getInt64Ty());
  Value* wide = b.CreateShl(b.CreateZExt(value, b.getInt64Ty()), b.getInt64(32));
  wide = b.CreateShl(wide, unused);
  wide = form.type.is_signed() ? b.CreateAShr(wide, b.getInt64(32)) : b.CreateLShr(wide, 32);
  wide = form.type.is_signed() ? b.CreateAShr(wide, unused) : b.CreateLShr(wide, unused);
  f.write(0, b.CreateTrunc(wide, b.getInt32Ty()), form.type);
}

// c ones from position a on.
void bmsk(FunctionTranslator& f, Modifiers modifiers) {
  const Arithmetic form = parse_arithmetic(f, modifiers, kWrap | kClamp, 3);
  need(f, is_bits(form.type, 32, 32));
  if (form.has(kWrap) == form.has(kClamp)) f.invalid("'.wrap' or '.clamp' is expected");
  auto& b = f.builder();
  Value *position = f.read(1, kU32), *count = f.read(2, kU32);
  const auto fit = [&](Value* value) {
    value = form.has(kWrap) ? b.CreateAnd(value, 31)
                            : b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, value, b.getInt32(32));
    return b.CreateZExt(value, b.getInt64Ty());
  };
  Value* one = b.getInt64(1);
  Value* ones = b.CreateSub(b.CreateShl(one, fit(count)), one);
  f.write(0, b.CreateTrunc(b.CreateShl(ones, fit(position)), b.getInt32Ty()), form.type);
}

}  // namespace

void add_bits(Table& table) {
  table.insert({{"and", logic<llvm::Instruction::And>},
                {"or", logic<llvm::Instruction::Or>},
                {"xor", logic<llvm::Instruction::Xor>},
                {"not", not_},
                {"cnot", cnot},
                {"lop3", lop3},
                {"shl", shl},
                {"shr", shr},
                {"shf", shf},
                {"bfe", bfe},
                {"bfi", bfi},
                {"bfind", bfind},
                {"brev", brev},
                {"clz", clz},
                {"popc", popc},
                {"fns", fns},
                {"prmt", prmt},
                {"szext", szext},
                {"bmsk", bmsk}});
}

}  // namespace kiln::emulator::forms
