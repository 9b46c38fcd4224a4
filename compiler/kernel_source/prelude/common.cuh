// What every kernel sees, on every target: integer types, a few traits, the words of the language.

typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef long int64_t;  // as on the host; a GPU alone would take long long
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef unsigned long uint64_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;

#define INT8_MAX 127
#define INT16_MAX 32767
#define INT32_MAX 2147483647
#define INT64_MAX 9223372036854775807L
#define INT8_MIN (-128)
#define INT16_MIN (-32768)
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807LL - 1)
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 4294967295U
#define UINT64_MAX 18446744073709551615UL
#define INT_MAX INT32_MAX
#define INT_MIN INT32_MIN
#define UINT_MAX UINT32_MAX
#define LLONG_MAX 9223372036854775807LL
#define LLONG_MIN (-9223372036854775807LL - 1)
#define ULLONG_MAX 18446744073709551615ULL
#define FLT_MAX __FLT_MAX__
#define FLT_MIN __FLT_MIN__
#define FLT_EPSILON __FLT_EPSILON__
#define DBL_MAX __DBL_MAX__
#define DBL_MIN __DBL_MIN__
#define DBL_EPSILON __DBL_EPSILON__
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define HUGE_VAL __builtin_huge_val()
#define HUGE_VALF __builtin_huge_valf()
#define M_PI 3.14159265358979323846
#define M_E 2.7182818284590452354
#define M_LN2 0.69314718055994530942
#define M_LOG2E 1.4426950408889634074
#define M_SQRT2 1.41421356237309504880
#ifndef NULL
#define NULL 0
#endif

#define __kiln_inline __device__ static inline __attribute__((always_inline, unused))
#define __kiln_member __device__ inline __attribute__((always_inline))

namespace std {
using ::int8_t;
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::uint8_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::intptr_t;
using ::uintptr_t;
using ::size_t;
using ::ptrdiff_t;
using nullptr_t = decltype(nullptr);

template <class T, T V>
struct integral_constant {
  static constexpr T value = V;
  using value_type = T;
  constexpr operator T() const { return V; }
};
using true_type = integral_constant<bool, true>;
using false_type = integral_constant<bool, false>;
template <bool B, class T = void>
struct enable_if {};
template <class T>
struct enable_if<true, T> {
  using type = T;
};
template <bool B, class T = void>
using enable_if_t = typename enable_if<B, T>::type;
template <bool B, class T, class F>
struct conditional {
  using type = T;
};
template <class T, class F>
struct conditional<false, T, F> {
  using type = F;
};
template <bool B, class T, class F>
using conditional_t = typename conditional<B, T, F>::type;
template <class T>
using remove_cv_t = __remove_cv(T);
template <class T>
using remove_const_t = __remove_const(T);
template <class T>
using remove_reference_t = __remove_reference_t(T);
template <class T>
using remove_cvref_t = __remove_cvref(T);
template <class T>
using remove_pointer_t = __remove_pointer(T);
template <class T>
using decay_t = __decay(T);
template <class T>
struct remove_reference {
  using type = __remove_reference_t(T);
};
template <class T>
using make_unsigned_t = __make_unsigned(T);
template <class T>
using make_signed_t = __make_signed(T);
template <class A, class B>
inline constexpr bool is_same_v = __is_same(A, B);
template <class A, class B>
struct is_same : integral_constant<bool, __is_same(A, B)> {};
template <class T>
inline constexpr bool is_integral_v = __is_integral(T);
template <class T>
struct is_integral : integral_constant<bool, __is_integral(T)> {};
template <class T>
inline constexpr bool is_floating_point_v = __is_floating_point(T);
template <class T>
struct is_floating_point : integral_constant<bool, __is_floating_point(T)> {};
template <class T>
inline constexpr bool is_arithmetic_v = __is_arithmetic(T);
template <class T>
struct is_arithmetic : integral_constant<bool, __is_arithmetic(T)> {};
template <class T>
inline constexpr bool is_signed_v = __is_signed(T);
template <class T>
inline constexpr bool is_unsigned_v = __is_unsigned(T);
template <class T>
inline constexpr bool is_pointer_v = __is_pointer(T);
template <class T>
inline constexpr bool is_trivially_copyable_v = __is_trivially_copyable(T);

template <class T>
constexpr remove_reference_t<T>&& move(T&& value) noexcept {
  return static_cast<remove_reference_t<T>&&>(value);
}
template <class T>
constexpr T&& forward(remove_reference_t<T>& value) noexcept {
  return static_cast<T&&>(value);
}
template <class T>
constexpr void swap(T& a, T& b) {
  T c = static_cast<T&&>(a);
  a = static_cast<T&&>(b);
  b = static_cast<T&&>(c);
}

template <class T>
struct numeric_limits {
  static constexpr bool is_integer = __is_integral(T);
  static constexpr bool is_signed = T(-1) < T(0);
  static constexpr int digits = int(sizeof(T) * 8) - is_signed;
  static constexpr T max() {
    return is_signed ? T((((T(1) << (digits - 1)) - 1) << 1) + 1) : T(~T(0));
  }
  static constexpr T min() { return is_signed ? T(-max() - 1) : T(0); }
  static constexpr T lowest() { return min(); }
};
template <>
struct numeric_limits<float> {
  static constexpr bool is_integer = false, is_signed = true;
  static constexpr float max() { return __FLT_MAX__; }
  static constexpr float min() { return __FLT_MIN__; }
  static constexpr float lowest() { return -__FLT_MAX__; }
  static constexpr float epsilon() { return __FLT_EPSILON__; }
  static constexpr float infinity() { return __builtin_inff(); }
  static constexpr float quiet_NaN() { return __builtin_nanf(""); }
};
template <>
struct numeric_limits<double> {
  static constexpr bool is_integer = false, is_signed = true;
  static constexpr double max() { return __DBL_MAX__; }
  static constexpr double min() { return __DBL_MIN__; }
  static constexpr double lowest() { return -__DBL_MAX__; }
  static constexpr double epsilon() { return __DBL_EPSILON__; }
  static constexpr double infinity() { return __builtin_inf(); }
  static constexpr double quiet_NaN() { return __builtin_nan(""); }
};
}  // namespace std

extern "C" {
__device__ int printf(const char*, ...);
__device__ void* memcpy(void*, const void*, size_t);
__device__ void* memset(void*, int, size_t);
__device__ void* memmove(void*, const void*, size_t);
}
namespace std {
using ::memcpy;
using ::memmove;
using ::memset;
using ::printf;
}  // namespace std

namespace kiln::gpu {
// Of an index variable: three numbers that are read where they are used.
#define __kiln_index(type, name)                      \
  struct type {                                       \
    __declspec(property(get = get_x)) unsigned x;     \
    __declspec(property(get = get_y)) unsigned y;     \
    __declspec(property(get = get_z)) unsigned z;     \
    __kiln_member static unsigned get_x();            \
    __kiln_member static unsigned get_y();            \
    __kiln_member static unsigned get_z();            \
  };                                                  \
  [[maybe_unused]] static constexpr type name {}
__kiln_index(ThreadIdx, thread_idx);
__kiln_index(BlockIdx, block_idx);
__kiln_index(BlockDim, block_dim);
__kiln_index(GridDim, grid_dim);
__kiln_index(GlobalIdx, global_idx);
__kiln_index(ClusterIdx, cluster_idx);
__kiln_index(ClusterDim, cluster_dim);
#undef __kiln_index
#define __kiln_get(type, x_, y_, z_)          \
  unsigned type::get_x() { return x_; }       \
  unsigned type::get_y() { return y_; }       \
  unsigned type::get_z() { return z_; }
__kiln_get(GlobalIdx, block_idx.x * block_dim.x + thread_idx.x,
           block_idx.y * block_dim.y + thread_idx.y, block_idx.z * block_dim.z + thread_idx.z)
}  // namespace kiln::gpu

[[maybe_unused]] static constexpr kiln::gpu::ThreadIdx threadIdx{};
[[maybe_unused]] static constexpr kiln::gpu::BlockIdx blockIdx{};
[[maybe_unused]] static constexpr kiln::gpu::BlockDim blockDim{};
[[maybe_unused]] static constexpr kiln::gpu::GridDim gridDim{};
