#include <llvm/IR/Intrinsics.h>

#include "emulator/translate/arithmetic.h"
#include "kiln/support/format.h"

// Arithmetic of .f16 and .bf16, one and two lanes. A half is computed in a wider format and rounded
// once more, which is exact where the wide one has twice the digits and two more, or the wide
// result is rounded to odd: 16-bit halves have 11 and 8 digits, .f32 has 24, .f64 has 53.

namespace kiln::emulator::forms {
namespace {

using llvm::Value;
using Kind = ptx::Type::Kind;

ptx::Type lane_of(ptx::Type type) {
  type.lanes = 1;
  return type;
}

void need_half(FunctionTranslator& f, ptx::Type type) {
  if (!type.is_real() || type.bits != 16) f.unsupported("this type is not implemented here");
}

// Makes the last digit odd where `value` is not exact, so that rounding once more is as if it had
// been done at once. `error` is what the exact number has beyond `value`.
Value* to_odd(FunctionTranslator& f, Value* value, Value* error) {
  auto& b = f.builder();
  llvm::Type* type = value->getType();
  Value* bits = f.to_bits(value);
  Value* zero = llvm::ConstantFP::get(type, 0.0);
  Value* one = llvm::ConstantInt::get(bits->getType(), 1);
  // Without NaN: then nothing is done.
  Value* inexact = b.CreateFCmpONE(error, zero);
  Value* even = b.CreateIsNull(b.CreateAnd(bits, one));
  // By the sign bit, since an underflow gives a zero of either sign.
  Value* negative = b.CreateICmpSLT(bits, llvm::ConstantInt::get(bits->getType(), 0));
  Value* away = b.CreateICmpEQ(b.CreateFCmpOLT(error, zero), negative);
  Value* odd = b.CreateSelect(away, b.CreateAdd(bits, one), b.CreateSub(bits, one));
  return b.CreateBitCast(b.CreateSelect(b.CreateAnd(inexact, even), odd, bits), type);
}

Value* double_to_odd_single(FunctionTranslator& f, Value* value) {
  auto& b = f.builder();
  Value* single = b.CreateFPTrunc(value, b.getFloatTy());
  Value* error = b.CreateFSub(value, b.CreateFPExt(single, b.getDoubleTy()));
  // An overflow differs from the number by infinity, which has the right sign.
  return to_odd(f, single, b.CreateFPTrunc(sign_only(f, error), b.getFloatTy()));
}

// x * y + z, rounded to odd at double precision; the product of halves is exact.
Value* odd_fma(FunctionTranslator& f, Value* x, Value* y, Value* z) {
  auto& b = f.builder();
  const auto wide = [&](Value* value) { return b.CreateFPExt(value, b.getDoubleTy()); };
  Value* product = b.CreateFMul(wide(x), wide(y));
  if (z == nullptr) return product;
  Value* added = wide(z);
  Value* sum = b.CreateFAdd(product, added);
  Value* part = b.CreateFSub(sum, product);
  Value* error =
      b.CreateFAdd(b.CreateFSub(product, b.CreateFSub(sum, part)), b.CreateFSub(added, part));
  return to_odd(f, sum, error);
}

Value* compute(FunctionTranslator& f, RealOp op, ptx::Type type, const std::array<Value*, 3>& x) {
  auto& b = f.builder();
  switch (op) {
    case RealOp::add:
      return b.CreateFAdd(x[0], x[1]);
    case RealOp::sub:
      return b.CreateFSub(x[0], x[1]);
    case RealOp::mul:
      // Products of bf16 can lie below what .f32 holds exactly.
      if (type.kind == Kind::bfloat)
        return double_to_odd_single(f, odd_fma(f, x[0], x[1], nullptr));
      return b.CreateFMul(x[0], x[1]);
    case RealOp::fma:
      return double_to_odd_single(f, odd_fma(f, x[0], x[1], x[2]));
    default:
      f.unsupported("this type is not implemented here");
  }
}

Value* flush_half(FunctionTranslator& f, Value* bits) {
  auto& b = f.builder();
  Value* small = b.CreateIsNull(b.CreateAnd(bits, b.getInt16(0x7c00)));
  return b.CreateSelect(small, b.CreateAnd(bits, b.getInt16(0x8000)), bits);
}

Value* relu(FunctionTranslator& f, Value* value) {
  auto& b = f.builder();
  Value* zero = llvm::ConstantFP::get(value->getType(), 0.0);
  return b.CreateSelect(b.CreateFCmpULE(value, zero),
                        b.CreateSelect(b.CreateFCmpUNO(value, value), value, zero), value);
}

// Applies `op` to each lane of the sources, as bits.
template <typename Op>
Value* per_lane(FunctionTranslator& f, ptx::Type type, std::size_t sources, Op op) {
  std::array<Value*, 3> x{};
  for (std::size_t i = 0; i < sources; ++i) x[i] = f.read(i + 1, type);
  if (type.lanes == 1) return op(x);
  std::array<Value*, 3> low{}, high{};
  for (std::size_t i = 0; i < sources; ++i) {
    const auto lanes = unpack(f, x[i]);
    low[i] = lanes[0];
    high[i] = lanes[1];
  }
  Value* first = op(low);
  return pack(f, first, op(high));
}

}  // namespace

Value* sign_only(FunctionTranslator& f, Value* value) {
  // 1, -1, 0 or NaN: the size of an error may be beyond what a narrower type holds.
  auto& b = f.builder();
  llvm::Type* type = value->getType();
  Value* zero = llvm::ConstantFP::get(type, 0.0);
  Value* one =
      b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, llvm::ConstantFP::get(type, 1.0), value);
  return b.CreateSelect(b.CreateFCmpONE(value, zero), one, zero);
}

Value* widen(FunctionTranslator& f, Value* bits, ptx::Type type) {
  auto& b = f.builder();
  if (type.kind == Kind::bfloat)
    return b.CreateBitCast(b.CreateShl(b.CreateZExt(bits, b.getInt32Ty()), 16), b.getFloatTy());
  return b.CreateFPExt(b.CreateBitCast(bits, b.getHalfTy()), b.getFloatTy());
}

Value* narrow(FunctionTranslator& f, Value* value, ptx::Type type) {
  auto& b = f.builder();
  Value* result = nullptr;
  if (type.kind == Kind::bfloat) {
    // In integers: the processor's own instruction flushes subnormals.
    Value* bits = b.CreateBitCast(value, b.getInt32Ty());
    Value* odd = b.CreateAnd(b.CreateLShr(bits, 16), 1);
    result = b.CreateTrunc(
        b.CreateLShr(b.CreateAdd(bits, b.CreateAdd(odd, b.getInt32(0x7fff))), 16), b.getInt16Ty());
  } else {
    result = b.CreateBitCast(b.CreateFPTrunc(value, b.getHalfTy()), b.getInt16Ty());
  }
  return b.CreateSelect(b.CreateFCmpUNO(value, value), b.getInt16(0x7fff), result);
}

void half_arithmetic(FunctionTranslator& f, Modifiers modifiers, RealOp op) {
  const Arithmetic peeked = peek_arithmetic(f, modifiers);
  need_half(f, peeked.type);
  const bool ieee = peeked.type.kind == Kind::real;
  std::uint32_t allowed = kRn | (ieee ? kFtz | kSat : 0);
  if (op == RealOp::fma) allowed |= kRelu;
  const std::size_t count = op == RealOp::fma ? 3 : 2;
  const Arithmetic form = parse_arithmetic(f, modifiers, allowed, count + 1);
  if (op == RealOp::fma && !form.has(kRn)) f.invalid("'.rn' is expected");
  if (form.has(kRelu) && form.has(kSat)) f.invalid("'.relu' and '.sat' exclude each other");
  const ptx::Type lane = lane_of(form.type);
  f.write(0,
          per_lane(f, form.type, count,
                   [&](std::array<Value*, 3> x) {
                     for (std::size_t i = 0; i < count; ++i)
                       x[i] = widen(f, form.has(kFtz) ? flush_half(f, x[i]) : x[i], lane);
                     Value* result = compute(f, op, lane, x);
                     if (form.has(kSat)) result = saturate(f, result);
                     if (form.has(kRelu)) result = relu(f, result);
                     Value* bits = narrow(f, result, lane);
                     return form.has(kFtz) ? flush_half(f, bits) : bits;
                   }),
          form.type);
}

void half_min_max(FunctionTranslator& f, Modifiers modifiers, bool maximum) {
  const ptx::Type type = peek_arithmetic(f, modifiers).type;
  need_half(f, type);
  const Arithmetic form = parse_arithmetic(
      f, modifiers, kNan | kXorSign | kAbs | (type.kind == Kind::real ? kFtz : 0), 3);
  if (form.has(kXorSign) != form.has(kAbs)) f.invalid("'.xorsign.abs' is expected");
  const auto id = form.has(kNan) ? maximum ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum
                  : maximum      ? llvm::Intrinsic::maximumnum
                                 : llvm::Intrinsic::minimumnum;
  const ptx::Type lane = lane_of(type);
  auto& b = f.builder();
  f.write(0,
          per_lane(f, type, 2,
                   [&](std::array<Value*, 3> x) -> Value* {
                     for (int i = 0; i < 2; ++i)
                       if (form.has(kFtz)) x[i] = flush_half(f, x[i]);
                     Value* sign = b.CreateAnd(b.CreateXor(x[0], x[1]), b.getInt16(0x8000));
                     for (int i = 0; i < 2; ++i) {
                       if (form.has(kAbs)) x[i] = b.CreateAnd(x[i], b.getInt16(0x7fff));
                       x[i] = widen(f, x[i], lane);
                     }
                     Value* result = b.CreateBinaryIntrinsic(id, x[0], x[1]);
                     Value* bits = narrow(f, result, lane);
                     if (!form.has(kXorSign)) return bits;
                     Value* nan = b.CreateFCmpUNO(result, result);
                     return b.CreateSelect(nan, bits, b.CreateOr(bits, sign));
                   }),
          type);
}

void half_neg_abs(FunctionTranslator& f, Modifiers modifiers, bool absolute) {
  const ptx::Type type = peek_arithmetic(f, modifiers).type;
  need_half(f, type);
  const Arithmetic form = parse_arithmetic(f, modifiers, type.kind == Kind::real ? kFtz : 0, 2);
  auto& b = f.builder();
  f.write(0,
          per_lane(f, type, 1,
                   [&](std::array<Value*, 3> x) {
                     Value* bits = form.has(kFtz) ? flush_half(f, x[0]) : x[0];
                     return absolute ? b.CreateAnd(bits, b.getInt16(0x7fff))
                                     : b.CreateXor(bits, b.getInt16(0x8000));
                   }),
          type);
}

namespace {

// What a function of one .f32 computes, at the precision of a half.
template <bool exponential>
void approximate_half(FunctionTranslator& f, const Arithmetic& form) {
  const ptx::Type lane = lane_of(form.type);
  auto& b = f.builder();
  f.write(0,
          per_lane(f, form.type, 1,
                   [&](std::array<Value*, 3> x) {
                     Value* wide = widen(f, x[0], lane);
                     if (form.has(kFtz)) wide = flush(f, wide);
                     Value* result = f.call(exponential ? "kiln_ex2_f32" : "kiln_tanh_f32",
                                            b.getFloatTy(), {wide});
                     Value* bits = narrow(f, result, lane);
                     return form.has(kFtz) && lane.kind == Kind::bfloat
                                ? narrow(f, flush(f, widen(f, bits, lane)), lane)
                                : bits;
                   }),
          form.type);
}

}  // namespace

void half_ex2(FunctionTranslator& f, const Arithmetic& form) { approximate_half<true>(f, form); }
void half_tanh(FunctionTranslator& f, const Arithmetic& form) { approximate_half<false>(f, form); }

}  // namespace kiln::emulator::forms
