// Names of CUDA that only GPUs have.

#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
#define __managed__
#define __CUDACC__ 1
#define __NVCC__ 1
#define CUDART_INF_F __builtin_inff()
#define CUDART_INF __builtin_inf()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_NAN __builtin_nan("")
#define CUDART_PI_F 3.14159265f
#define CUDART_PI 3.14159265358979324

[[maybe_unused]] static constexpr int warpSize = 32;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

// Vector types.
#define __kiln_vectors(type, name, align2, align4)                                              \
  struct name##1 {                                                                              \
    type x;                                                                                     \
  };                                                                                            \
  struct __attribute__((aligned(align2))) name##2 {                                             \
    type x, y;                                                                                  \
  };                                                                                            \
  struct name##3 {                                                                              \
    type x, y, z;                                                                               \
  };                                                                                            \
  struct __attribute__((aligned(align4))) name##4 {                                             \
    type x, y, z, w;                                                                            \
  };                                                                                            \
  __kiln_inline name##1 make_##name##1(type x) { return {x}; }                                  \
  __kiln_inline name##2 make_##name##2(type x, type y) { return {x, y}; }                       \
  __kiln_inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }            \
  __kiln_inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
__kiln_vectors(signed char, char, 2, 4)
__kiln_vectors(unsigned char, uchar, 2, 4)
__kiln_vectors(short, short, 4, 8)
__kiln_vectors(unsigned short, ushort, 4, 8)
__kiln_vectors(int, int, 8, 16)
__kiln_vectors(unsigned, uint, 8, 16)
__kiln_vectors(long, long, 16, 16)
__kiln_vectors(unsigned long, ulong, 16, 16)
__kiln_vectors(long long, longlong, 16, 16)
__kiln_vectors(unsigned long long, ulonglong, 16, 16)
__kiln_vectors(float, float, 8, 16)
__kiln_vectors(double, double, 16, 16)
struct dim3 {
  unsigned x, y, z;
  __kiln_member constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  __kiln_member constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

// Synchronisation and memory.
__kiln_inline int __syncthreads_and(int value) { return __nvvm_bar0_and(value); }
__kiln_inline int __syncthreads_or(int value) { return __nvvm_bar0_or(value); }
__kiln_inline int __syncthreads_count(int value) { return __nvvm_bar0_popc(value); }
__kiln_inline void __syncwarp(unsigned mask = 0xffffffffu) { __nvvm_bar_warp_sync(mask); }
__kiln_inline void __threadfence() { __nvvm_membar_gl(); }
__kiln_inline void __threadfence_block() { __nvvm_membar_cta(); }
__kiln_inline void __threadfence_system() { __nvvm_membar_sys(); }
template <class T>
__kiln_inline T __ldg(const T* place) {
  return *place;
}
template <class T>
__kiln_inline T __ldcg(const T* place) {
  return *place;
}
template <class T>
__kiln_inline T __ldcs(const T* place) {
  return *place;
}
template <class T>
__kiln_inline void __stcg(T* place, T value) {
  *place = value;
}
template <class T>
__kiln_inline void __stcs(T* place, T value) {
  *place = value;
}

// Warps.
__kiln_inline unsigned __activemask() { return __nvvm_activemask(); }
__kiln_inline unsigned __ballot_sync(unsigned mask, int value) {
  return __nvvm_vote_ballot_sync(mask, value);
}
__kiln_inline int __any_sync(unsigned mask, int value) { return __nvvm_vote_any_sync(mask, value); }
__kiln_inline int __all_sync(unsigned mask, int value) { return __nvvm_vote_all_sync(mask, value); }
template <class T>
__kiln_inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  return kiln::gpu::__shuffle_idx(mask, value, lane, width);
}
template <class T>
__kiln_inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return kiln::gpu::__shuffle_up(mask, value, delta, width);
}
template <class T>
__kiln_inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return kiln::gpu::__shuffle_down(mask, value, delta, width);
}
template <class T>
__kiln_inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  return kiln::gpu::__shuffle_bfly(mask, value, lanes, width);
}
#if __CUDA_ARCH__ >= 800
__kiln_inline unsigned __reduce_add_sync(unsigned mask, unsigned v) {
  return __nvvm_redux_sync_add(v, mask);
}
__kiln_inline int __reduce_add_sync(unsigned mask, int v) { return __nvvm_redux_sync_add(v, mask); }
__kiln_inline unsigned __reduce_max_sync(unsigned mask, unsigned v) {
  return __nvvm_redux_sync_umax(v, mask);
}
__kiln_inline int __reduce_max_sync(unsigned mask, int v) { return __nvvm_redux_sync_max(v, mask); }
__kiln_inline unsigned __reduce_min_sync(unsigned mask, unsigned v) {
  return __nvvm_redux_sync_umin(v, mask);
}
__kiln_inline int __reduce_min_sync(unsigned mask, int v) { return __nvvm_redux_sync_min(v, mask); }
#endif

// Atomics.
#define __kiln_atomics(name, kind)                                             \
  template <class T>                                                           \
  __kiln_inline T name(T* place, kiln::gpu::__as_is<T> value) {                \
    return kiln::gpu::kind(place, value);                                      \
  }                                                                            \
  template <class T>                                                           \
  __kiln_inline T name##_block(T* place, kiln::gpu::__as_is<T> value) {        \
    return kiln::gpu::kind(place, value);                                      \
  }
__kiln_atomics(atomicAdd, atomic_add)
__kiln_atomics(atomicSub, atomic_sub)
__kiln_atomics(atomicMax, atomic_max)
__kiln_atomics(atomicMin, atomic_min)
__kiln_atomics(atomicAnd, atomic_and)
__kiln_atomics(atomicOr, atomic_or)
__kiln_atomics(atomicXor, atomic_xor)
__kiln_atomics(atomicExch, atomic_exchange)
template <class T>
__kiln_inline T atomicCAS(T* place, kiln::gpu::__as_is<T> expected, kiln::gpu::__as_is<T> desired) {
  return kiln::gpu::atomic_compare_exchange(place, expected, desired);
}
__kiln_inline unsigned atomicInc(unsigned* place, unsigned limit) {
  return kiln::gpu::__atomic_loop(place,
                                  [=](unsigned old) { return old >= limit ? 0u : old + 1; });
}
__kiln_inline unsigned atomicDec(unsigned* place, unsigned limit) {
  return kiln::gpu::__atomic_loop(
      place, [=](unsigned old) { return old == 0 || old > limit ? limit : old - 1; });
}

// Integers and bits.
__kiln_inline int __popc(unsigned x) { return __builtin_popcount(x); }
__kiln_inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
__kiln_inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
__kiln_inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
__kiln_inline int __ffs(int x) { return __builtin_ffs(x); }
__kiln_inline int __ffsll(long long x) { return __builtin_ffsll(x); }
__kiln_inline unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
__kiln_inline unsigned long long __brevll(unsigned long long x) {
  return __builtin_bitreverse64(x);
}
__kiln_inline unsigned __byte_perm(unsigned a, unsigned b, unsigned how) {
  return __nvvm_prmt(a, b, how & 0x7777u);
}
__kiln_inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) << (by & 31) >> 32);
}
__kiln_inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (by & 31));
}
__kiln_inline int __mulhi(int a, int b) { return static_cast<long long>(a) * b >> 32; }
__kiln_inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned long long>(a) * b >> 32;
}
__kiln_inline long long __mul64hi(long long a, long long b) { return __nvvm_mulhi_ll(a, b); }
__kiln_inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return __nvvm_mulhi_ull(a, b);
}
__kiln_inline int __mul24(int a, int b) { return __nvvm_mul24_i(a, b); }
__kiln_inline unsigned __umul24(unsigned a, unsigned b) { return __nvvm_mul24_ui(a, b); }
__kiln_inline unsigned __sad(int a, int b, unsigned c) { return __nvvm_sad_i(a, b, c); }
__kiln_inline int __dp4a(int a, int b, int c) {
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(c) : "r"(a), "r"(b), "r"(c));
  return c;
}

// Bits of floats, and conversions that say how they round.
__kiln_inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
__kiln_inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
__kiln_inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
__kiln_inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
__kiln_inline long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
__kiln_inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
__kiln_inline int __double2hiint(double x) { return __nvvm_d2i_hi(x); }
__kiln_inline int __double2loint(double x) { return __nvvm_d2i_lo(x); }
__kiln_inline double __hiloint2double(int high, int low) { return __nvvm_lohi_i2d(low, high); }
#define __kiln_rounded(to, from, type, source, kind)                                          \
  __kiln_inline type __##from##2##to##_rn(source x) { return __nvvm_##kind##_rn(x); }         \
  __kiln_inline type __##from##2##to##_rz(source x) { return __nvvm_##kind##_rz(x); }         \
  __kiln_inline type __##from##2##to##_ru(source x) { return __nvvm_##kind##_rp(x); }         \
  __kiln_inline type __##from##2##to##_rd(source x) { return __nvvm_##kind##_rm(x); }
__kiln_rounded(int, float, int, float, f2i)
__kiln_rounded(uint, float, unsigned, float, f2ui)
__kiln_rounded(ll, float, long long, float, f2ll)
__kiln_rounded(ull, float, unsigned long long, float, f2ull)
__kiln_rounded(int, double, int, double, d2i)
__kiln_rounded(uint, double, unsigned, double, d2ui)
__kiln_rounded(ll, double, long long, double, d2ll)
__kiln_rounded(ull, double, unsigned long long, double, d2ull)
__kiln_rounded(float, double, float, double, d2f)
__kiln_rounded(float, int, float, int, i2f)
__kiln_rounded(float, uint, float, unsigned, ui2f)
__kiln_rounded(float, ll, float, long long, ll2f)
__kiln_rounded(double, ll, double, long long, ll2d)
__kiln_inline double __int2double_rn(int x) { return x; }
__kiln_inline double __uint2double_rn(unsigned x) { return x; }

// Arithmetic that says how it rounds, and fast approximations.
#define __kiln_exact(name, op)                                                                \
  __kiln_inline float __f##name##_rn(float a, float b) { return __nvvm_##op##_rn_f(a, b); }   \
  __kiln_inline float __f##name##_rz(float a, float b) { return __nvvm_##op##_rz_f(a, b); }   \
  __kiln_inline float __f##name##_ru(float a, float b) { return __nvvm_##op##_rp_f(a, b); }   \
  __kiln_inline float __f##name##_rd(float a, float b) { return __nvvm_##op##_rm_f(a, b); }   \
  __kiln_inline double __d##name##_rn(double a, double b) { return __nvvm_##op##_rn_d(a, b); } \
  __kiln_inline double __d##name##_rz(double a, double b) { return __nvvm_##op##_rz_d(a, b); } \
  __kiln_inline double __d##name##_ru(double a, double b) { return __nvvm_##op##_rp_d(a, b); } \
  __kiln_inline double __d##name##_rd(double a, double b) { return __nvvm_##op##_rm_d(a, b); }
__kiln_exact(add, add)
__kiln_exact(mul, mul)
__kiln_exact(div, div)
__kiln_inline float __fsub_rn(float a, float b) { return __nvvm_add_rn_f(a, -b); }
__kiln_inline double __dsub_rn(double a, double b) { return __nvvm_add_rn_d(a, -b); }
__kiln_inline float __fmaf_rn(float a, float b, float c) { return __nvvm_fma_rn_f(a, b, c); }
__kiln_inline float __fmaf_rz(float a, float b, float c) { return __nvvm_fma_rz_f(a, b, c); }
__kiln_inline double __fma_rn(double a, double b, double c) { return __nvvm_fma_rn_d(a, b, c); }
__kiln_inline float __frcp_rn(float x) { return __nvvm_rcp_rn_f(x); }
__kiln_inline double __drcp_rn(double x) { return __nvvm_rcp_rn_d(x); }
__kiln_inline float __fsqrt_rn(float x) { return __nvvm_sqrt_rn_f(x); }
__kiln_inline double __dsqrt_rn(double x) { return __nvvm_sqrt_rn_d(x); }
__kiln_inline float __frsqrt_rn(float x) { return 1.0 / __builtin_sqrt(static_cast<double>(x)); }
__kiln_inline float __fdividef(float a, float b) { return __nvvm_div_approx_f(a, b); }
__kiln_inline float fdividef(float a, float b) { return a / b; }
__kiln_inline float __exp2f(float x) { return __nvvm_ex2_approx_f(x); }
__kiln_inline float __expf(float x) { return __nvvm_ex2_approx_f(x * 1.44269504f); }
__kiln_inline float __exp10f(float x) { return __nvvm_ex2_approx_f(x * 3.32192809f); }
__kiln_inline float __log2f(float x) { return __nvvm_lg2_approx_f(x); }
__kiln_inline float __logf(float x) { return __nvvm_lg2_approx_f(x) * 0.693147181f; }
__kiln_inline float __log10f(float x) { return __nvvm_lg2_approx_f(x) * 0.301029996f; }
__kiln_inline float __powf(float x, float y) {
  return __nvvm_ex2_approx_f(y * __nvvm_lg2_approx_f(x));
}
__kiln_inline float __sinf(float x) { return __nvvm_sin_approx_f(x); }
__kiln_inline float __cosf(float x) { return __nvvm_cos_approx_f(x); }
__kiln_inline float __tanf(float x) { return __fdividef(__sinf(x), __cosf(x)); }
__kiln_inline void __sincosf(float x, float* s, float* c) {
  *s = __sinf(x);
  *c = __cosf(x);
}
__kiln_inline float __saturatef(float x) { return __nvvm_saturate_f(x); }
__kiln_inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
__kiln_inline double rcbrt(double x) { return 1.0 / cbrt(x); }
__kiln_inline float normf(int n, const float* x) {
  float sum = 0;
  for (int i = 0; i < n; ++i) sum = hypotf(sum, x[i]);
  return sum;
}
__kiln_inline float sinpif(float x) { return _Z5sinpif(x); }
__kiln_inline double sinpi(double x) { return _Z5sinpid(x); }
__kiln_inline float cospif(float x) { return _Z5cospif(x); }
__kiln_inline double cospi(double x) { return _Z5cospid(x); }

// Half types.
typedef kiln::gpu::float16 __half;
typedef kiln::gpu::float16 half;
typedef kiln::gpu::bfloat16 __nv_bfloat16;
typedef kiln::gpu::bfloat16 nv_bfloat16;
struct __attribute__((aligned(4))) __half2 {
  __half x, y;
};
typedef __half2 half2;
struct __attribute__((aligned(4))) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
typedef __nv_bfloat162 nv_bfloat162;
__kiln_inline __half __float2half(float x) { return x; }
__kiln_inline __half __float2half_rn(float x) { return x; }
__kiln_inline float __half2float(__half x) { return x; }
__kiln_inline __half __ushort_as_half(unsigned short bits) { return __builtin_bit_cast(__half, bits); }
__kiln_inline unsigned short __half_as_ushort(__half x) { return x.bits; }
__kiln_inline __nv_bfloat16 __float2bfloat16(float x) { return x; }
__kiln_inline __nv_bfloat16 __float2bfloat16_rn(float x) { return x; }
__kiln_inline float __bfloat162float(__nv_bfloat16 x) { return x; }
__kiln_inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
__kiln_inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
__kiln_inline __half2 __half2half2(__half x) { return {x, x}; }
__kiln_inline __half2 __float2half2_rn(float x) { return {x, x}; }
__kiln_inline float __low2float(__half2 v) { return v.x; }
__kiln_inline float __high2float(__half2 v) { return v.y; }
__kiln_inline __half __low2half(__half2 v) { return v.x; }
__kiln_inline __half __high2half(__half2 v) { return v.y; }
__kiln_inline float2 __half22float2(__half2 v) { return {v.x, v.y}; }
__kiln_inline __half2 __float22half2_rn(float2 v) { return {v.x, v.y}; }
__kiln_inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {v.x, v.y}; }
__kiln_inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
__kiln_inline __half __hfma(__half a, __half b, __half c) {
  return __builtin_bit_cast(
      __half, __builtin_elementwise_fma(__builtin_bit_cast(_Float16, a),
                                        __builtin_bit_cast(_Float16, b),
                                        __builtin_bit_cast(_Float16, c)));
}
#define __kiln_half_op(name, op)                                                       \
  __kiln_inline __half name(__half a, __half b) { return float(a) op float(b); }       \
  __kiln_inline __nv_bfloat16 name(__nv_bfloat16 a, __nv_bfloat16 b) {                 \
    return float(a) op float(b);                                                       \
  }                                                                                    \
  __kiln_inline __half2 name##2(__half2 a, __half2 b) {                                \
    return {float(a.x) op float(b.x), float(a.y) op float(b.y)};                       \
  }                                                                                    \
  __kiln_inline __nv_bfloat162 name##2(__nv_bfloat162 a, __nv_bfloat162 b) {           \
    return {float(a.x) op float(b.x), float(a.y) op float(b.y)};                       \
  }
__kiln_half_op(__hadd, +)
__kiln_half_op(__hsub, -)
__kiln_half_op(__hmul, *)
#undef __kiln_half_op
__kiln_inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
__kiln_inline __half __hdiv(__half a, __half b) { return float(a) / float(b); }
__kiln_inline __half __hneg(__half a) { return -float(a); }
__kiln_inline __half __habs(__half a) { return fabsf(a); }
__kiln_inline bool __hgt(__half a, __half b) { return float(a) > float(b); }
__kiln_inline bool __hlt(__half a, __half b) { return float(a) < float(b); }
__kiln_inline bool __hge(__half a, __half b) { return float(a) >= float(b); }
__kiln_inline bool __hle(__half a, __half b) { return float(a) <= float(b); }
__kiln_inline bool __heq(__half a, __half b) { return float(a) == float(b); }
__kiln_inline bool __hisnan(__half a) { return isnan(float(a)); }
__kiln_inline __half __hmax(__half a, __half b) { return fmaxf(a, b); }
__kiln_inline __half __hmin(__half a, __half b) { return fminf(a, b); }
__kiln_inline __half hexp(__half a) { return expf(a); }
__kiln_inline __half hlog(__half a) { return logf(a); }
__kiln_inline __half hsqrt(__half a) { return sqrtf(a); }
__kiln_inline __half hrsqrt(__half a) { return rsqrtf(a); }

// Time, and the end.
__kiln_inline long long clock64() { return __nvvm_read_ptx_sreg_clock64(); }
__kiln_inline int clock() { return __nvvm_read_ptx_sreg_clock(); }
__kiln_inline void __nanosleep(unsigned nanoseconds) {
  __nvvm_nanosleep(nanoseconds);
}
__kiln_inline void __trap() { __builtin_trap(); }
__kiln_inline void __brkpt() { asm volatile("brkpt;"); }
__kiln_inline bool __isGlobal(const void* p) { return __nvvm_isspacep_global(p); }
__kiln_inline bool __isShared(const void* p) { return __nvvm_isspacep_shared(p); }
__kiln_inline unsigned long __cvta_generic_to_shared(const void* p) {
  return (unsigned long)(__attribute__((address_space(3))) const void*)p;
}
extern "C" __device__ __attribute__((noreturn)) void __assertfail(const char*, const char*, unsigned,
                                                                  const char*, size_t);
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) \
  ((condition) ? (void)0 : __assertfail(#condition, __FILE__, __LINE__, __func__, 1))
#endif
