// Every function is a kernel `name_f` (float) or `name_d` (double) over an array, or two.
#include <math.h>

#define UNARY(name, f, d)                                                                   \
  extern "C" __global__ void name##_f(const float* in, float* out, int n) {                 \
    const int i = blockIdx.x * blockDim.x + threadIdx.x;                                    \
    if (i < n) out[i] = f(in[i]);                                                           \
  }                                                                                         \
  extern "C" __global__ void name##_d(const double* in, double* out, int n) {               \
    const int i = blockIdx.x * blockDim.x + threadIdx.x;                                    \
    if (i < n) out[i] = d(in[i]);                                                           \
  }
#define BINARY(name, f, d)                                                                       \
  extern "C" __global__ void name##_f(const float* a, const float* b, float* out, int n) {       \
    const int i = blockIdx.x * blockDim.x + threadIdx.x;                                         \
    if (i < n) out[i] = f(a[i], b[i]);                                                           \
  }                                                                                              \
  extern "C" __global__ void name##_d(const double* a, const double* b, double* out, int n) {    \
    const int i = blockIdx.x * blockDim.x + threadIdx.x;                                         \
    if (i < n) out[i] = d(a[i], b[i]);                                                           \
  }

UNARY(sine, sinf, sin)
UNARY(cosine, cosf, cos)
UNARY(tangent, tanf, tan)
UNARY(arcsine, asinf, asin)
UNARY(arctangent, atanf, atan)
UNARY(hyperbolic_sine, sinhf, sinh)
UNARY(hyperbolic_tangent, tanhf, tanh)
UNARY(exponential, expf, exp)
UNARY(exponential_minus_one, expm1f, expm1)
UNARY(power_of_two, exp2f, exp2)
UNARY(logarithm, logf, log)
UNARY(logarithm_of_two, log2f, log2)
UNARY(logarithm_plus_one, log1pf, log1p)
UNARY(root, sqrtf, sqrt)
UNARY(cube_root, cbrtf, cbrt)
UNARY(reciprocal_root, rsqrtf, rsqrt)
UNARY(error_function, erff, erf)
UNARY(error_complement, erfcf, erfc)
UNARY(gamma_logarithm, lgammaf, lgamma)
UNARY(gamma_function, tgammaf, tgamma)
UNARY(round_even, rintf, rint)
UNARY(round_away, roundf, round)
UNARY(ceiling, ceilf, ceil)
BINARY(power, powf, pow)
BINARY(arctangent_of_two, atan2f, atan2)
BINARY(remainder_of, fmodf, fmod)
BINARY(hypotenuse, hypotf, hypot)
BINARY(division, __fdiv_rn, __ddiv_rn)
