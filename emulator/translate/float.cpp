#include <llvm/IR/Intrinsics.h>

#include "emulator/translate/arithmetic.h"
#include "kiln/support/format.h"

// Arithmetic of .f32 and .f64. LLVM's instructions round to nearest and keep subnormals; other
// rounding modes are calls of the runtime, which sets the processor's mode around one operation.
// Nothing is contracted, so a product and a sum stay two roundings.

namespace kiln::emulator::forms {
namespace {

using llvm::Value;

constexpr std::size_t kOperands[] = {2, 2, 2, 3, 2, 1, 1};  // of RealOp

Value* nearest(FunctionTranslator& f, RealOp op, const std::array<Value*, 3>& x) {
  auto& b = f.builder();
  switch (op) {
    case RealOp::add:
      return b.CreateFAdd(x[0], x[1]);
    case RealOp::sub:
      return b.CreateFSub(x[0], x[1]);
    case RealOp::mul:
      return b.CreateFMul(x[0], x[1]);
    case RealOp::div:
      return b.CreateFDiv(x[0], x[1]);
    case RealOp::fma:
      return b.CreateIntrinsic(llvm::Intrinsic::fma, {x[0]->getType()}, {x[0], x[1], x[2]});
    case RealOp::sqrt:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x[0]);
    case RealOp::rcp:
      return b.CreateFDiv(llvm::ConstantFP::get(x[0]->getType(), 1.0), x[0]);
  }
  return nullptr;
}

Value* directed(FunctionTranslator& f, RealOp op, unsigned mode,
                const std::array<Value*, 3>& operands) {
  auto& b = f.builder();
  std::array<Value*, 3> x = operands;
  llvm::Type* type = x[0]->getType();
  if (op == RealOp::rcp) {
    x[1] = x[0];
    x[0] = llvm::ConstantFP::get(type, 1.0);
    op = RealOp::div;
  }
  for (Value*& value : x)
    if (value == nullptr) value = llvm::ConstantFP::get(type, 0.0);
  return f.call(type->isFloatTy() ? "kiln_directed_f32" : "kiln_directed_f64", type,
                {b.getInt32(static_cast<unsigned>(op)), b.getInt32(mode), x[0], x[1], x[2]});
}

Value* all_bits_nan(FunctionTranslator& f, llvm::Type* type) {
  auto& b = f.builder();
  if (type->isFloatTy()) return b.CreateBitCast(b.getInt32(0x7fffffff), type);
  return b.CreateBitCast(b.getInt64(0x7fffffffffffffffULL), type);
}

std::uint32_t allowed_flags(RealOp op, ptx::Type type, std::uint32_t flags) {
  std::uint32_t allowed = kRounding;
  if (type.bits == 32) allowed |= kFtz;
  if (type.bits == 32 && op <= RealOp::fma) allowed |= kSat;
  if (op == RealOp::div && type.bits == 32 && (flags & (kApprox | kFull)) != 0)
    allowed = kApprox | kFull | kFtz;
  return allowed;
}

}  // namespace

Value* flush(FunctionTranslator& f, Value* value) {
  auto& b = f.builder();
  Value* bits = b.CreateBitCast(value, b.getInt32Ty());
  Value* small = b.CreateIsNull(b.CreateAnd(bits, 0x7f800000));
  Value* zero = b.CreateAnd(bits, 0x80000000);
  return b.CreateBitCast(b.CreateSelect(small, zero, bits), value->getType());
}

Value* saturate(FunctionTranslator& f, Value* value) {
  auto& b = f.builder();
  llvm::Type* type = value->getType();
  Value *zero = llvm::ConstantFP::get(type, 0.0), *one = llvm::ConstantFP::get(type, 1.0);
  Value* below = b.CreateSelect(b.CreateFCmpOLT(value, one), value, one);
  return b.CreateSelect(b.CreateFCmpOGT(value, zero), below, zero);
}

Value* canonical(FunctionTranslator& f, Value* value) {
  auto& b = f.builder();
  return b.CreateSelect(b.CreateFCmpUNO(value, value), all_bits_nan(f, value->getType()), value);
}

void real_arithmetic(FunctionTranslator& f, Modifiers modifiers, RealOp op) {
  const Arithmetic peeked = peek_arithmetic(f, modifiers);
  const ptx::Type type = peeked.type;
  if (type.kind != ptx::Type::Kind::real || type.lanes != 1 || type.bits < 32)
    f.unsupported("this type is not implemented here");
  const std::size_t count = kOperands[static_cast<std::size_t>(op)];
  const Arithmetic form =
      parse_arithmetic(f, modifiers, allowed_flags(op, type, peeked.flags), count + 1);
  const bool must_round =
      op == RealOp::fma || op == RealOp::sqrt || op == RealOp::rcp || op == RealOp::div;
  if (must_round && !form.has(kRounding | kApprox | kFull))
    f.invalid("a rounding mode such as '.rn' is expected");
  std::array<Value*, 3> x{};
  for (std::size_t i = 0; i < count; ++i) {
    x[i] = f.read(i + 1, type);
    if (form.has(kFtz)) x[i] = flush(f, x[i]);
  }
  // Division by approximation may err; the exact quotient is the best that it may give.
  const unsigned mode = rounding_number(form.flags);
  Value* result = mode == 0 ? nearest(f, op, x) : directed(f, op, mode, x);
  if (form.has(kFtz)) result = flush(f, result);
  if (form.has(kSat)) result = saturate(f, result);
  f.write(0, result, type);
}

void real_min_max(FunctionTranslator& f, Modifiers modifiers, bool maximum) {
  const ptx::Type type = peek_arithmetic(f, modifiers).type;
  const std::uint32_t allowed = type.bits == 32 ? kFtz | kNan | kXorSign | kAbs : 0;
  const Arithmetic form = parse_arithmetic(f, modifiers, allowed, 3);
  if (type.kind != ptx::Type::Kind::real || type.bits < 32)
    f.unsupported("this type is not implemented here");
  if (form.has(kXorSign) != form.has(kAbs)) f.invalid("'.xorsign.abs' is expected");
  auto& b = f.builder();
  Value *x = f.read(1, type), *y = f.read(2, type);
  if (form.has(kFtz)) {
    x = flush(f, x);
    y = flush(f, y);
  }
  Value* sign = nullptr;
  if (form.has(kXorSign)) {
    sign = b.CreateAnd(b.CreateXor(f.to_bits(x), f.to_bits(y)), 0x80000000);
    x = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
    y = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, y);
  }
  // A NaN gives way to a number, unless .NaN asks for it; zeros are ordered by sign.
  const auto id = form.has(kNan) ? maximum ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum
                  : maximum      ? llvm::Intrinsic::maximumnum
                                 : llvm::Intrinsic::minimumnum;
  Value* result = b.CreateBinaryIntrinsic(id, x, y);
  Value* nan = b.CreateFCmpUNO(result, result);
  if (sign != nullptr) result = f.from_bits(b.CreateOr(f.to_bits(result), sign), type);
  f.write(0, b.CreateSelect(nan, all_bits_nan(f, result->getType()), result), type);
}

void real_neg_abs(FunctionTranslator& f, Modifiers modifiers, bool absolute) {
  const ptx::Type type = peek_arithmetic(f, modifiers).type;
  const Arithmetic form = parse_arithmetic(f, modifiers, type.bits == 32 ? kFtz : 0, 2);
  if (type.kind != ptx::Type::Kind::real || type.bits < 32)
    f.unsupported("this type is not implemented here");
  auto& b = f.builder();
  Value* x = f.read(1, type);
  if (form.has(kFtz)) x = flush(f, x);
  f.write(0, absolute ? b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x) : b.CreateFNeg(x), type);
}

namespace {

void fma(FunctionTranslator& f, Modifiers modifiers) {
  if (peek_arithmetic(f, modifiers).type.bits == 16)
    return half_arithmetic(f, modifiers, RealOp::fma);
  real_arithmetic(f, modifiers, RealOp::fma);
}

void copysign(FunctionTranslator& f, Modifiers modifiers) {
  const ptx::Type type = parse_arithmetic(f, modifiers, 0, 3).type;
  if (type.kind != ptx::Type::Kind::real || type.bits < 32)
    f.unsupported("this type is not implemented here");
  // The sign comes from the first source.
  f.write(0,
          f.builder().CreateBinaryIntrinsic(llvm::Intrinsic::copysign, f.read(2, type),
                                            f.read(1, type)),
          type);
}

}  // namespace

void add_float(Table& table) { table.insert({{"fma", fma}, {"copysign", copysign}}); }

}  // namespace kiln::emulator::forms
