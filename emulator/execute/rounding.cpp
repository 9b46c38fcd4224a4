#include "emulator/execute/rounding.h"

#include <bit>
#include <cmath>

namespace kiln::emulator {
namespace {

struct Layout {
  int exponent_bits, digits;  // digits behind the leading one
  bool infinity;              // e4m3 has none: its highest exponent holds numbers and one NaN
  int shift;                  // tf32 leaves the low bits of 32 empty
  std::uint64_t nan;
};

constexpr Layout layout_of(SmallFormat format) {
  switch (format) {
    case SmallFormat::f16:
      return {5, 10, true, 0, 0x7fff};
    case SmallFormat::bf16:
      return {8, 7, true, 0, 0x7fff};
    case SmallFormat::tf32:
      return {8, 10, true, 13, 0x7fffffff};
    case SmallFormat::f32:
      return {8, 23, true, 0, 0x7fffffff};
    case SmallFormat::e4m3:
      return {4, 3, false, 0, 0x7f};
    case SmallFormat::e5m2:
      return {5, 2, true, 0, 0x7f};
    default:
      return {11, 52, true, 0, 0x7fffffffffffffff};
  }
}

// A number as sign * digits * 2^exponent, exactly.
struct Exact {
  bool negative;
  std::uint64_t digits;
  int exponent;
};

bool rounds_up(Rounding rounding, bool negative, bool odd, std::uint64_t rest, std::uint64_t half,
               bool lost) {
  if (rest == 0 && !lost) return false;
  switch (rounding) {
    case Rounding::nearest:
      return rest > half || (rest == half && (lost || odd));
    case Rounding::away:
      return rest >= half;
    case Rounding::down:
      return negative;
    case Rounding::up:
      return !negative;
    case Rounding::zero:
      return false;
  }
  return false;
}

std::uint64_t encode(const Exact& number, const Layout& layout, Rounding rounding, bool saturate) {
  const std::uint64_t sign = std::uint64_t{number.negative}
                             << (layout.exponent_bits + layout.digits);
  if (number.digits == 0) return sign << layout.shift;
  const int bias = (1 << (layout.exponent_bits - 1)) - 1;
  const int top = 63 - std::countl_zero(number.digits);
  // The weight of the last digit: that of the format at this size, or of its subnormals.
  const int leading = std::max(number.exponent + top, 1 - bias);
  const int last = leading - layout.digits;
  const int drop = last - number.exponent;
  std::uint64_t kept = 0;
  if (drop <= 0) {
    kept = number.digits << -drop;
  } else if (drop > 64) {
    kept = rounds_up(rounding, number.negative, false, 0, 1, true) ? 1 : 0;
  } else {
    kept = drop == 64 ? 0 : number.digits >> drop;
    const std::uint64_t half = std::uint64_t{1} << (drop - 1);
    const std::uint64_t rest = number.digits & (half | (half - 1));
    kept += rounds_up(rounding, number.negative, (kept & 1) != 0, rest, half, false);
  }
  // A carry into the exponent is right as it is.
  const auto exponent = static_cast<std::uint64_t>(leading + bias - 1);
  std::uint64_t bits = (exponent << layout.digits) + kept;
  const std::uint64_t infinity = ((std::uint64_t{1} << layout.exponent_bits) - 1) << layout.digits;
  const std::uint64_t largest =
      layout.infinity ? infinity - 1 : (infinity | ((std::uint64_t{1} << layout.digits) - 1)) - 1;
  if (bits > largest) {
    const bool stays = rounding == Rounding::zero ||
                       (rounding == Rounding::down && !number.negative) ||
                       (rounding == Rounding::up && number.negative);
    bits = saturate || stays ? largest : layout.infinity ? infinity : layout.nan;
  }
  return (sign | bits) << layout.shift;
}

}  // namespace

std::uint64_t round_to_format(double value, SmallFormat format, Rounding rounding, bool saturate) {
  const Layout layout = layout_of(format);
  if (std::isnan(value)) return layout.nan;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const bool negative = bits >> 63 != 0;
  if (std::isinf(value)) {
    // Larger than everything: rounds as an overflow does, but for modes that stay below.
    const Exact huge{negative, 1, 2000};
    return encode(huge, layout, Rounding::nearest, saturate);
  }
  const auto exponent = static_cast<int>(bits >> 52 & 0x7ff);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  if (exponent == 0) return encode({negative, fraction, -1074}, layout, rounding, saturate);
  return encode({negative, fraction | std::uint64_t{1} << 52, exponent - 1075}, layout, rounding,
                saturate);
}

std::uint64_t round_integer(std::uint64_t value, bool is_signed, SmallFormat format,
                            Rounding rounding) {
  const bool negative = is_signed && value >> 63 != 0;
  return encode({negative, negative ? 0 - value : value, 0}, layout_of(format), rounding, false);
}

double value_of(std::uint64_t bits, SmallFormat format) {
  const Layout layout = layout_of(format);
  bits >>= layout.shift;
  const std::uint64_t all_ones = (std::uint64_t{1} << layout.exponent_bits) - 1;
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << layout.digits) - 1);
  const std::uint64_t exponent = bits >> layout.digits & all_ones;
  const bool negative = (bits >> (layout.digits + layout.exponent_bits) & 1) != 0;
  const int bias = (1 << (layout.exponent_bits - 1)) - 1;
  double result = 0;
  if (exponent == all_ones && layout.infinity) {
    result = fraction == 0 ? HUGE_VAL : NAN;
  } else if (!layout.infinity && exponent == all_ones && fraction == (1U << layout.digits) - 1) {
    result = NAN;
  } else if (exponent == 0) {
    result = std::ldexp(static_cast<double>(fraction), 1 - bias - layout.digits);
  } else {
    result = std::ldexp(static_cast<double>(fraction | std::uint64_t{1} << layout.digits),
                        static_cast<int>(exponent) - bias - layout.digits);
  }
  return negative ? -result : result;
}

}  // namespace kiln::emulator
