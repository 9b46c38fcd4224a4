// erf, tanh, sigmoid, silu and gelu.
//
// Rational functions have positive coefficients, which lose nothing to cancellation. Near ±1, where
// float has least to spare, erf and tanh are computed as 1 minus something small. The activations
// divide once and scale by powers of two afterwards: their negative tails keep full relative
// accuracy down to the denormals.

#include <cmath>

#include "compiler/lowering/lowering.h"

namespace kiln::compiler {

// 2^n, for exponents of normal numbers.
llvm::Value* Lowering::power_of_two(const Exponential& e) {
  bool wide = is_double(e.mantissa);
  llvm::Value* biased = b.CreateSub(e.shifted, integer(e.shifted, wide ? 1023 : 127));
  return from_bits(b.CreateShl(biased, integer(biased, wide ? 52 : 23)));
}

llvm::Value* Lowering::erf(llvm::Value* x, bool precise) {
  if (!is_double(x) && precise) {
    // 1 − e^u(t) with a polynomial u; from 4 on the result rounds to 1.
    llvm::Value* t = quick_min(number(x, 4), abs(x));
    llvm::Value* u = polynomial(t, {-1.72853470e-5, 3.83197126e-4, -3.88396438e-3, 2.42546219e-2,
                                    -1.06777877e-1, -6.34846687e-1, -1.28717512e-1});
    Exponential e = exp_parts(fma(u, t, b.CreateFNeg(t)));
    llvm::Value* large = copysign(fma(b.CreateFNeg(power_of_two(e)), e.mantissa, number(x, 1)), x);
    llvm::Value* p = polynomial(b.CreateFMul(x, x), {-5.96761703e-4, 4.99119423e-3, -2.67681349e-2,
                                                     1.12819925e-1, -3.76125336e-1, 1.28379166e-1});
    llvm::Value* small = fma(p, x, x);
    return b.CreateSelect(b.CreateFCmpOGT(t, number(x, 0.927734375)), large, small);
  }
  if (!is_double(x)) {
    // From the bound on the result rounds to 1.
    llvm::Value* t = quick_min(number(x, 3.92), quick_max(number(x, -3.92), x));
    llvm::Value* s = b.CreateFMul(t, t);
    llvm::Value* p = polynomial(s, {2.050069725e-06, 2.848840086e-04, 3.765688976e-03,
                                    5.274892226e-02, 1.904082596e-01, 1.128378987e+00});
    llvm::Value* q = polynomial(s, {3.809156988e-05, 1.162553090e-03, 1.496935170e-02,
                                    1.141098216e-01, 5.020776391e-01, 9.999999404e-01});
    return b.CreateFDiv(b.CreateFMul(t, p), q);
  }
  llvm::Value* small = small_erf(x);
  llvm::Value* t = quick_min(number(x, 6), abs(x));
  llvm::Value* e = scale(exp_parts(b.CreateFNeg(b.CreateFMul(t, t))));
  llvm::Value* large = fma(b.CreateFNeg(e), scaled_erfc(t), number(x, 1));
  llvm::Value* is_small = b.CreateFCmpOLT(abs(x), number(x, 1));
  return b.CreateSelect(is_small, small, copysign(large, x));
}

// erf on [−1, 1], in double.
llvm::Value* Lowering::small_erf(llvm::Value* x) {
  llvm::Value* s = b.CreateFMul(x, x);
  llvm::Value* p =
      polynomial(s, {1.9495611280993469e-4, 1.827294380133966e-3, 4.5303908488941866e-2,
                     1.4214928570407793e-1, 1.1283791670955126});
  llvm::Value* q =
      polynomial(s, {2.0297418568879511e-5, 6.8121577571816871e-4, 1.0582211997512127e-2,
                     9.3252829450546825e-2, 4.5930985775816362e-1, 1});
  return b.CreateFDiv(b.CreateFMul(x, p), q);
}

// e^(t²) · erfc(t) for t in [0, 28], in double: (1 + 2t) times it is a polynomial in
// (t − 4) / (t + 4).
llvm::Value* Lowering::scaled_erfc(llvm::Value* t) {
  llvm::Value* four = number(t, 4);
  llvm::Value* q = b.CreateFDiv(b.CreateFSub(t, four), b.CreateFAdd(t, four));
  llvm::Value* p =
      polynomial(q, {-1.82060986803086824e-09, -1.36709898633473828e-08, -7.71541861441783023e-09,
                     1.15349437457541569e-07,  6.27072715719831089e-08,  -8.35161968869684687e-07,
                     3.01350499448753971e-07,  5.71788728463218554e-06,  -1.12247891351547010e-05,
                     -2.44031692449740737e-05, 1.50622243948302987e-04,  -1.99255507556149523e-04,
                     -7.57773341413330004e-04, 5.03196975589542597e-03,  -1.61977340591150064e-02,
                     3.71675155624928630e-02,  -6.63303658115293876e-02, 9.37328349967941205e-02,
                     -1.01039066036352126e-01, 6.80970542547373187e-02,  1.53796521026207406e-02,
                     -1.39621116840562887e-01, 1.23299511862555256e+00});
  return b.CreateFDiv(p, fma(t, number(t, 2), number(t, 1)));
}

llvm::Value* Lowering::tanh(llvm::Value* x, bool precise) {
  if (!is_double(x) && precise) {
    // 1 − 2 / (e^(2t) + 1); from 9.1 on it rounds to 1.
    llvm::Value* t = quick_min(number(x, 9.1), abs(x));
    Exponential e = exp_parts(b.CreateFMul(t, number(x, 2)));
    llvm::Value* d = fma(power_of_two(e), e.mantissa, number(x, 1));
    llvm::Value* large = b.CreateFSub(number(x, 1), b.CreateFDiv(number(x, 2), d));
    llvm::Value* s = b.CreateFMul(x, x);
    llvm::Value* p = polynomial(s, {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2,
                                    1.33314422036e-1, -3.33332819422e-1});
    llvm::Value* small = fma(b.CreateFMul(p, s), x, x);
    // The sign of −0 is lost in the sum, too.
    return copysign(b.CreateSelect(b.CreateFCmpOGT(t, number(x, 0.625)), large, small), x);
  }
  if (!is_double(x)) {
    llvm::Value* t = quick_min(number(x, 9.01), quick_max(number(x, -9.01), x));
    llvm::Value* s = b.CreateFMul(t, t);
    llvm::Value* p = polynomial(
        s, {1.330616062e-08, 2.057422716e-05, 3.493474564e-03, 1.337924749e-01, 9.999999404e-01});
    llvm::Value* q =
        polynomial(s, {7.756756304e-07, 3.282175458e-04, 2.586894296e-02, 4.671256542e-01, 1});
    return b.CreateFDiv(b.CreateFMul(t, p), q);
  }
  // d / (d + 2) with d = e^(2|x|) − 1 = 2^n (e^r − 1) + (2^n − 1).
  llvm::Value* t = quick_min(number(x, 20), abs(x));
  Exponential e = exp_parts(b.CreateFMul(t, number(x, 2)), nullptr, /*minus_one=*/true);
  llvm::Value* power = power_of_two(e);
  llvm::Value* d = fma(power, e.mantissa, b.CreateFSub(power, number(x, 1)));
  llvm::Value* result = b.CreateFDiv(d, b.CreateFAdd(d, number(x, 2)));
  // Below 2^-30 the square no longer counts, and 2|x| could be denormal.
  return b.CreateSelect(b.CreateFCmpOLT(t, number(x, 0x1p-30)), x, copysign(result, x));
}

// 1 / (1 + e^−x) as a / (a + c·mantissa) with a = 2^−n₁, c = 2^n₂, n₁ + n₂ = n: neither overflows.
llvm::Value* Lowering::sigmoid(llvm::Value* x) {
  double bound = is_double(x) ? 746 : 104;
  llvm::Value* t = quick_min(number(x, bound), quick_max(number(x, -bound), x));
  Exponential e = exp_parts(b.CreateFNeg(t));
  Halves half = halves(e);
  llvm::Value* inverse = half.inverse_first();
  return b.CreateFDiv(inverse, fma(e.mantissa, half.second, inverse));
}

// x / (1 + e^(z + z_low)) for |z| within twice the range of exponents.
llvm::Value* Lowering::gate(llvm::Value* x, llvm::Value* z, llvm::Value* z_low) {
  Exponential e = exp_parts(z, z_low);
  Halves half = halves(e);
  llvm::Value* inverse = half.inverse_first();
  llvm::Value* quotient = b.CreateFDiv(x, fma(e.mantissa, half.second, inverse));
  return b.CreateFMul(quotient, inverse);
}

llvm::Value* Lowering::silu(llvm::Value* x) {
  // Below the bound the result is zero; clamping x makes it so for −inf.
  double bound = is_double(x) ? 760 : 110;
  llvm::Value* numerator = quick_max(number(x, -bound), x);
  return gate(numerator, b.CreateFNeg(quick_min(number(x, bound), numerator)), nullptr);
}

llvm::Value* Lowering::gelu(llvm::Value* x, std::string_view approximate, bool precise) {
  llvm::Value* result = approximate == "tanh"    ? gelu_tanh(x, precise)
                        : approximate == "quick" ? gelu_quick(x, precise)
                                                 : gelu_erf(x, precise);
  // The formulas multiply −inf by zero.
  return fma(quick_min(number(x, 0), x), number(x, 0), result);
}

llvm::Value* Lowering::gelu_quick(llvm::Value* x, bool precise) {
  double bound = is_double(x) ? 447 : 65;
  llvm::Value* numerator = quick_max(number(x, -bound), x);
  llvm::Value* t = quick_min(number(x, bound), numerator);
  long double c = -1.702L;
  llvm::Constant* high = number(x, is_double(x) ? static_cast<double>(c) : static_cast<float>(c));
  llvm::Value* z = b.CreateFMul(t, high);
  llvm::Value* z_low = nullptr;
  if (precise) {
    double low =
        static_cast<double>(c - (is_double(x) ? static_cast<double>(c) : static_cast<float>(c)));
    z_low = fma(t, number(x, low), product_error(t, high, z));
  }
  return gate(numerator, z, z_low);
}

// 0.5·x·(1 + tanh(u)) = x / (1 + e^(−2u)), −2u = x·(c₁ + c₂·x²). An error of −2u, which reaches
// 100, becomes a relative error of the result, so it is carried in two parts.
llvm::Value* Lowering::gelu_tanh(llvm::Value* x, bool precise) {
  bool wide = is_double(x);
  double bound = wide ? 22 : 11;
  llvm::Value* numerator = quick_max(number(x, -bound), x);
  llvm::Value* t = quick_min(number(x, bound), numerator);
  auto rounded = [&](long double value) -> long double {
    return wide ? static_cast<double>(value) : static_cast<float>(value);
  };
  long double c1 = -2 * 0.7978845608028654L;
  long double c2 = c1 * 0.044715L;
  // c₁ cut so that factor − c₁ is exact for every factor that occurs.
  long double grid = wide ? 0x1p47L : 0x1p20L;
  long double c1_high = std::round(c1 * grid) / grid;
  long double c2_high = rounded(c2);
  auto constant = [&](long double value) { return number(x, static_cast<double>(value)); };
  llvm::Value* square = b.CreateFMul(t, t);
  if (!precise)
    return gate(numerator, b.CreateFMul(t, fma(square, constant(c2), constant(c1))), nullptr);
  llvm::Value* square_low = product_error(t, t, square);
  llvm::Value* product = nullptr;
  llvm::Value* factor = nullptr;
  llvm::Value* factor_low = fma(square, constant(c2 - c2_high), constant(c1 - c1_high));
  if (isa_.fma) {
    factor = fma(square, constant(c2_high), constant(c1_high));
    llvm::Value* rest = b.CreateFSub(factor, constant(c1_high));
    factor_low = b.CreateFAdd(factor_low, fma(square, constant(c2_high), b.CreateFNeg(rest)));
  } else {
    product = b.CreateFMul(square, constant(c2_high));
    factor = b.CreateFAdd(product, constant(c1_high));
    llvm::Value* rest = b.CreateFSub(factor, constant(c1_high));
    factor_low = b.CreateFAdd(factor_low, product_error(square, constant(c2_high), product));
    factor_low = b.CreateFAdd(factor_low, b.CreateFSub(product, rest));
  }
  factor_low = fma(square_low, constant(c2_high), factor_low);
  llvm::Value* z = b.CreateFMul(t, factor);
  return gate(numerator, z, fma(t, factor_low, product_error(t, factor, z)));
}

// max(x, 0) − t·Q(t) with t = |x| and Q(t) = ½·erfc(t/√2) = e^(−t²/2)·g(t): one formula for both
// signs, exact in the negative tail. The rounding error of t² is added to the exponent.
llvm::Value* Lowering::gelu_erf(llvm::Value* x, bool precise) {
  bool wide = is_double(x);
  llvm::Value* t = quick_min(number(x, wide ? 39 : 14.6), abs(x));
  llvm::Value* minus_half = b.CreateFMul(t, number(x, -0.5));
  llvm::Value* z = b.CreateFMul(t, minus_half);
  Exponential e = exp_parts(z, precise ? product_error(t, minus_half, z) : nullptr);
  llvm::Value* weight = nullptr;
  if (wide) {
    llvm::Value* u = b.CreateFMul(t, number(x, 0.70710678118654752440));
    weight = b.CreateFMul(b.CreateFMul(minus_half, scaled_erfc(u)), e.mantissa);
  } else {
    // g(t) = G(s)/(t + 2.5) with s = (t − 8)/(t + 2.5): a polynomial that varies little where the
    // tail needs its digits. ratio = −½·t/(t + 2.5), and the coefficients are those of 2·G.
    llvm::Value* ratio = b.CreateFDiv(minus_half, b.CreateFAdd(t, number(x, 2.5)));
    llvm::Value* s = fma(ratio, number(x, -8.4), number(x, -3.2));
    llvm::Value* p = b.CreateFMul(
        ratio, polynomial_in_two(
                   s, {-2.745341554e-08, -7.786941296e-07, -7.747513337e-06, -3.062059477e-05,
                       6.802933513e-06, 2.988580090e-04, -9.450705838e-04, -4.618488252e-03,
                       5.460336059e-02, -2.830278873e-01, 1.031573415e+00}));
    weight = fma(b.CreateFMul(p, e.reduced), e.slope, p);
  }
  Halves half = halves(e);
  llvm::Value* positive = quick_max(number(x, 0), x);
  llvm::Value* result = fma(b.CreateFMul(weight, half.first), half.second, positive);
  if (!wide) return result;
  // Near zero the plain formula loses less.
  llvm::Value* halved = b.CreateFMul(x, number(x, 0.5));
  llvm::Value* near =
      fma(halved, small_erf(b.CreateFMul(x, number(x, 0.70710678118654752440))), halved);
  return copysign(b.CreateSelect(b.CreateFCmpOLT(t, number(x, 0.5)), near, result), x);
}

// a·c − product exactly, where product is the rounded a·c.
llvm::Value* Lowering::product_error(llvm::Value* a, llvm::Value* c, llvm::Value* product) {
  if (isa_.fma) return fma(a, c, b.CreateFNeg(product));
  std::uint64_t mask = is_double(a) ? 0xfffffffff8000000ULL : 0xfffff000ULL;
  auto upper = [&](llvm::Value* v) {
    return from_bits(b.CreateAnd(bits(v), integer(bits(v), mask)));
  };
  llvm::Value* a_high = upper(a);
  llvm::Value* c_high = upper(c);
  llvm::Value* a_low = b.CreateFSub(a, a_high);
  llvm::Value* c_low = b.CreateFSub(c, c_high);
  llvm::Value* error = b.CreateFSub(b.CreateFMul(a_high, c_high), product);
  error = b.CreateFAdd(error, b.CreateFMul(a_high, c_low));
  error = b.CreateFAdd(error, b.CreateFMul(a_low, c_high));
  return b.CreateFAdd(error, b.CreateFMul(a_low, c_low));
}

}  // namespace kiln::compiler
