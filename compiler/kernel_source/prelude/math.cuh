// Mathematical functions of kiln::gpu for float and double; integers go as double, half types as
// float. Names with an f are those of C.

namespace kiln::gpu {
#ifdef __CUDA_ARCH__
// Functions of libclc, by their names in its bitcode.
#define __kiln_external(name, length)                                                      \
  extern "C" __device__ __attribute__((const, nothrow)) float _Z##length##name##f(float);  \
  extern "C" __device__ __attribute__((const, nothrow)) double _Z##length##name##d(double);
#define __kiln_external2(name, length)                                                             \
  extern "C" __device__ __attribute__((const, nothrow)) float _Z##length##name##ff(float, float);  \
  extern "C" __device__ __attribute__((const, nothrow)) double _Z##length##name##dd(double, double);
#define __kiln_float(name, length) _Z##length##name##f
#define __kiln_double(name, length) _Z##length##name##d
#define __kiln_float2(name, length) _Z##length##name##ff
#define __kiln_double2(name, length) _Z##length##name##dd
#else
#define __kiln_external(name, length)
#define __kiln_external2(name, length)
#define __kiln_float(name, length) __builtin_##name##f
#define __kiln_double(name, length) __builtin_##name
#define __kiln_float2(name, length) __builtin_##name##f
#define __kiln_double2(name, length) __builtin_##name
#endif

template <class T>
using __if_integer = std::enable_if_t<__is_integral(T), double>;
// Of two arguments of different types: double unless both are small.
template <class A, class B>
using __pair_of = std::enable_if_t<
    !__is_same(A, B) || __is_integral(A),
    std::conditional_t<(__is_same(A, double) || __is_same(B, double) ||
                        (__is_integral(A) && __is_integral(B))),
                       double, float>>;

#define __kiln_one(name, as_float, as_double)                            \
  __kiln_inline float name(float x) { return as_float(x); }              \
  __kiln_inline double name(double x) { return as_double(x); }           \
  __kiln_inline float name##f(float x) { return as_float(x); }           \
  template <class T>                                                     \
  __kiln_inline __if_integer<T> name(T x) {                              \
    return as_double(static_cast<double>(x));                            \
  }
#define __kiln_two(name, as_float, as_double)                                     \
  __kiln_inline float name(float x, float y) { return as_float(x, y); }           \
  __kiln_inline double name(double x, double y) { return as_double(x, y); }       \
  __kiln_inline float name##f(float x, float y) { return as_float(x, y); }        \
  template <class A, class B>                                                     \
  __kiln_inline __pair_of<A, B> name(A x, B y) {                                  \
    return name(static_cast<__pair_of<A, B>>(x), static_cast<__pair_of<A, B>>(y)); \
  }
#define __kiln_one_of(name, length) \
  __kiln_external(name, length)     \
  __kiln_one(name, __kiln_float(name, length), __kiln_double(name, length))
#define __kiln_two_of(name, length) \
  __kiln_external2(name, length)    \
  __kiln_two(name, __kiln_float2(name, length), __kiln_double2(name, length))
// Under -ffast-math some functions of float are single instructions on devices, as nvcc has it.
#if defined(__CUDA_ARCH__) && defined(__FAST_MATH__)
#define __kiln_fast_of(name, length, fast) \
  __kiln_external(name, length)            \
  __kiln_one(name, fast, __kiln_double(name, length))
__kiln_inline float __fast_log2(float x) { return __nvvm_lg2_approx_f(x); }
__kiln_inline float __fast_log(float x) { return __fast_log2(x) * 0.693147181f; }
__kiln_inline float __fast_log10(float x) { return __fast_log2(x) * 0.301029996f; }
__kiln_inline float __fast_exp(float x) { return __nvvm_ex2_approx_f(x * 1.44269504f); }
__kiln_inline float __fast_exp2(float x) { return __nvvm_ex2_approx_f(x); }
__kiln_inline float __fast_sin(float x) { return __nvvm_sin_approx_f(x); }
__kiln_inline float __fast_cos(float x) { return __nvvm_cos_approx_f(x); }
#else
#define __kiln_fast_of(name, length, fast) __kiln_one_of(name, length)
#define __fast_exp __exp
#define __fast_exp2 __exp2
#endif
#define __kiln_built_in(name) __kiln_one(name, __builtin_##name##f, __builtin_##name)

// exp and exp2 of float have no branches, so that loops over threads on the host stay loops over
// vectors; and those of libclc give zero for results below the normal numbers.
//
// exp(r) * 2^n for |r| <= ln(2) / 2; the power of two comes in halves, so that the last product
// alone rounds.
__kiln_inline float __exp_parts(float r, float n) {
  float p = 1.98527617612853646e-4f;
  p = p * r + 1.39304355252534151e-3f;
  p = p * r + 8.33336077630519867e-3f;
  p = p * r + 4.16664853692054749e-2f;
  p = p * r + 0.166666671633720398f;
  p = p * r + 0.5f;
  p = p * (r * r) + r + 1.0f;
  const int i = static_cast<int>(n), half = i >> 1;
  return p * __builtin_bit_cast(float, (half + 127) << 23) *
         __builtin_bit_cast(float, (i - half + 127) << 23);
}
// Within bounds where the result is zero or infinity; NaN comes out as some number.
__kiln_inline float __bounded(float x, float low, float high) {
  x = x > low ? x : low;
  return x < high ? x : high;
}
__kiln_inline float __exp(float x) {
  const float bounded = __bounded(x, -105.0f, 90.0f);
  const float n = __builtin_rintf(bounded * 1.44269504f);
  // The first constant is short, so that its product with n is exact.
  const float r = bounded - n * 0.693145751953125f - n * 1.42860682030941723e-6f;
  return x != x ? x : __exp_parts(r, n);
}
__kiln_inline float __exp2(float x) {
  const float bounded = __bounded(x, -152.0f, 130.0f);
  const float n = __builtin_rintf(bounded);
  return x != x ? x : __exp_parts((bounded - n) * 0.693147182f, n);
}
__kiln_external(exp, 3)
__kiln_external(exp2, 4)
__kiln_one(exp, __fast_exp, __kiln_double(exp, 3))
__kiln_one(exp2, __fast_exp2, __kiln_double(exp2, 4))

#ifdef __CUDA_ARCH__
__kiln_external(sinpi, 5)
__kiln_external(cospi, 5)
extern "C" __device__ __attribute__((const, nothrow)) double _Z3powdd(double, double);
// That of libclc is off by more than CUDA promises. This is the approximation of Lanczos, with the
// coefficients of Godfrey for g = 6.0246800407767296.
__kiln_inline double __tgamma_of_positive(double x) {
  constexpr double kAbove[13] = {23531376880.41075968857200767445,
                                 42919803642.64909876895789904700,
                                 35711959237.35566804944018545155,
                                 17921034426.03720969991975575446,
                                 6039542586.352028005064291644307,
                                 1439720407.311721673663223072795,
                                 248874557.8620541565114603864132,
                                 31426415.58540019438061423162832,
                                 2876370.628935372441225409051621,
                                 186056.2653952234950402949897160,
                                 8071.672002365816210638002902272,
                                 210.8242777515793458725097339207,
                                 2.506628274631000270164908177134};
  constexpr double kBelow[13] = {0,         39916800, 120543840, 150917976, 105258076, 45995730, 13339535,
                                 2637558, 357423,   32670,     1925,      66,        1};
  double above = 0, below = 0;
  if (x < 5) {
    for (int i = 12; i >= 0; --i) {
      above = above * x + kAbove[i];
      below = below * x + kBelow[i];
    }
  } else {
    for (int i = 0; i < 13; ++i) {
      above = above / x + kAbove[i];
      below = below / x + kBelow[i];
    }
  }
  const double g = 6.024680040776729583740234375;
  const double y = x + (g - 0.5);
  // What the sum above lost.
  const double lost = x > g - 0.5 ? (y - x) - (g - 0.5) : (y - (g - 0.5)) - x;
  double value = above / below / _Z3expd(y);
  if (x < 140) {
    value *= _Z3powdd(y, x - 0.5);
  } else {
    const double root = _Z3powdd(y, x / 2 - 0.25);
    value = value * root * root;
  }
  return value + lost * g / y * value;
}
// gamma(x + 16) / gamma(x)
__kiln_inline double __tgamma_steps(double x) {
  double product = 1;
  for (int i = 0; i < 16; ++i) product *= x + i;
  return product;
}
__kiln_inline double __tgamma(double x) {
  if (x != x || x == __builtin_inf()) return x;
  if (x == 0) return __builtin_copysign(__builtin_inf(), x);
  if (x > 0) return x > 171.7 ? __builtin_inf() : __tgamma_of_positive(x);
  if (x == __builtin_floor(x)) return __builtin_nan("");
  if (x > -20 && x < 0) {
    // Up to where it is positive, by gamma(x + 1) = x * gamma(x).
    double product = 1;
    while (x < 0) product *= x, x += 1;
    return (x == 0 ? __builtin_inf() : __tgamma_of_positive(x)) / product;
  }
  const double far = -x;
  if (far > 184) return __builtin_copysign(0.0, _Z5sinpid(x));
  // By reflection, in two steps so that what is far below one does not come out as zero.
  const double ratio = -3.14159265358979323846 / (_Z5sinpid(far) * far);
  return far < 171 ? ratio / __tgamma_of_positive(far)
                   : ratio / __tgamma_of_positive(far - 16) / __tgamma_steps(far - 16);
}
__kiln_inline float __tgamma(float x) { return static_cast<float>(__tgamma(static_cast<double>(x))); }
__kiln_one(tgamma, __tgamma, __tgamma)
#else
__kiln_one_of(tgamma, 6)
#endif
__kiln_one_of(expm1, 5)
__kiln_fast_of(log, 3, __fast_log)
__kiln_fast_of(log2, 4, __fast_log2)
__kiln_fast_of(log10, 5, __fast_log10)
__kiln_one_of(log1p, 5)
__kiln_fast_of(sin, 3, __fast_sin)
__kiln_fast_of(cos, 3, __fast_cos)
__kiln_one_of(tan, 3)
__kiln_one_of(asin, 4)
__kiln_one_of(acos, 4)
__kiln_one_of(atan, 4)
__kiln_one_of(sinh, 4)
__kiln_one_of(cosh, 4)
__kiln_one_of(tanh, 4)
__kiln_one_of(asinh, 5)
__kiln_one_of(acosh, 5)
__kiln_one_of(atanh, 5)
__kiln_one_of(erf, 3)
__kiln_one_of(erfc, 4)
__kiln_one_of(lgamma, 6)
__kiln_one_of(cbrt, 4)
__kiln_two_of(pow, 3)
__kiln_two_of(hypot, 5)
__kiln_two_of(atan2, 5)
__kiln_two_of(fmod, 4)
__kiln_two_of(remainder, 9)

__kiln_built_in(sqrt)
__kiln_built_in(fabs)
__kiln_built_in(floor)
__kiln_built_in(ceil)
__kiln_built_in(trunc)
__kiln_built_in(rint)
__kiln_built_in(round)
__kiln_built_in(nearbyint)
__kiln_two(copysign, __builtin_copysignf, __builtin_copysign)
__kiln_two(fmin, __builtin_fminf, __builtin_fmin)
__kiln_two(fmax, __builtin_fmaxf, __builtin_fmax)

#ifdef __CUDA_ARCH__
__kiln_inline float __reciprocal_sqrt(float x) { return __nvvm_rsqrt_approx_f(x); }
__kiln_external(exp10, 5)
#define __kiln_exp10f _Z5exp10f
#define __kiln_exp10 _Z5exp10d
#else
__kiln_inline float __reciprocal_sqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
#define __kiln_exp10f(x) __builtin_exp10f(x)
#define __kiln_exp10(x) __builtin_exp10(x)
#endif
__kiln_one(exp10, __kiln_exp10f, __kiln_exp10)
__kiln_inline double __reciprocal_sqrt(double x) { return 1.0 / __builtin_sqrt(x); }
__kiln_one(rsqrt, __reciprocal_sqrt, __reciprocal_sqrt)

__kiln_inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
__kiln_inline float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
__kiln_inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
__kiln_inline float fdimf(float x, float y) { return x <= y ? 0.0f : x - y; }
__kiln_inline double fdim(double x, double y) { return x <= y ? 0.0 : x - y; }
__kiln_inline float ldexp(float x, int e) { return __builtin_ldexpf(x, e); }
__kiln_inline double ldexp(double x, int e) { return __builtin_ldexp(x, e); }
__kiln_inline float ldexpf(float x, int e) { return __builtin_ldexpf(x, e); }
__kiln_inline float scalbnf(float x, int e) { return __builtin_ldexpf(x, e); }
__kiln_inline double scalbn(double x, int e) { return __builtin_ldexp(x, e); }
__kiln_inline void sincosf(float x, float* s, float* c) {
  *s = sin(x);
  *c = cos(x);
}
__kiln_inline void sincos(float x, float* s, float* c) { sincosf(x, s, c); }
__kiln_inline void sincos(double x, double* s, double* c) {
  *s = sin(x);
  *c = cos(x);
}
__kiln_inline long lrint(double x) { return static_cast<long>(__builtin_rint(x)); }
__kiln_inline long lrintf(float x) { return static_cast<long>(__builtin_rintf(x)); }
__kiln_inline long lround(double x) { return static_cast<long>(__builtin_round(x)); }
__kiln_inline long lroundf(float x) { return static_cast<long>(__builtin_roundf(x)); }

__kiln_inline bool isnan(float x) { return __builtin_isnan(x); }
__kiln_inline bool isnan(double x) { return __builtin_isnan(x); }
__kiln_inline bool isinf(float x) { return __builtin_isinf(x); }
__kiln_inline bool isinf(double x) { return __builtin_isinf(x); }
__kiln_inline bool isfinite(float x) { return __builtin_isfinite(x); }
__kiln_inline bool isfinite(double x) { return __builtin_isfinite(x); }
__kiln_inline bool signbit(float x) { return __builtin_signbit(x); }
__kiln_inline bool signbit(double x) { return __builtin_signbit(x); }

__kiln_inline float abs(float x) { return __builtin_fabsf(x); }
__kiln_inline double abs(double x) { return __builtin_fabs(x); }
__kiln_inline int abs(int x) { return x < 0 ? -x : x; }
__kiln_inline long abs(long x) { return x < 0 ? -x : x; }
__kiln_inline long long abs(long long x) { return x < 0 ? -x : x; }
__kiln_inline long long llabs(long long x) { return x < 0 ? -x : x; }

// A number is less than NaN here: it wins over it.
template <class T>
__kiln_inline T min(T a, T b) {
  if constexpr (__is_same(T, float))
    return __builtin_fminf(a, b);
  else if constexpr (__is_same(T, double))
    return __builtin_fmin(a, b);
  else
    return b < a ? b : a;
}
template <class T>
__kiln_inline T max(T a, T b) {
  if constexpr (__is_same(T, float))
    return __builtin_fmaxf(a, b);
  else if constexpr (__is_same(T, double))
    return __builtin_fmax(a, b);
  else
    return a < b ? b : a;
}
template <class A, class B>
__kiln_inline auto min(A a, B b) -> decltype(a + b) {
  using T = decltype(a + b);
  return min<T>(static_cast<T>(a), static_cast<T>(b));
}
template <class A, class B>
__kiln_inline auto max(A a, B b) -> decltype(a + b) {
  using T = decltype(a + b);
  return max<T>(static_cast<T>(a), static_cast<T>(b));
}
}  // namespace kiln::gpu

namespace std {
using kiln::gpu::abs;
using kiln::gpu::acos;
using kiln::gpu::acosh;
using kiln::gpu::asin;
using kiln::gpu::asinh;
using kiln::gpu::atan;
using kiln::gpu::atan2;
using kiln::gpu::atanh;
using kiln::gpu::cbrt;
using kiln::gpu::ceil;
using kiln::gpu::copysign;
using kiln::gpu::cos;
using kiln::gpu::cosh;
using kiln::gpu::erf;
using kiln::gpu::erfc;
using kiln::gpu::exp;
using kiln::gpu::exp2;
using kiln::gpu::expm1;
using kiln::gpu::fabs;
using kiln::gpu::floor;
using kiln::gpu::fma;
using kiln::gpu::fmax;
using kiln::gpu::fmin;
using kiln::gpu::fmod;
using kiln::gpu::hypot;
using kiln::gpu::isfinite;
using kiln::gpu::isinf;
using kiln::gpu::isnan;
using kiln::gpu::ldexp;
using kiln::gpu::lgamma;
using kiln::gpu::log;
using kiln::gpu::log10;
using kiln::gpu::log1p;
using kiln::gpu::log2;
using kiln::gpu::max;
using kiln::gpu::min;
using kiln::gpu::nearbyint;
using kiln::gpu::pow;
using kiln::gpu::remainder;
using kiln::gpu::rint;
using kiln::gpu::round;
using kiln::gpu::signbit;
using kiln::gpu::sin;
using kiln::gpu::sinh;
using kiln::gpu::sqrt;
using kiln::gpu::tan;
using kiln::gpu::tanh;
using kiln::gpu::tgamma;
using kiln::gpu::trunc;
}  // namespace std
