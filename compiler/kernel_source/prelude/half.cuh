// The element types of 16 and of 8 bits, laid out as kiln::float16 and the others. They are computed
// with as float, and rounded to the nearest, ties to even, where they are stored.

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

// What kiln/dtype/float_formats.h says of a format of one byte: the code of infinity or -1, of NaN
// and of the largest number; whether there is one zero alone.
template <int Mantissa, int Bias, int Infinity, int Nan, int Largest, bool OneZero>
struct __byte_of_float {
  __kiln_member static unsigned char narrow(float x) {
    const unsigned bits = __builtin_bit_cast(unsigned, x);
    const unsigned sign = bits >> 31 << 7, magnitude = bits & 0x7fffffffu;
    unsigned code;
    if (magnitude >= unsigned(128 - Bias) << 23) {
      code = ((magnitude + (1u << (22 - Mantissa)) - 1 + (magnitude >> (23 - Mantissa) & 1)) >>
              (23 - Mantissa)) -
             (unsigned(127 - Bias) << Mantissa);
    } else {
      code = static_cast<unsigned>(__builtin_rintf(
          __builtin_bit_cast(float, magnitude) *
          __builtin_bit_cast(float, unsigned(127 + Bias - 1 + Mantissa) << 23)));
    }
    if (magnitude > 0x7f800000u || code > Largest)
      code = Infinity >= 0 && magnitude <= 0x7f800000u ? Infinity : Nan;
    return OneZero && (code == 0 || code == Nan) ? code : sign | code;
  }
  __kiln_member static float widen(unsigned char code) {
    const unsigned magnitude = code & 0x7fu, sign = unsigned(code >> 7) << 31;
    if (OneZero ? code == Nan : magnitude > Largest && magnitude != Infinity)
      return __builtin_bit_cast(float, 0x7fc00000u | (OneZero ? 0 : sign));
    if (Infinity >= 0 && magnitude == Infinity) return __builtin_bit_cast(float, sign | 0x7f800000u);
    // As a float of a small exponent, which the product puts right; exact for subnormal ones too.
    const float value = __builtin_bit_cast(float, magnitude << (23 - Mantissa)) *
                        __builtin_bit_cast(float, unsigned(254 - Bias) << 23);
    return __builtin_bit_cast(float, sign | __builtin_bit_cast(unsigned, value));
  }
};

#define __kiln_small_type(type, storage, conversion)                                                       \
  struct type {                                                                                  \
    storage bits;                                                                                \
    type() = default;                                                                            \
    template <class T, class = std::enable_if_t<__is_arithmetic(T)>>                             \
    __kiln_member type(T x) : bits(conversion::narrow(static_cast<float>(x))) {}                 \
    __kiln_member operator float() const { return conversion::widen(bits); }                     \
    __kiln_member type& operator+=(float x) { return *this = float(*this) + x; }                 \
    __kiln_member type& operator-=(float x) { return *this = float(*this) - x; }                 \
    __kiln_member type& operator*=(float x) { return *this = float(*this) * x; }                 \
    __kiln_member type& operator/=(float x) { return *this = float(*this) / x; }                 \
  };
__kiln_small_type(float16, unsigned short, __half_of_float)
__kiln_small_type(bfloat16, unsigned short, __bfloat_of_float)
using __e4m3fn = __byte_of_float<3, 7, -1, 0x7f, 0x7e, false>;
using __e4m3fnuz = __byte_of_float<3, 8, -1, 0x80, 0x7f, true>;
using __e5m2 = __byte_of_float<2, 15, 0x7c, 0x7e, 0x7b, false>;
using __e5m2fnuz = __byte_of_float<2, 16, -1, 0x80, 0x7f, true>;
__kiln_small_type(float8_e4m3fn, unsigned char, __e4m3fn)
__kiln_small_type(float8_e4m3fnuz, unsigned char, __e4m3fnuz)
__kiln_small_type(float8_e5m2, unsigned char, __e5m2)
__kiln_small_type(float8_e5m2fnuz, unsigned char, __e5m2fnuz)
}  // namespace kiln::gpu
namespace kiln {
using gpu::bfloat16;
using gpu::float16;
using gpu::float8_e4m3fn;
using gpu::float8_e4m3fnuz;
using gpu::float8_e5m2;
using gpu::float8_e5m2fnuz;
}  // namespace kiln
