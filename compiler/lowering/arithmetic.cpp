// Arithmetic, comparison and logic, and the choice of the lowering for each op.

#include "compiler/lowering/lowering.h"
#include "kiln/support/error.h"

namespace kiln::compiler {

using graph::OpKind;

llvm::Value* Lowering::unary(OpKind kind, llvm::Value* x, DType dtype,
                             std::string_view approximate) {
  llvm::IRBuilderBase::FastMathFlagGuard guard(b);
  b.clearFastMathFlags();
  if (kind == OpKind::logical_not) return b.CreateNot(x);
  if (kind == OpKind::is_nan || kind == OpKind::is_inf) {
    if (!dtype.is_float())
      return llvm::ConstantInt::getFalse(with_lanes(b.getInt1Ty(), x->getType()));
    if (kind == OpKind::is_nan) return b.CreateFCmpUNO(x, x);
    return b.CreateFCmpOEQ(abs(x), llvm::ConstantFP::getInfinity(x->getType()));
  }
  if (!dtype.is_float()) return integer_unary(kind, x, dtype);
  bool precise = dtype == DType::float32 || dtype == DType::float64;
  llvm::Value* result =
      kind == OpKind::gelu ? gelu(x, approximate, precise) : float_unary(kind, x, precise);
  // These give values of the dtype already.
  bool exact = kind == OpKind::abs || kind == OpKind::negate || kind == OpKind::relu ||
               kind == OpKind::ceil || kind == OpKind::floor || kind == OpKind::trunc ||
               kind == OpKind::round;
  return exact ? result : round_to(result, dtype);
}

llvm::Value* Lowering::binary(OpKind kind, llvm::Value* x, llvm::Value* y, DType dtype) {
  llvm::IRBuilderBase::FastMathFlagGuard guard(b);
  b.clearFastMathFlags();
  switch (kind) {
    case OpKind::equal:
    case OpKind::not_equal:
    case OpKind::greater:
    case OpKind::greater_equal:
      return compare(kind, x, y, dtype);
    case OpKind::logical_and:
      return b.CreateAnd(x, y);
    case OpKind::logical_or:
      return b.CreateOr(x, y);
    case OpKind::logical_xor:
      return b.CreateXor(x, y);
    default:
      break;
  }
  if (dtype == DType::bool_) {
    KILN_CHECK(kind == OpKind::max || kind == OpKind::min, "Arithmetic on bool.");
    return kind == OpKind::max ? b.CreateOr(x, y) : b.CreateAnd(x, y);
  }
  if (!dtype.is_float()) return integer_binary(kind, x, y, dtype);
  llvm::Value* result = float_binary(kind, x, y);
  bool exact = kind == OpKind::max || kind == OpKind::min;
  return exact ? result : round_to(result, dtype);
}

llvm::Value* Lowering::compare(OpKind kind, llvm::Value* x, llvm::Value* y, DType dtype) {
  using P = llvm::CmpInst::Predicate;
  if (dtype.is_float()) {
    switch (kind) {
      case OpKind::equal:
        return b.CreateFCmpOEQ(x, y);
      case OpKind::not_equal:
        return b.CreateFCmpUNE(x, y);
      case OpKind::greater:
        return b.CreateFCmpOGT(x, y);
      default:
        return b.CreateFCmpOGE(x, y);
    }
  }
  bool sign = dtype.is_signed_integral();
  switch (kind) {
    case OpKind::equal:
      return b.CreateICmpEQ(x, y);
    case OpKind::not_equal:
      return b.CreateICmpNE(x, y);
    case OpKind::greater:
      return b.CreateICmp(sign ? P::ICMP_SGT : P::ICMP_UGT, x, y);
    default:
      return b.CreateICmp(sign ? P::ICMP_SGE : P::ICMP_UGE, x, y);
  }
}

llvm::Value* Lowering::integer_unary(OpKind kind, llvm::Value* x, DType dtype) {
  llvm::Value* zero = integer(x, 0);
  switch (kind) {
    case OpKind::abs:
      if (!dtype.is_signed_integral()) return x;
      return b.CreateSelect(b.CreateICmpSLT(x, zero), b.CreateSub(zero, x), x);
    case OpKind::negate:
      return b.CreateSub(zero, x);
    case OpKind::relu:
      return dtype.is_signed_integral() ? b.CreateSelect(b.CreateICmpSGT(x, zero), x, zero) : x;
    default:
      break;
  }
  KILN_CHECK(false, "No integer lowering for op " + std::to_string(static_cast<int>(kind)) + ".");
  return nullptr;
}

llvm::Value* Lowering::integer_binary(OpKind kind, llvm::Value* x, llvm::Value* y, DType dtype) {
  bool sign = dtype.is_signed_integral();
  llvm::Value* zero = integer(x, 0);
  switch (kind) {
    case OpKind::add:
      return b.CreateAdd(x, y);
    case OpKind::sub:
      return b.CreateSub(x, y);
    case OpKind::mul:
      return b.CreateMul(x, y);
    case OpKind::max:
      return b.CreateBinaryIntrinsic(sign ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, x, y);
    case OpKind::min:
      return b.CreateBinaryIntrinsic(sign ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, x, y);
    case OpKind::div:
    case OpKind::mod: {
      // A divisor of 0, or of −1, whose quotient may overflow, is replaced before dividing.
      llvm::Value* one = integer(x, 1);
      llvm::Value* special = b.CreateICmpEQ(y, zero);
      if (sign) special = b.CreateOr(special, b.CreateICmpEQ(y, integer(x, ~0ULL)));
      llvm::Value* divisor = b.CreateSelect(special, one, y);
      if (kind == OpKind::div) {
        llvm::Value* quotient = sign ? b.CreateSDiv(x, divisor) : b.CreateUDiv(x, divisor);
        if (sign)
          quotient =
              b.CreateSelect(b.CreateICmpEQ(y, integer(x, ~0ULL)), b.CreateSub(zero, x), quotient);
        return b.CreateSelect(b.CreateICmpEQ(y, zero), zero, quotient);
      }
      // Dividing by 1 leaves 0, which is the remainder wanted for both replaced divisors.
      return integer_mod(x, divisor, sign);
    }
    case OpKind::pow:
      return integer_power(x, y, sign);
    default:
      break;
  }
  KILN_CHECK(false, "No integer lowering for op " + std::to_string(static_cast<int>(kind)) + ".");
  return nullptr;
}

// The remainder with the sign of the divisor, for divisors that are neither 0 nor −1.
llvm::Value* Lowering::integer_mod(llvm::Value* x, llvm::Value* y, bool sign) {
  llvm::Value* rest = nullptr;
  unsigned width = x->getType()->getScalarSizeInBits();
  if (x->getType()->isVectorTy() && width <= 32 && !llvm::isa<llvm::Constant>(y)) {
    // There is no vector division of integers. The quotient in a float with more than twice the
    // bits, cut to an integer, is exact: a true quotient that is no integer is further from one
    // than the rounding error.
    llvm::Type* type = with_lanes(width == 32 ? b.getDoubleTy() : b.getFloatTy(), x->getType());
    auto convert = [&](llvm::Value* v) {
      return sign ? b.CreateSIToFP(v, type) : b.CreateUIToFP(v, type);
    };
    llvm::Value* quotient = trunc(b.CreateFDiv(convert(x), convert(y)));
    // The integer is read from the low bits of the mantissa.
    llvm::Value* shifted =
        b.CreateFAdd(quotient, number(quotient, width == 32 ? 0x1.8p52 : 0x1.8p23));
    llvm::Value* integral = b.CreateTrunc(bits(shifted), x->getType());
    rest = b.CreateSub(x, b.CreateMul(integral, y));
  } else {
    rest = sign ? b.CreateSRem(x, y) : b.CreateURem(x, y);
  }
  if (!sign) return rest;
  llvm::Value* zero = integer(x, 0);
  llvm::Value* differs = b.CreateICmpSLT(b.CreateXor(rest, y), zero);
  llvm::Value* adjust = b.CreateAnd(differs, b.CreateICmpNE(rest, zero));
  return b.CreateSelect(adjust, b.CreateAdd(rest, y), rest);
}

llvm::Value* Lowering::float_unary(OpKind kind, llvm::Value* x, bool precise) {
  switch (kind) {
    case OpKind::abs:
      return abs(x);
    case OpKind::negate:
      return b.CreateFNeg(x);
    case OpKind::relu:
      return quick_max(number(x, 0), x);
    case OpKind::ceil:
      return ceil(x);
    case OpKind::floor:
      return floor(x);
    case OpKind::trunc:
      return trunc(x);
    case OpKind::round:
      return round_even(x);
    case OpKind::exp:
      return exp(x);
    case OpKind::log:
      return log(x);
    case OpKind::sqrt:
      return intrinsic(llvm::Intrinsic::sqrt, x);
    case OpKind::rsqrt:
      return b.CreateFDiv(number(x, 1), intrinsic(llvm::Intrinsic::sqrt, x));
    case OpKind::erf:
      return erf(x, precise);
    case OpKind::tanh:
      return tanh(x, precise);
    case OpKind::sigmoid:
      return sigmoid(x);
    case OpKind::silu:
      return silu(x);
    case OpKind::log1p:
      return log1p(x);
    case OpKind::atanh:
      return atanh(x);
    case OpKind::acos:
      return acos(x);
    case OpKind::sin:
      return sine(x, false);
    case OpKind::cos:
      return sine(x, true);
    default:
      break;
  }
  KILN_CHECK(false, "No float lowering for op " + std::to_string(static_cast<int>(kind)) + ".");
  return nullptr;
}

llvm::Value* Lowering::float_binary(OpKind kind, llvm::Value* x, llvm::Value* y) {
  switch (kind) {
    case OpKind::add:
      return b.CreateFAdd(x, y);
    case OpKind::sub:
      return b.CreateFSub(x, y);
    case OpKind::mul:
      return b.CreateFMul(x, y);
    case OpKind::div:
      return b.CreateFDiv(x, y);
    case OpKind::max:
      return float_max(x, y);
    case OpKind::min:
      return float_min(x, y);
    case OpKind::mod:
      return float_mod(x, y);
    case OpKind::pow:
      return power(x, y);
    default:
      break;
  }
  KILN_CHECK(false, "No float lowering for op " + std::to_string(static_cast<int>(kind)) + ".");
  return nullptr;
}

llvm::Value* Lowering::fma(llvm::Value* x, llvm::Value* y, llvm::Value* z) {
  // Without the instruction llvm.fma would call fmaf lane by lane.
  if (!isa_.fma) return b.CreateFAdd(b.CreateFMul(x, y), z);
  return b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
}

llvm::Value* Lowering::abs(llvm::Value* x) { return intrinsic(llvm::Intrinsic::fabs, x); }

llvm::Value* Lowering::copysign(llvm::Value* magnitude, llvm::Value* sign) {
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign);
}

llvm::Value* Lowering::quick_max(llvm::Value* x, llvm::Value* y) {
  return b.CreateSelect(b.CreateFCmpOGT(x, y), x, y);
}

llvm::Value* Lowering::quick_min(llvm::Value* x, llvm::Value* y) {
  return b.CreateSelect(b.CreateFCmpOLT(x, y), x, y);
}

llvm::Value* Lowering::float_max(llvm::Value* x, llvm::Value* y) {
  // quick_max already gives y where y is NaN.
  return b.CreateSelect(b.CreateFCmpUNO(x, x), x, quick_max(x, y));
}

llvm::Value* Lowering::float_min(llvm::Value* x, llvm::Value* y) {
  return b.CreateSelect(b.CreateFCmpUNO(x, x), x, quick_min(x, y));
}

llvm::Value* Lowering::round_even(llvm::Value* x) {
  if (has_rounding_) return intrinsic(llvm::Intrinsic::roundeven, x);
  // At 2^23 (2^52) the last place is 1. Larger values are integers already.
  llvm::Constant* anchor = number(x, is_double(x) ? 0x1p52 : 0x1p23);
  llvm::Value* magnitude = abs(x);
  llvm::Value* rounded = b.CreateFSub(b.CreateFAdd(magnitude, anchor), anchor);
  llvm::Value* small = b.CreateFCmpOLT(magnitude, anchor);
  return b.CreateSelect(small, copysign(rounded, x), x);
}

llvm::Value* Lowering::floor(llvm::Value* x) {
  if (has_rounding_) return intrinsic(llvm::Intrinsic::floor, x);
  llvm::Value* rounded = round_even(x);
  llvm::Value* lower = b.CreateFSub(rounded, number(x, 1));
  return b.CreateSelect(b.CreateFCmpOGT(rounded, x), lower, rounded);
}

llvm::Value* Lowering::ceil(llvm::Value* x) {
  if (has_rounding_) return intrinsic(llvm::Intrinsic::ceil, x);
  return b.CreateFNeg(floor(b.CreateFNeg(x)));
}

llvm::Value* Lowering::trunc(llvm::Value* x) {
  if (has_rounding_) return intrinsic(llvm::Intrinsic::trunc, x);
  return copysign(floor(abs(x)), x);
}

}  // namespace kiln::compiler
