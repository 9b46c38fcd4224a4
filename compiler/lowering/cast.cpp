// Casts between any two dtypes, and rounding to the dtypes that are held as float.
//
// The narrow formats are written as integer expressions: what hardware or LLVM offers for them
// either flushes denormals (vcvtneps2bf16) or calls a function lane by lane.

#include <cmath>

#include "compiler/lowering/lowering.h"
#include "kiln/support/error.h"

namespace kiln::compiler {
namespace {

// The layout of a float narrower than 32 bits.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  double max;  // the largest finite value
  bool ieee;   // the highest exponent means infinity or NaN
  bool fnuz;   // no negative zero: its code is NaN
  bool has_nan;
};

Format format_of(DType dtype) {
  switch (dtype.code()) {
    case DType::float16:
      return {5, 10, 15, 65504.0, true, false, true};
    case DType::bfloat16:
      return {8, 7, 127, 0x1.FEp127, true, false, true};
    case DType::float8_e4m3fn:
      return {4, 3, 7, 448.0, false, false, true};
    case DType::float8_e4m3fnuz:
      return {4, 3, 8, 240.0, false, true, true};
    case DType::float8_e5m2:
      return {5, 2, 15, 57344.0, true, false, true};
    case DType::float8_e5m2fnuz:
      return {5, 2, 16, 57344.0, false, true, true};
    case DType::float4_e2m1fn:
      return {2, 1, 1, 6.0, false, false, false};
    default:
      break;
  }
  KILN_CHECK(false, "No narrow format belongs to " + std::string(dtype.name()) + ".");
  return {};
}

bool held_as_narrow(DType dtype) {
  return dtype.is_float() && dtype != DType::float32 && dtype != DType::float64;
}

}  // namespace

llvm::Value* Lowering::cast(llvm::Value* x, DType from, DType to) {
  if (from == to) return x;
  llvm::IRBuilderBase::FastMathFlagGuard guard(b);
  b.clearFastMathFlags();
  llvm::Type* type = with_lanes(register_type(to, 1), x->getType());
  bool from_integer = from.is_integral() || from == DType::bool_;

  if (to == DType::bool_) {
    if (from_integer) return b.CreateICmpNE(x, integer(x, 0));
    return b.CreateFCmpUNE(x, number(x, 0));
  }
  if (to.is_integral()) {
    if (from == DType::bool_) return b.CreateZExt(x, type);
    if (from_integer)
      return from.is_signed_integral() ? b.CreateSExtOrTrunc(x, type)
                                       : b.CreateZExtOrTrunc(x, type);
    return b.CreateIntrinsic(
        to.is_signed_integral() ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat,
        {type, x->getType()}, {x});
  }
  if (from_integer) {
    bool sign = from.is_signed_integral();
    if (!held_as_narrow(to)) return sign ? b.CreateSIToFP(x, type) : b.CreateUIToFP(x, type);
    int width = from.size_in_bits();
    if (from == DType::bool_ || width <= 16)
      return round_to(sign ? b.CreateSIToFP(x, type) : b.CreateUIToFP(x, type), to);
    if (width == 64) {
      // Bits that a double cannot hold are folded into one, which keeps the later rounding right.
      llvm::Value* low = b.CreateAnd(x, integer(x, 0x7ff));
      llvm::Value* sticky =
          b.CreateSelect(b.CreateICmpEQ(low, integer(x, 0)), integer(x, 0), integer(x, 0x800));
      llvm::Value* folded = b.CreateOr(b.CreateAnd(x, integer(x, ~0x7ffULL)), sticky);
      llvm::Value* large =
          sign ? b.CreateICmpUGE(b.CreateAdd(x, integer(x, 1ULL << 53)), integer(x, 1ULL << 54))
               : b.CreateICmpUGE(x, integer(x, 1ULL << 53));
      x = b.CreateSelect(large, folded, x);
    }
    llvm::Type* wide = with_lanes(b.getDoubleTy(), x->getType());
    llvm::Value* value = sign ? b.CreateSIToFP(x, wide) : b.CreateUIToFP(x, wide);
    return round_to(to_float_odd(value), to);
  }
  if (to == DType::float64) return b.CreateFPExt(x, type);
  if (from == DType::float64) {
    if (to == DType::float32) return b.CreateFPTrunc(x, type);
    return round_to(to_float_odd(x), to);
  }
  return round_to(x, to);
}

// A double as float, rounded to odd: of two neighbours the one with an odd mantissa. Rounding the
// result once more to a narrower format then gives what rounding the double itself would.
llvm::Value* Lowering::to_float_odd(llvm::Value* x) {
  llvm::Value* nearest = b.CreateFPTrunc(x, with_lanes(b.getFloatTy(), x->getType()));
  llvm::Value* back = b.CreateFPExt(nearest, x->getType());
  llvm::Value* code = bits(nearest);
  llvm::Value* away = b.CreateFCmpOGT(abs(back), abs(x));
  llvm::Value* inexact = b.CreateFCmpONE(back, x);
  code = b.CreateSub(code, b.CreateZExt(away, code->getType()));
  code = b.CreateOr(code, b.CreateZExt(inexact, code->getType()));
  return from_bits(code);
}

llvm::Value* Lowering::round_to(llvm::Value* value, DType dtype) {
  if (!held_as_narrow(dtype)) return value;
  llvm::IRBuilderBase::FastMathFlagGuard guard(b);
  b.clearFastMathFlags();
  return dtype.is_half() ? round_half(value, dtype) : round_small(value, dtype);
}

llvm::Value* Lowering::round_half(llvm::Value* value, DType dtype) {
  llvm::Type* type = value->getType();
  if (dtype == DType::float16 && isa_.f16c) {
    llvm::Value* half = b.CreateFPTrunc(value, with_lanes(b.getHalfTy(), type));
    return b.CreateFPExt(half, type);
  }
  if (dtype == DType::bfloat16) {
    // Adding to the bits carries into the exponent and at the top into infinity, as it should.
    llvm::Value* code = bits(value);
    llvm::Value* odd = b.CreateAnd(b.CreateLShr(code, integer(code, 16)), integer(code, 1));
    llvm::Value* up = b.CreateAdd(code, b.CreateAdd(odd, integer(code, 0x7fff)));
    llvm::Value* nan = b.CreateOr(code, integer(code, 0x400000));
    llvm::Value* rounded = b.CreateSelect(b.CreateFCmpUNO(value, value), nan, up);
    return from_bits(b.CreateAnd(rounded, integer(code, 0xffff0000)));
  }
  return decode_small(to_float16_bits(value), dtype);
}

// A float8 or float4 value. Above the smallest normal the mantissa is rounded in its bits, below
// by adding and subtracting a number whose last place is the format's last place.
llvm::Value* Lowering::round_small(llvm::Value* value, DType dtype) {
  llvm::Value* code = bits(value);
  llvm::Value* magnitude = b.CreateAnd(code, integer(code, 0x7fffffff));
  llvm::Value* is_nan = b.CreateFCmpUNO(value, value);
  if (dtype == DType::float8_e8m0fnu) {
    llvm::Value* up =
        b.CreateAnd(b.CreateAdd(magnitude, integer(code, 0x400000)), integer(code, 0x7f800000));
    up = b.CreateSelect(b.CreateICmpUGT(up, integer(code, 0x7f000000)), integer(code, 0x7f000000),
                        up);
    // 2^-127 is a denormal float; the middle to the next power is 1.5 times it.
    llvm::Value* least = b.CreateOr(b.CreateICmpULT(magnitude, integer(code, 0x600000)),
                                    b.CreateICmpSLT(code, integer(code, 0)));
    llvm::Value* rounded = from_bits(b.CreateSelect(least, integer(code, 0x400000), up));
    return b.CreateSelect(is_nan, value, rounded);
  }
  Format format = format_of(dtype);
  int drop = 23 - format.mantissa_bits;
  llvm::Value* odd = b.CreateAnd(b.CreateLShr(magnitude, integer(code, drop)), integer(code, 1));
  llvm::Value* up =
      b.CreateAdd(magnitude, b.CreateAdd(odd, integer(code, (1ULL << (drop - 1)) - 1)));
  llvm::Value* normal = from_bits(b.CreateAnd(up, integer(code, ~((1ULL << drop) - 1))));
  llvm::Value* absolute = from_bits(magnitude);
  llvm::Constant* anchor = number(value, std::ldexp(1.0, 1 - format.bias + drop));
  llvm::Value* small = b.CreateFSub(b.CreateFAdd(absolute, anchor), anchor);
  llvm::Constant* smallest_normal = number(value, std::ldexp(1.0, 1 - format.bias));
  llvm::Value* rounded = b.CreateSelect(b.CreateFCmpOLT(absolute, smallest_normal), small, normal);
  rounded = quick_min(rounded, number(value, format.max));
  llvm::Value* sign = b.CreateAnd(code, integer(code, 0x80000000));
  if (format.fnuz)
    sign = b.CreateSelect(b.CreateFCmpOEQ(rounded, number(value, 0)), integer(code, 0), sign);
  rounded = from_bits(b.CreateOr(bits(rounded), sign));
  return b.CreateSelect(is_nan, format.has_nan ? value : number(value, format.max), rounded);
}

// Codes of float16, float8 or float4 to floats. A code without exponent bits gets the exponent of
// the smallest normal, whose leading one is then subtracted: no denormal float is touched.
llvm::Value* Lowering::decode_small(llvm::Value* raw, DType dtype) {
  llvm::Value* code = b.CreateZExt(raw, with_lanes(b.getInt32Ty(), raw->getType()));
  if (dtype == DType::float8_e8m0fnu) {
    llvm::Value* shifted = b.CreateShl(code, integer(code, 23));
    shifted =
        b.CreateSelect(b.CreateICmpEQ(code, integer(code, 0)), integer(code, 0x400000), shifted);
    return from_bits(b.CreateSelect(b.CreateICmpEQ(code, integer(code, 255)),
                                    integer(code, 0x7fc00000), shifted));
  }
  Format format = format_of(dtype);
  int width = 1 + format.exponent_bits + format.mantissa_bits;
  std::uint64_t magnitude_mask = (1ULL << (width - 1)) - 1;
  std::uint64_t exponent_mask = ((1ULL << format.exponent_bits) - 1) << format.mantissa_bits;
  llvm::Value* magnitude = b.CreateAnd(code, integer(code, magnitude_mask));
  llvm::Value* sign =
      b.CreateShl(b.CreateAnd(code, integer(code, 1ULL << (width - 1))), integer(code, 32 - width));
  llvm::Value* shifted = b.CreateShl(magnitude, integer(code, 23 - format.mantissa_bits));
  llvm::Value* denormal = b.CreateICmpULT(magnitude, integer(code, 1ULL << format.mantissa_bits));
  std::uint64_t base = static_cast<std::uint64_t>(127 - format.bias) << 23;
  llvm::Value* value = from_bits(b.CreateAdd(
      shifted, b.CreateSelect(denormal, integer(code, base + (1ULL << 23)), integer(code, base))));
  llvm::Value* leading =
      b.CreateSelect(denormal, number(value, std::ldexp(1.0, 1 - format.bias)), number(value, 0));
  llvm::Value* result = bits(b.CreateFSub(value, leading));
  if (format.ieee) {
    llvm::Value* special = b.CreateICmpUGE(magnitude, integer(code, exponent_mask));
    result = b.CreateSelect(special, b.CreateOr(shifted, integer(code, 0x7f800000)), result);
  } else if (format.has_nan && !format.fnuz) {
    llvm::Value* special = b.CreateICmpEQ(magnitude, integer(code, magnitude_mask));
    result = b.CreateSelect(special, integer(code, 0x7fc00000), result);
  }
  result = b.CreateOr(result, sign);
  if (format.fnuz) {
    llvm::Value* special = b.CreateICmpEQ(code, integer(code, 1ULL << (width - 1)));
    result = b.CreateSelect(special, integer(code, 0x7fc00000), result);
  }
  return from_bits(result);
}

// The codes of floats that the dtype represents exactly.
llvm::Value* Lowering::encode_small(llvm::Value* value, DType dtype) {
  llvm::Value* code = bits(value);
  llvm::Value* is_nan = b.CreateFCmpUNO(value, value);
  llvm::Type* byte = with_lanes(b.getInt8Ty(), value->getType());
  if (dtype == DType::float8_e8m0fnu) {
    llvm::Value* exponent = b.CreateLShr(code, integer(code, 23));
    return b.CreateTrunc(b.CreateSelect(is_nan, integer(code, 255), exponent), byte);
  }
  Format format = format_of(dtype);
  int width = 1 + format.exponent_bits + format.mantissa_bits;
  llvm::Value* magnitude = b.CreateAnd(code, integer(code, 0x7fffffff));
  llvm::Value* sign = b.CreateAnd(b.CreateLShr(code, integer(code, 32 - width)),
                                  integer(code, 1ULL << (width - 1)));
  std::uint64_t base = static_cast<std::uint64_t>(127 - format.bias) << 23;
  llvm::Value* normal = b.CreateLShr(b.CreateSub(magnitude, integer(code, base)),
                                     integer(code, 23 - format.mantissa_bits));
  // Below the smallest normal the value plus that number has the code's bits as its mantissa.
  llvm::Constant* least = number(value, std::ldexp(1.0, 1 - format.bias));
  llvm::Value* absolute = from_bits(magnitude);
  llvm::Value* shifted = bits(b.CreateFAdd(absolute, least));
  llvm::Value* small = b.CreateLShr(b.CreateSub(shifted, integer(code, base + (1ULL << 23))),
                                    integer(code, 23 - format.mantissa_bits));
  llvm::Value* result = b.CreateSelect(b.CreateFCmpOLT(absolute, least), small, normal);
  result = b.CreateOr(result, sign);
  if (format.fnuz) {
    llvm::Value* zero = b.CreateICmpEQ(magnitude, integer(code, 0));
    result = b.CreateSelect(zero, integer(code, 0), result);
  }
  if (format.has_nan) {
    std::uint64_t nan = format.fnuz ? 1ULL << (width - 1) : (1ULL << (width - 1)) - 1;
    result = b.CreateSelect(is_nan, integer(code, nan), result);
  }
  if (dtype == DType::float8_e5m2) {
    // Infinity is no result of a cast, but it can come from memory.
    llvm::Value* infinite = b.CreateICmpEQ(magnitude, integer(code, 0x7f800000));
    result = b.CreateSelect(infinite, b.CreateOr(sign, integer(code, 0x7c)), result);
  }
  return b.CreateTrunc(result, byte);
}

// The nearest float16 of any float, as i16.
llvm::Value* Lowering::to_float16_bits(llvm::Value* value) {
  llvm::Type* narrow = with_lanes(b.getInt16Ty(), value->getType());
  if (isa_.f16c) {
    llvm::Type* half = with_lanes(b.getHalfTy(), value->getType());
    return b.CreateBitCast(b.CreateFPTrunc(value, half), narrow);
  }
  llvm::Value* code = bits(value);
  llvm::Value* magnitude = b.CreateAnd(code, integer(code, 0x7fffffff));
  llvm::Value* sign = b.CreateAnd(b.CreateLShr(code, integer(code, 16)), integer(code, 0x8000));
  // Normal results: rebias, round to even by adding to the bits.
  llvm::Value* odd = b.CreateAnd(b.CreateLShr(magnitude, integer(code, 13)), integer(code, 1));
  llvm::Value* rebias = integer(code, 0xfff - (112ULL << 23));
  llvm::Value* normal =
      b.CreateLShr(b.CreateAdd(b.CreateAdd(magnitude, odd), rebias), integer(code, 13));
  // Denormal results: adding 0.5 puts the last place at 2^-24 and rounds in hardware.
  llvm::Value* absolute = from_bits(magnitude);
  llvm::Value* small =
      b.CreateSub(bits(b.CreateFAdd(absolute, number(value, 0.5))), integer(code, 0x3f000000));
  llvm::Value* result =
      b.CreateSelect(b.CreateICmpULT(magnitude, integer(code, 113ULL << 23)), small, normal);
  // From half way between the largest value and 2^16 on: infinity; the carry does it below 2^16.
  result = b.CreateSelect(b.CreateICmpUGE(magnitude, integer(code, 0x477ff000)),
                          integer(code, 0x7c00), result);
  llvm::Value* quiet =
      b.CreateOr(b.CreateAnd(b.CreateLShr(magnitude, integer(code, 13)), integer(code, 0x3ff)),
                 integer(code, 0x7e00));
  result = b.CreateSelect(b.CreateFCmpUNO(value, value), quiet, result);
  return b.CreateTrunc(b.CreateOr(result, sign), narrow);
}

}  // namespace kiln::compiler
