// exp, log, log1p and atanh.
//
// No calls and no branches: every lane computes every case and selects choose. The idea of most:
// reduce the argument to a small interval, evaluate a polynomial, scale the result back. Scaling by
// 2^n comes last and in two steps, so that denormal results are rounded once and nothing overflows
// on the way.

#include <cmath>
#include <limits>
#include <vector>

#include "compiler/lowering/lowering.h"

namespace kiln::compiler {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

llvm::Value* Lowering::polynomial(llvm::Value* x, llvm::ArrayRef<double> coefficients) {
  llvm::Value* sum = number(x, coefficients.front());
  for (double coefficient : coefficients.drop_front()) sum = fma(sum, x, number(x, coefficient));
  return sum;
}

llvm::Value* Lowering::polynomial_in_two(llvm::Value* x, llvm::ArrayRef<double> coefficients) {
  if (!isa_.fma) return polynomial(x, coefficients);  // the one more rounding would show
  std::vector<double> parts[2];                       // of even and of odd powers, highest first
  for (std::size_t i = 0; i < coefficients.size(); ++i)
    parts[(coefficients.size() - 1 - i) % 2].push_back(coefficients[i]);
  llvm::Value* square = b.CreateFMul(x, x);
  llvm::Value* even = polynomial(square, parts[0]);
  return fma(polynomial(square, parts[1]), x, even);
}

Lowering::Exponential Lowering::exp_parts(llvm::Value* x, llvm::Value* x_low, bool minus_one) {
  bool wide = is_double(x);
  // Adding the anchor rounds to an integer and leaves it, plus twice the bias, in the low bits.
  llvm::Constant* anchor = number(x, wide ? 0x1.8p52 + 2046 : 0x1.8p23 + 254);
  llvm::Value* shifted = fma(x, number(x, 0x1.71547652b82fep+0), anchor);
  llvm::Value* n = b.CreateFSub(shifted, anchor);
  // ln 2 in two parts; n times the first is exact.
  llvm::Value* r = fma(n, number(x, wide ? -0x1.62e42feep-1 : -0x1.63p-1), x);
  llvm::Constant* low = number(x, wide ? -0x1.a39ef35793c76p-33 : 0x1.bd0105c610ca8p-13);
  r = x_low ? b.CreateFAdd(r, fma(n, low, x_low)) : fma(n, low, r);
  llvm::Value* mantissa = nullptr;
  llvm::Value* slope = nullptr;
  if (wide) {
    llvm::Value* sum =
        polynomial(r, {2.500446947687947721915582529380456255907461127208080142736435e-8,
                       2.763043895704491005420582599994006045562855433672666549682617e-7,
                       2.75575723291954258629336653452224226157341036014258861541748e-6,
                       2.480149249563607180427485254803343650564784184098243713378906e-5,
                       1.984126952244903599291425688733170318300835788249969482421875e-4,
                       1.3888888944304325114009746044985149637795984745025634765625e-3,
                       8.3333333334870522690618344086033175699412822723388671875e-3,
                       4.1666666666527067686143226410422357730567455291748046875e-2,
                       0.166666666666664242679729568408220075070858001708984375,
                       0.5000000000000011102230246251565404236316680908203125});
    mantissa = fma(sum, b.CreateFMul(r, r), r);
    if (!minus_one) mantissa = b.CreateFAdd(mantissa, number(x, 1));
  } else {
    slope = polynomial_in_two(r, {1.374473446048796176910400390625e-3,
                                  8.368954993784427642822265625e-3, 4.16696555912494659423828125e-2,
                                  0.16666518151760101318359375, 0.49999988079071044921875, 1});
    mantissa = fma(slope, r, number(x, 1));
  }
  return {mantissa, r, slope, bits(shifted), bits(anchor)};
}

Lowering::Halves Lowering::halves(const Exponential& e) {
  // 2^n as a product of two numbers that are normal for every n of twice the format's range. The
  // bits of the anchor above n are shifted out.
  llvm::Type* type = e.mantissa->getType();
  llvm::Value* shift = integer(e.shifted, is_double(e.mantissa) ? 52 : 23);
  llvm::Value* half = b.CreateLShr(e.shifted, integer(e.shifted, 1));
  llvm::Value* rest = b.CreateSub(e.shifted, half);
  llvm::Value* twice_bias = integer(e.shifted, is_double(e.mantissa) ? 2046 : 254);
  auto power = [=, this](llvm::Value* biased) {
    return b.CreateBitCast(b.CreateShl(biased, shift), type);
  };
  return {power(half), power(rest), [=, this] { return power(b.CreateSub(twice_bias, half)); }};
}

llvm::Value* Lowering::scale(const Exponential& e, llvm::Value* factor) {
  llvm::Value* value = factor ? b.CreateFMul(e.mantissa, factor) : e.mantissa;
  if (isa_.avx512) {  // vscalefps
    llvm::Value* exponent = b.CreateSub(e.shifted, e.anchor);
    return b.CreateIntrinsic(llvm::Intrinsic::ldexp, {value->getType(), exponent->getType()},
                             {value, exponent});
  }
  Halves half = halves(e);
  return b.CreateFMul(b.CreateFMul(value, half.first), half.second);
}

llvm::Value* Lowering::exp(llvm::Value* x) {
  llvm::IRBuilderBase::FastMathFlagGuard guard(b);
  b.clearFastMathFlags();
  bool wide = is_double(x);
  // Beyond these the result is 0 or infinity; both let NaN through. Where it is 0, such as in
  // masked rows of a softmax, it must not come from a scaling that underflows: that takes a
  // processor some hundred cycles.
  llvm::Value* vanishes = b.CreateFCmpOLT(x, number(x, wide ? -746 : -104));
  llvm::Value* clamped = b.CreateSelect(vanishes, number(x, 0), x);
  clamped = quick_min(number(x, wide ? 710 : 89), clamped);
  return b.CreateSelect(vanishes, number(x, 0), scale(exp_parts(clamped)));
}

// x = 2^exponent · (1 + fraction) with 1 + fraction in [√½, √2), for positive x.
Lowering::Logarithm Lowering::log_parts(llvm::Value* x) {
  bool wide = is_double(x);
  // Denormals are scaled up first.
  llvm::Value* tiny = b.CreateFCmpOLT(x, number(x, wide ? 0x1p-1022 : 0x1p-126));
  llvm::Value* scaled = b.CreateFMul(x, number(x, wide ? 0x1p54 : 0x1p25));
  llvm::Value* code = bits(b.CreateSelect(tiny, scaled, x));
  int shift = wide ? 52 : 23;
  std::uint64_t root_half = wide ? 0x3fe6a09e00000000ULL : 0x3f3504f3ULL;
  llvm::Value* offset = b.CreateSub(code, integer(code, root_half));
  std::uint64_t mask = wide ? 0xfff0000000000000ULL : 0xff800000ULL;
  llvm::Value* m = from_bits(b.CreateSub(code, b.CreateAnd(offset, integer(code, mask))));
  llvm::Value* e = nullptr;
  if (wide) {
    // A vector conversion of i64 needs AVX-512; the exponent as the mantissa of 2^52 does not.
    llvm::Value* biased =
        b.CreateLShr(b.CreateAdd(offset, integer(code, 2048ULL << 52 >> 1)), integer(code, shift));
    e = b.CreateFSub(from_bits(b.CreateOr(biased, integer(code, 0x4330000000000000ULL))),
                     number(x, 0x1p52 + 1024));
  } else {
    e = b.CreateSIToFP(b.CreateAShr(offset, integer(code, shift)), x->getType());
  }
  e = b.CreateFAdd(e, b.CreateSelect(tiny, number(x, wide ? -54 : -25), number(x, 0)));
  return {e, b.CreateFSub(m, number(x, 1))};
}

// exponent · ln 2 + log(1 + fraction) + correction, in double.
llvm::Value* Lowering::log_double(const Logarithm& l, llvm::Value* correction) {
  llvm::Value* f = l.fraction;
  llvm::Value* s = b.CreateFDiv(f, b.CreateFAdd(f, number(f, 2)));
  llvm::Value* z = b.CreateFMul(s, s);
  llvm::Value* r = b.CreateFMul(
      z,
      polynomial(z, {1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
                     2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
                     6.666666666666735130e-01}));
  llvm::Value* half_square = b.CreateFMul(b.CreateFMul(f, f), number(f, 0.5));
  llvm::Value* low = b.CreateFMul(l.exponent, number(f, 1.90821492927058770002e-10));
  if (correction) low = b.CreateFAdd(low, correction);
  low = fma(s, b.CreateFAdd(half_square, r), low);
  llvm::Value* result = b.CreateFSub(f, b.CreateFSub(half_square, low));
  return fma(l.exponent, number(f, 6.93147180369123816490e-01), result);
}

llvm::Value* Lowering::log(llvm::Value* x) {
  Logarithm l = log_parts(x);
  llvm::Value* result = nullptr;
  if (is_double(x)) {
    result = log_double(l, nullptr);
  } else {
    llvm::Value* f = l.fraction;
    llvm::Value* z = b.CreateFMul(f, f);
    llvm::Value* p = polynomial(
        f, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
            -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
    p = b.CreateFMul(b.CreateFMul(f, z), p);
    p = fma(l.exponent, number(x, -2.12194440e-4), p);
    p = fma(z, number(x, -0.5), p);
    result = fma(l.exponent, number(x, 0.693359375), b.CreateFAdd(f, p));
  }
  result = b.CreateSelect(b.CreateFCmpOEQ(x, number(x, kInfinity)), x, result);
  result = b.CreateSelect(b.CreateFCmpOEQ(x, number(x, 0)), number(x, -kInfinity), result);
  return b.CreateSelect(b.CreateFCmpOGE(x, number(x, 0)), result, not_a_number(x));
}

llvm::Value* Lowering::log1p(llvm::Value* x) {
  if (!is_double(x)) return narrow(log1p(widen(x)));
  // What 1 + x loses to rounding is added as a correction. Where 1 + x needs no reduction, x itself
  // is the fraction.
  llvm::Value* one = number(x, 1);
  llvm::Value* u = b.CreateFAdd(x, one);
  Logarithm l = log_parts(u);
  llvm::Value* direct = b.CreateFCmpOEQ(l.exponent, number(x, 0));
  llvm::Value* lost = b.CreateSelect(b.CreateFCmpOGT(x, one), b.CreateFSub(one, b.CreateFSub(u, x)),
                                     b.CreateFSub(x, b.CreateFSub(u, one)));
  llvm::Value* correction = b.CreateSelect(direct, number(x, 0), b.CreateFDiv(lost, u));
  l.fraction = b.CreateSelect(direct, x, l.fraction);
  llvm::Value* result = log_double(l, correction);
  result = b.CreateSelect(b.CreateFCmpOEQ(x, number(x, kInfinity)), x, result);
  result = b.CreateSelect(b.CreateFCmpOEQ(x, number(x, -1)), number(x, -kInfinity), result);
  result = copysign(result, x);  // −0 stays what it is
  return b.CreateSelect(b.CreateFCmpOGE(x, number(x, -1)), result, not_a_number(x));
}

llvm::Value* Lowering::atanh(llvm::Value* x) {
  if (!is_double(x)) return narrow(atanh(widen(x)));
  llvm::Value* t = abs(x);
  llvm::Value* ratio = b.CreateFDiv(b.CreateFMul(t, number(x, 2)), b.CreateFSub(number(x, 1), t));
  return copysign(b.CreateFMul(log1p(ratio), number(x, 0.5)), x);
}

llvm::Constant* Lowering::not_a_number(llvm::Value* like) {
  return llvm::ConstantFP::getQNaN(like->getType());
}

llvm::Value* Lowering::widen(llvm::Value* x) {
  return b.CreateFPExt(x, with_lanes(b.getDoubleTy(), x->getType()));
}

llvm::Value* Lowering::narrow(llvm::Value* x) {
  return b.CreateFPTrunc(x, with_lanes(b.getFloatTy(), x->getType()));
}

}  // namespace kiln::compiler
