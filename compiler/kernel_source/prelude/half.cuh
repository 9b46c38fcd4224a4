// The element types of 16 bits, laid out as kiln::float16 and kiln::bfloat16. They are computed with
// as float, and rounded to the nearest, ties to even, where they are stored.

namespace kiln::gpu {
struct __half_of_float {
#if defined(__CUDA_ARCH__) || defined(__F16C__)
  __kiln_member static unsigned short narrow(float x) {
    return __builtin_bit_cast(unsigned short, static_cast<_Float16>(x));
  }
  __kiln_member static float widen(unsigned short bits) {
    return __builtin_bit_cast(_Float16, bits);
  }
#else
  static unsigned short narrow(float x) {
    const unsigned bits = __builtin_bit_cast(unsigned, x);
    const unsigned sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | 0x7e00u | (magnitude >> 13 & 0x1ffu);
    if (magnitude >= 0x47800000u) return sign | 0x7c00u;
    if (magnitude < 0x38800000u)  // a sum rounds it to a multiple of the smallest subnormal
      return sign | (__builtin_bit_cast(unsigned, __builtin_bit_cast(float, magnitude) + 0.5f) -
                     0x3f000000u);
    return sign | ((magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13);
  }
  static float widen(unsigned short bits) {
    const unsigned sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u)
      return __builtin_bit_cast(float, sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    const float value = __builtin_bit_cast(float, magnitude << 13) * 0x1p112f;
    return __builtin_bit_cast(float, sign | __builtin_bit_cast(unsigned, value));
  }
#endif
};
struct __bfloat_of_float {
  __kiln_member static unsigned short narrow(float x) {
    const unsigned bits = __builtin_bit_cast(unsigned, x);
    if (x != x) return bits >> 16 | 0x40u;
    return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  }
  __kiln_member static float widen(unsigned short bits) {
    return __builtin_bit_cast(float, static_cast<unsigned>(bits) << 16);
  }
};

#define __kiln_half_type(type, conversion)                                                       \
  struct type {                                                                                  \
    unsigned short bits;                                                                         \
    type() = default;                                                                            \
    template <class T, class = std::enable_if_t<__is_arithmetic(T)>>                             \
    __kiln_member type(T x) : bits(conversion::narrow(static_cast<float>(x))) {}                 \
    __kiln_member operator float() const { return conversion::widen(bits); }                     \
    __kiln_member type& operator+=(float x) { return *this = float(*this) + x; }                 \
    __kiln_member type& operator-=(float x) { return *this = float(*this) - x; }                 \
    __kiln_member type& operator*=(float x) { return *this = float(*this) * x; }                 \
    __kiln_member type& operator/=(float x) { return *this = float(*this) / x; }                 \
  };
__kiln_half_type(float16, __half_of_float)
__kiln_half_type(bfloat16, __bfloat_of_float)
}  // namespace kiln::gpu
namespace kiln {
using gpu::bfloat16;
using gpu::float16;
}  // namespace kiln
