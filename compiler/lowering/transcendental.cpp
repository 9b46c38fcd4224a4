// exp, log, erf, tanh and the activations made of them.
//
// No calls and no branches: every lane computes every case and selects choose. The idea of most:
// reduce the argument to a small interval, evaluate a polynomial, scale the result back. Scaling by
// 2^n comes last and in two steps, so that denormal results are rounded once and nothing overflows
// on the way.

#include <cmath>
#include <limits>

#include "compiler/lowering/lowering.h"
#include "kiln/support/error.h"

namespace kiln::compiler {

llvm::Value* Lowering::polynomial(llvm::Value* x, llvm::ArrayRef<double> coefficients) {
  llvm::Value* sum = number(x, coefficients.front());
  for (double coefficient : coefficients.drop_front()) sum = fma(sum, x, number(x, coefficient));
  return sum;
}

// 2^exponent for exponents of normal numbers.
llvm::Value* Lowering::power_of_two(llvm::Value* exponent, llvm::Type* type) {
  bool wide = type->getScalarType()->isDoubleTy();
  llvm::Value* biased = b.CreateAdd(exponent, integer(exponent, wide ? 1023 : 127));
  return b.CreateBitCast(b.CreateShl(biased, integer(exponent, wide ? 52 : 23)), type);
}

llvm::Value* Lowering::scale(llvm::Value* value, llvm::Value* exponent) {
  if (isa_.avx512)  // vscalefps
    return b.CreateIntrinsic(llvm::Intrinsic::ldexp, {value->getType(), exponent->getType()},
                             {value, exponent});
  llvm::Value* half = b.CreateAShr(exponent, integer(exponent, 1));
  llvm::Value* rest = b.CreateSub(exponent, half);
  value = b.CreateFMul(value, power_of_two(half, value->getType()));
  return b.CreateFMul(value, power_of_two(rest, value->getType()));
}

Lowering::Exponential Lowering::exp_parts(llvm::Value* x, llvm::Value* x_low) {
  bool wide = is_double(x);
  // Adding the anchor rounds to an integer and leaves it in the low bits.
  llvm::Constant* anchor = number(x, wide ? 0x1.8p52 : 0x1.8p23);
  llvm::Value* shifted = fma(x, number(x, 0x1.71547652b82fep+0), anchor);
  llvm::Value* n = b.CreateFSub(shifted, anchor);
  llvm::Value* exponent = b.CreateSub(bits(shifted), bits(anchor));
  // ln 2 in two parts; n times the first is exact.
  llvm::Value* r = fma(n, number(x, wide ? -0x1.62e42feep-1 : -0x1.63p-1), x);
  r = fma(n, number(x, wide ? -0x1.a39ef35793c76p-33 : 0x1.bd0105c610ca8p-13), r);
  if (x_low) r = b.CreateFAdd(r, x_low);
  llvm::Value* sum = nullptr;
  if (wide) {
    sum = polynomial(
        r, {1 / 6227020800.0, 1 / 479001600.0, 1 / 39916800.0, 1 / 3628800.0, 1 / 362880.0,
            1 / 40320.0, 1 / 5040.0, 1 / 720.0, 1 / 120.0, 1 / 24.0, 1 / 6.0, 0.5});
  } else {
    sum = polynomial(r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2,
                         1.6666665459e-1, 5.0000001201e-1});
  }
  llvm::Value* mantissa = b.CreateFAdd(fma(sum, b.CreateFMul(r, r), r), number(x, 1));
  return {mantissa, exponent};
}

llvm::Value* Lowering::exp(llvm::Value* x) {
  llvm::IRBuilderBase::FastMathFlagGuard guard(b);
  b.clearFastMathFlags();
  bool wide = is_double(x);
  // Beyond these the result is 0 or infinity; the clamp lets NaN through.
  llvm::Value* clamped = quick_max(number(x, wide ? -746 : -104), x);
  clamped = quick_min(number(x, wide ? 710 : 89), clamped);
  Exponential e = exp_parts(clamped);
  return scale(e.mantissa, e.exponent);
}

llvm::Value* Lowering::log(llvm::Value* x) {
  bool wide = is_double(x);
  // Denormals are scaled up first.
  llvm::Value* tiny = b.CreateFCmpOLT(x, number(x, wide ? 0x1p-1022 : 0x1p-126));
  llvm::Value* scaled = b.CreateFMul(x, number(x, wide ? 0x1p54 : 0x1p25));
  llvm::Value* code = bits(b.CreateSelect(tiny, scaled, x));
  int shift = wide ? 52 : 23;
  // x = 2^e · m with m in [√½, √2).
  std::uint64_t root_half = wide ? 0x3fe6a09e00000000ULL : 0x3f3504f3ULL;
  llvm::Value* offset = b.CreateSub(code, integer(code, root_half));
  llvm::Value* exponent = b.CreateAShr(offset, integer(code, shift));
  llvm::Value* m = from_bits(b.CreateSub(code, b.CreateShl(exponent, integer(code, shift))));
  exponent = b.CreateAdd(exponent,
                         b.CreateSelect(tiny, integer(code, wide ? -54 : -25), integer(code, 0)));
  llvm::Value* e = nullptr;
  if (wide) {
    // The bits of 2^52 + 2^51 + exponent; a vector conversion of i64 needs AVX-512.
    llvm::Constant* anchor = number(x, 0x1.8p52);
    e = b.CreateFSub(from_bits(b.CreateAdd(exponent, bits(anchor))), anchor);
  } else {
    e = b.CreateSIToFP(exponent, x->getType());
  }
  llvm::Value* f = b.CreateFSub(m, number(x, 1));
  llvm::Value* result = nullptr;
  if (wide) {
    llvm::Value* s = b.CreateFDiv(f, b.CreateFAdd(f, number(x, 2)));
    llvm::Value* z = b.CreateFMul(s, s);
    llvm::Value* r = b.CreateFMul(
        z,
        polynomial(z, {1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
                       2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
                       6.666666666666735130e-01}));
    llvm::Value* half_square = b.CreateFMul(b.CreateFMul(f, f), number(x, 0.5));
    llvm::Value* low = fma(e, number(x, 1.90821492927058770002e-10),
                           b.CreateFMul(s, b.CreateFAdd(half_square, r)));
    result = b.CreateFSub(f, b.CreateFSub(half_square, low));
    result = fma(e, number(x, 6.93147180369123816490e-01), result);
  } else {
    llvm::Value* z = b.CreateFMul(f, f);
    llvm::Value* p = polynomial(
        f, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
            -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
    p = b.CreateFMul(b.CreateFMul(f, z), p);
    p = fma(e, number(x, -2.12194440e-4), p);
    p = fma(z, number(x, -0.5), p);
    result = fma(e, number(x, 0.693359375), b.CreateFAdd(f, p));
  }
  double infinity = std::numeric_limits<double>::infinity();
  result = b.CreateSelect(b.CreateFCmpOEQ(x, number(x, infinity)), x, result);
  result = b.CreateSelect(b.CreateFCmpOEQ(x, number(x, 0)), number(x, -infinity), result);
  return b.CreateSelect(b.CreateFCmpOGE(x, number(x, 0)), result,
                        number(x, std::numeric_limits<double>::quiet_NaN()));
}

llvm::Value* Lowering::erf(llvm::Value* x) {
  llvm::Value* t = abs(x);
  llvm::Value* s = b.CreateFMul(x, x);
  llvm::Value* u = polynomial(t, {-1.72853470e-5, 3.83197126e-4, -3.88396438e-3, 2.42546219e-2,
                                  -1.06777877e-1, -6.34846687e-1, -1.28717512e-1});
  u = fma(u, t, b.CreateFNeg(t));
  llvm::Value* large = copysign(b.CreateFSub(number(x, 1), exp(u)), x);
  large = b.CreateSelect(b.CreateFCmpOGT(t, number(x, 4)), copysign(number(x, 1), x), large);
  llvm::Value* p = polynomial(s, {-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1,
                                  -3.76125336e-1, 1.28379166e-1});
  llvm::Value* small = fma(p, x, x);
  return b.CreateSelect(b.CreateFCmpOGT(t, number(x, 0.927734375)), large, small);
}

llvm::Value* Lowering::tanh(llvm::Value* x) {
  llvm::Value* t = quick_min(number(x, 9), quick_max(number(x, -9), x));
  llvm::Value* s = b.CreateFMul(t, t);
  llvm::Value* p =
      polynomial(s, {-5.641676241044476e-14, 4.087417207402143e-11, -1.758378918240114e-08,
                     1.046749918750416e-05, 3.036098315318411e-03, 1.302255336823433e-01,
                     9.999998719479379e-01});
  llvm::Value* q = polynomial(s, {2.448660933036251e-04, 2.422276399778669e-02,
                                  4.635583850963452e-01, 1.000000000000000e+00});
  return b.CreateFDiv(b.CreateFMul(t, p), q);
}

// 1 / (1 + e^−x) as a / (a + b·mantissa) with a = 2^−n₁, b = 2^n₂, n₁ + n₂ = n: neither overflows.
llvm::Value* Lowering::sigmoid(llvm::Value* x) {
  bool wide = is_double(x);
  double bound = wide ? 746 : 104;
  llvm::Value* z = quick_min(number(x, bound), quick_max(number(x, -bound), b.CreateFNeg(x)));
  Exponential e = exp_parts(z);
  llvm::Value* half = b.CreateAShr(e.exponent, integer(e.exponent, 1));
  llvm::Value* up = power_of_two(half, x->getType());
  llvm::Value* down = power_of_two(b.CreateSub(half, e.exponent), x->getType());
  return b.CreateFDiv(down, fma(e.mantissa, up, down));
}

// x / (1 + e^−(z + z_low)).
llvm::Value* Lowering::gate(llvm::Value* x, llvm::Value* z, llvm::Value* z_low) {
  bool wide = is_double(x);
  // Below the first bound the result is zero for every z that occurs; x itself is clamped too, so
  // that −inf gives zero.
  double bound = wide ? 760 : 110;
  llvm::Value* negated = quick_min(number(x, bound), quick_max(number(x, -bound), b.CreateFNeg(z)));
  Exponential e = exp_parts(negated, z_low ? b.CreateFNeg(z_low) : nullptr);
  llvm::Value* half = b.CreateAShr(e.exponent, integer(e.exponent, 1));
  llvm::Value* up = power_of_two(half, x->getType());
  llvm::Value* down = power_of_two(b.CreateSub(half, e.exponent), x->getType());
  llvm::Value* numerator = quick_max(number(x, -bound), x);
  return b.CreateFMul(b.CreateFDiv(numerator, fma(e.mantissa, up, down)), down);
}

llvm::Value* Lowering::gelu(llvm::Value* x, std::string_view approximate) {
  if (approximate == "quick") return gate(x, b.CreateFMul(x, number(x, 1.702)), nullptr);
  if (approximate == "tanh") {
    double c = 2 * 0.7978845608028654;
    llvm::Value* square = b.CreateFMul(x, x);
    llvm::Value* factor = fma(square, number(x, c * 0.044715), number(x, c));
    return gate(x, b.CreateFMul(x, factor), nullptr);
  }
  llvm::Value* half = b.CreateFMul(x, number(x, 0.5));
  return fma(half, erf(b.CreateFMul(x, number(x, 0.70710678118654752440))), half);
}

}  // namespace kiln::compiler
