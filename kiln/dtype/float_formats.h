#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace kiln {

/// What a small binary float format can express; the codecs below are written once against it.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  bool has_sign;
  /// Code of +infinity, or -1: values past the largest finite one become NaN, or the largest
  /// finite one where there is no NaN either.
  int infinity;
  /// Code of the NaN that conversions give (without the sign), or -1.
  int nan;
  /// Code of the largest finite value.
  int largest;
  /// The finite-unsigned-zero formats: one zero, and NaN where -0 would be.
  bool unsigned_zero;

  constexpr int bits() const { return exponent_bits + mantissa_bits + (has_sign ? 1 : 0); }
};

inline constexpr FloatFormat kFloat16{5, 10, 15, true, 0x7c00, 0x7e00, 0x7bff, false};
inline constexpr FloatFormat kBfloat16{8, 7, 127, true, 0x7f80, 0x7fc0, 0x7f7f, false};
inline constexpr FloatFormat kFloat8E4m3fn{4, 3, 7, true, -1, 0x7f, 0x7e, false};
inline constexpr FloatFormat kFloat8E4m3fnuz{4, 3, 8, true, -1, 0x80, 0x7f, true};
inline constexpr FloatFormat kFloat8E5m2{5, 2, 15, true, 0x7c, 0x7e, 0x7b, false};
inline constexpr FloatFormat kFloat8E5m2fnuz{5, 2, 16, true, -1, 0x80, 0x7f, true};
inline constexpr FloatFormat kFloat4E2m1fn{2, 1, 1, true, -1, -1, 0x7, false};

/// The value of a code; exact. NaNs become quiet NaNs of the same sign where the format has one.
constexpr double decode_float(const FloatFormat& f, std::uint32_t code) {
  const int width = f.exponent_bits + f.mantissa_bits;
  const std::uint32_t magnitude = code & ((1u << width) - 1);
  const bool negative = f.has_sign && ((code >> width) & 1) != 0;
  const std::uint64_t sign = negative ? std::uint64_t{1} << 63 : 0;
  constexpr std::uint64_t kNan = 0x7ff8000000000000u;
  if (f.unsigned_zero && code == static_cast<std::uint32_t>(f.nan))
    return std::bit_cast<double>(kNan);
  if (f.infinity >= 0 && magnitude == static_cast<std::uint32_t>(f.infinity))
    return std::bit_cast<double>(sign | 0x7ff0000000000000u);
  if (magnitude > static_cast<std::uint32_t>(f.largest)) return std::bit_cast<double>(sign | kNan);
  const int exponent = static_cast<int>(magnitude >> f.mantissa_bits);
  std::uint64_t mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
  if (exponent == 0) {
    if (mantissa == 0) return std::bit_cast<double>(sign);
    // Subnormal: normalise, since every such value is normal as a double.
    const int shift = f.mantissa_bits + 1 - std::bit_width(mantissa);
    mantissa = (mantissa << shift) & ((std::uint64_t{1} << f.mantissa_bits) - 1);
    const std::uint64_t biased = static_cast<std::uint64_t>(1 - f.bias - shift + 1023);
    return std::bit_cast<double>(sign | biased << 52 | mantissa << (52 - f.mantissa_bits));
  }
  const std::uint64_t biased = static_cast<std::uint64_t>(exponent - f.bias + 1023);
  return std::bit_cast<double>(sign | biased << 52 | mantissa << (52 - f.mantissa_bits));
}

/// The code nearest to `value`, ties to even, in one rounding. Past the largest finite value:
/// infinity where the format has one, else NaN, else the largest finite value.
constexpr std::uint32_t encode_float(const FloatFormat& f, double value) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const bool negative = (bits >> 63) != 0;
  const int width = f.exponent_bits + f.mantissa_bits;
  const std::uint32_t sign = negative ? 1u << width : 0;
  const std::uint64_t magnitude = bits & 0x7fffffffffffffffu;
  const std::uint32_t nan = f.nan < 0
                                ? static_cast<std::uint32_t>(f.largest)
                                : (f.unsigned_zero ? static_cast<std::uint32_t>(f.nan)
                                                   : sign | static_cast<std::uint32_t>(f.nan));
  if (magnitude > 0x7ff0000000000000u) return nan;
  const std::uint32_t overflow =
      f.infinity >= 0 ? sign | static_cast<std::uint32_t>(f.infinity)
                      : (f.nan >= 0 ? nan : sign | static_cast<std::uint32_t>(f.largest));
  if (magnitude == 0x7ff0000000000000u) return overflow;
  const std::uint32_t zero = f.unsigned_zero ? 0 : sign;
  const int double_exponent = static_cast<int>(magnitude >> 52);
  if (double_exponent == 0) return zero;  // below half of every format's smallest value
  // value = significand * 2^(double_exponent - 1023 - 52), significand with its leading 1.
  const std::uint64_t significand = (magnitude & 0xfffffffffffffu) | (std::uint64_t{1} << 52);
  int exponent = double_exponent - 1023 + f.bias;
  int shift = 52 - f.mantissa_bits;
  if (exponent < 1) {
    shift += 1 - exponent;
    exponent = 1;
  }
  if (shift > 54) return zero;
  std::uint64_t rounded = significand >> shift;
  const std::uint64_t rest = significand & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  if (rest > half || (rest == half && (rounded & 1) != 0)) ++rounded;
  // `rounded` carries the leading 1 of normal values, so this addition also carries into the
  // exponent when rounding did, and gives exponent field 0 to subnormals.
  const std::uint64_t code =
      (static_cast<std::uint64_t>(exponent - 1) << f.mantissa_bits) + rounded;
  if (code > static_cast<std::uint64_t>(f.largest)) return overflow;
  if (code == 0) return zero;
  return sign | static_cast<std::uint32_t>(code);
}

namespace detail {

/// Storage, conversions and comparisons shared by the small float types.
template <typename Self, typename Bits, const FloatFormat& Format>
struct SmallFloat {
  static constexpr FloatFormat format = Format;
  Bits bits = 0;

  constexpr operator float() const {  // NOLINT: widening is exact
    return static_cast<float>(decode_float(Format, bits));
  }
  static constexpr Self from_bits(Bits bits) {
    Self result;
    result.bits = bits;
    return result;
  }
};

}  // namespace detail

/// IEEE binary16. Conversions from wider types round to nearest, ties to even.
struct float16 : detail::SmallFloat<float16, std::uint16_t, kFloat16> {
  constexpr float16() = default;
  template <typename T>
    requires std::is_arithmetic_v<T>
  constexpr explicit float16(T value) {
    bits = static_cast<std::uint16_t>(encode_float(kFloat16, static_cast<double>(value)));
  }
};

/// The upper half of a float32. Conversions round to nearest, ties to even.
struct bfloat16 : detail::SmallFloat<bfloat16, std::uint16_t, kBfloat16> {
  constexpr bfloat16() = default;
  template <typename T>
    requires std::is_arithmetic_v<T>
  constexpr explicit bfloat16(T value) {
    bits = static_cast<std::uint16_t>(encode_float(kBfloat16, static_cast<double>(value)));
  }
  /// Element stores convert to float32 and cut the low half off; a NaN stays a NaN.
  static constexpr bfloat16 truncated(float value) {
    const std::uint32_t wide = std::bit_cast<std::uint32_t>(value);
    std::uint32_t high = wide >> 16;
    if ((wide & 0x7fffffffu) > 0x7f800000u) high |= 0x40;
    return from_bits(static_cast<std::uint16_t>(high));
  }
};

struct float8_e4m3fn : detail::SmallFloat<float8_e4m3fn, std::uint8_t, kFloat8E4m3fn> {
  constexpr float8_e4m3fn() = default;
  template <typename T>
    requires std::is_arithmetic_v<T>
  constexpr explicit float8_e4m3fn(T value) {
    bits = static_cast<std::uint8_t>(encode_float(kFloat8E4m3fn, static_cast<double>(value)));
  }
};

struct float8_e4m3fnuz : detail::SmallFloat<float8_e4m3fnuz, std::uint8_t, kFloat8E4m3fnuz> {
  constexpr float8_e4m3fnuz() = default;
  template <typename T>
    requires std::is_arithmetic_v<T>
  constexpr explicit float8_e4m3fnuz(T value) {
    bits = static_cast<std::uint8_t>(encode_float(kFloat8E4m3fnuz, static_cast<double>(value)));
  }
};

struct float8_e5m2 : detail::SmallFloat<float8_e5m2, std::uint8_t, kFloat8E5m2> {
  constexpr float8_e5m2() = default;
  template <typename T>
    requires std::is_arithmetic_v<T>
  constexpr explicit float8_e5m2(T value) {
    bits = static_cast<std::uint8_t>(encode_float(kFloat8E5m2, static_cast<double>(value)));
  }
};

struct float8_e5m2fnuz : detail::SmallFloat<float8_e5m2fnuz, std::uint8_t, kFloat8E5m2fnuz> {
  constexpr float8_e5m2fnuz() = default;
  template <typename T>
    requires std::is_arithmetic_v<T>
  constexpr explicit float8_e5m2fnuz(T value) {
    bits = static_cast<std::uint8_t>(encode_float(kFloat8E5m2fnuz, static_cast<double>(value)));
  }
};

/// Powers of two from 2^-127 (code 0) to 2^127 (code 254); code 255 is NaN. There is no zero and no
/// sign: zero and negative values become 2^-127, values that round past 2^127 become NaN.
struct float8_e8m0fnu {
  std::uint8_t bits = 0;

  constexpr float8_e8m0fnu() = default;
  template <typename T>
    requires std::is_arithmetic_v<T>
  constexpr explicit float8_e8m0fnu(T value) : bits(encode(static_cast<double>(value))) {}
  static constexpr float8_e8m0fnu from_bits(std::uint8_t bits) {
    float8_e8m0fnu result;
    result.bits = bits;
    return result;
  }
  constexpr operator float() const {  // NOLINT: widening is exact
    if (bits == 255) return std::numeric_limits<float>::quiet_NaN();
    if (bits == 0) return std::bit_cast<float>(0x00400000u);  // 2^-127, a subnormal
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 23);
  }

 private:
  static constexpr std::uint8_t encode(double value) {
    if (value != value) return 255;
    const std::uint64_t wide = std::bit_cast<std::uint64_t>(value);
    if ((wide >> 63) != 0) return 0;
    int code = static_cast<int>(wide >> 52) - 1023 + 127;
    if (code < -1) return 0;
    const std::uint64_t rest = wide & 0xfffffffffffffu;
    const std::uint64_t half = std::uint64_t{1} << 51;
    if (rest > half || (rest == half && (code & 1) != 0)) ++code;
    if (code < 0) return 0;
    return static_cast<std::uint8_t>(code > 254 ? 255 : code);
  }
};

/// Whether T is one of kiln's own float types.
template <typename T>
inline constexpr bool kIsFloatFormat =
    std::is_same_v<T, float16> || std::is_same_v<T, bfloat16> ||
    std::is_same_v<T, float8_e8m0fnu> || std::is_same_v<T, float8_e4m3fn> ||
    std::is_same_v<T, float8_e4m3fnuz> || std::is_same_v<T, float8_e5m2> ||
    std::is_same_v<T, float8_e5m2fnuz>;

}  // namespace kiln
