#include "exact.h"

#include <bit>

namespace kiln::emulator_test {
namespace {

using Wide = unsigned __int128;
constexpr int kBits = Number::kWords * 64;

void place(Number& number, Wide mantissa, int exponent) {
  const int offset = exponent - Number::kLowest;
  for (int bit = 0; bit < 128; ++bit) {
    const int at = offset + bit;
    if ((mantissa >> bit & 1) && at >= 0 && at < kBits) {
      number.words[at / 64] |= std::uint64_t{1} << at % 64;
    }
  }
}

/// The number's bits as an integer times a power of two; it must have no more than 64 of them.
std::pair<std::uint64_t, int> mantissa_of(const Number& number) {
  if (number.is_zero()) return {0, 0};
  const int low = number.exponent() - 63;
  return {number.bits_from(low), low};
}

bool rounds_up(Rounding rounding, bool negative, bool odd, bool half, bool below_half) {
  switch (rounding) {
    case Rounding::nearest_even:
      return half && (below_half || odd);
    case Rounding::nearest_away:
      return half;
    case Rounding::zero:
      return false;
    case Rounding::down:
      return negative && (half || below_half);
    case Rounding::up:
      return !negative && (half || below_half);
  }
  return false;
}

/// The integer nearest to number / 2^low in the sense of `rounding`, for magnitudes of 63 bits.
std::uint64_t round_at(const Number& number, int low, Rounding rounding) {
  const std::uint64_t whole = number.bits_from(low);
  const bool half = number.bits_from(low - 1) & 1;
  return whole + rounds_up(rounding, number.negative, whole & 1, half, number.any_below(low - 1));
}

}  // namespace

bool Number::is_zero() const {
  if (kind != Kind::finite) return false;
  for (std::uint64_t word : words) {
    if (word) return false;
  }
  return true;
}

int Number::exponent() const {
  int word = kWords - 1;
  while (word > 0 && words[word] == 0) --word;
  return kLowest + word * 64 + 63 - std::countl_zero(words[word]);
}

std::uint64_t Number::bits_from(int low) const {
  const int offset = low - kLowest;
  if (offset >= kBits || offset <= -64) return 0;
  if (offset < 0) return words[0] << -offset;
  const int word = offset / 64, shift = offset % 64;
  std::uint64_t bits = words[word] >> shift;
  if (shift != 0 && word + 1 < kWords) bits |= words[word + 1] << (64 - shift);
  return bits;
}

bool Number::any_below(int low) const {
  const int offset = low - kLowest;
  for (int word = 0; word < kWords && word * 64 < offset; ++word) {
    const int count = offset - word * 64;
    const std::uint64_t mask = count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
    if (words[word] & mask) return true;
  }
  return false;
}

Number make(bool negative, Wide mantissa, int exponent) {
  Number number;
  number.negative = negative;
  place(number, mantissa, exponent);
  return number;
}

Number from_integer(__int128 value) {
  const bool negative = value < 0;
  return make(negative, negative ? -static_cast<Wide>(value) : static_cast<Wide>(value), 0);
}

Number nan() {
  Number number;
  number.kind = Number::Kind::nan;
  return number;
}

Number infinite(bool negative) {
  Number number;
  number.kind = Number::Kind::infinite;
  number.negative = negative;
  return number;
}

Number decode(const Format& format, std::uint64_t bits) {
  bits >>= format.shift;
  const int width = format.exponent_bits + format.mantissa_bits;
  const bool negative = bits >> width & 1;
  const int top = (1 << format.exponent_bits) - 1;
  const int exponent = static_cast<int>(bits >> format.mantissa_bits) & top;
  const std::uint64_t ones = (std::uint64_t{1} << format.mantissa_bits) - 1;
  const std::uint64_t mantissa = bits & ones;
  if (format.infinities && exponent == top) return mantissa ? nan() : infinite(negative);
  if (!format.infinities && exponent == top && mantissa == ones) return nan();
  const std::uint64_t hidden = exponent ? ones + 1 : 0;
  const int scale = (exponent ? exponent : 1) - format.bias() - format.mantissa_bits;
  return make(negative, mantissa | hidden, scale);
}

std::uint64_t encode(const Format& format, const Number& number, Rounding rounding, bool finite) {
  const int mantissa_bits = format.mantissa_bits;
  const std::uint64_t sign = std::uint64_t{number.negative}
                             << (format.exponent_bits + mantissa_bits);
  const std::uint64_t ones = (std::uint64_t{1} << mantissa_bits) - 1;
  const std::uint64_t top = (std::uint64_t{1} << format.exponent_bits) - 1;
  if (number.is_nan()) return (top << mantissa_bits | ones) << format.shift;
  const std::uint64_t infinity =
      format.infinities ? top << mantissa_bits : top << mantissa_bits | ones;
  const std::uint64_t largest = infinity - 1;
  std::uint64_t bits = 0;
  if (number.kind == Number::Kind::infinite) {
    bits = finite ? largest : infinity;
  } else if (!number.is_zero()) {
    const int smallest = 1 - format.bias();
    const int exponent = number.exponent() > smallest ? number.exponent() : smallest;
    // The hidden bit and a carry of the rounding add to the field of the exponent by themselves.
    const std::uint64_t rounded = round_at(number, exponent - mantissa_bits, rounding);
    bits = rounded + (static_cast<std::uint64_t>(exponent - smallest) << mantissa_bits);
    if (bits >= infinity) {
      const bool stays = rounding == Rounding::zero ||
                         (rounding == Rounding::down && !number.negative) ||
                         (rounding == Rounding::up && number.negative);
      bits = finite || stays ? largest : infinity;
    }
  }
  return (sign | bits) << format.shift;
}

int compare_magnitudes(const Number& a, const Number& b) {
  const bool a_infinite = a.kind == Number::Kind::infinite;
  const bool b_infinite = b.kind == Number::Kind::infinite;
  if (a_infinite || b_infinite) return a_infinite - b_infinite;
  for (int word = Number::kWords - 1; word >= 0; --word) {
    if (a.words[word] != b.words[word]) return a.words[word] < b.words[word] ? -1 : 1;
  }
  return 0;
}

int compare(const Number& a, const Number& b) {
  if (a.is_zero() && b.is_zero()) return 0;
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  return a.negative ? -compare_magnitudes(a, b) : compare_magnitudes(a, b);
}

Number add(const Number& a, const Number& b, Rounding rounding) {
  if (a.is_nan() || b.is_nan()) return nan();
  const bool a_infinite = a.kind == Number::Kind::infinite;
  const bool b_infinite = b.kind == Number::Kind::infinite;
  if (a_infinite && b_infinite && a.negative != b.negative) return nan();
  if (a_infinite) return a;
  if (b_infinite) return b;
  Number result;
  std::uint64_t carry = 0;
  if (a.negative == b.negative) {
    for (int word = 0; word < Number::kWords; ++word) {
      const Wide sum = Wide{a.words[word]} + b.words[word] + carry;
      result.words[word] = static_cast<std::uint64_t>(sum);
      carry = static_cast<std::uint64_t>(sum >> 64);
    }
    result.negative = a.negative;
    return result;
  }
  const int order = compare_magnitudes(a, b);
  if (order == 0) {
    result.negative = rounding == Rounding::down;
    return result;
  }
  const Number& large = order > 0 ? a : b;
  const Number& small = order > 0 ? b : a;
  for (int word = 0; word < Number::kWords; ++word) {
    const Wide difference = Wide{large.words[word]} - small.words[word] - carry;
    result.words[word] = static_cast<std::uint64_t>(difference);
    carry = static_cast<std::uint64_t>(difference >> 64) & 1;
  }
  result.negative = large.negative;
  return result;
}

Number multiply(const Number& a, const Number& b) {
  if (a.is_nan() || b.is_nan()) return nan();
  const bool negative = a.negative != b.negative;
  if (a.kind == Number::Kind::infinite || b.kind == Number::Kind::infinite) {
    return a.is_zero() || b.is_zero() ? nan() : infinite(negative);
  }
  const auto [a_mantissa, a_exponent] = mantissa_of(a);
  const auto [b_mantissa, b_exponent] = mantissa_of(b);
  return make(negative, Wide{a_mantissa} * b_mantissa, a_exponent + b_exponent);
}

Number divide(const Number& a, const Number& b) {
  if (a.is_nan() || b.is_nan()) return nan();
  const bool negative = a.negative != b.negative;
  if (a.kind == Number::Kind::infinite) {
    return b.kind == Number::Kind::infinite ? nan() : infinite(negative);
  }
  if (b.kind == Number::Kind::infinite) return make(negative, 0, 0);
  if (b.is_zero()) return a.is_zero() ? nan() : infinite(negative);
  if (a.is_zero()) return make(negative, 0, 0);
  const auto [a_mantissa, a_exponent] = mantissa_of(a);
  const auto [b_mantissa, b_exponent] = mantissa_of(b);
  // Both have their highest bit set: the quotient has 63 or 64 bits, and one more for the rest.
  const Wide numerator = Wide{a_mantissa} << 63;
  const Wide quotient = numerator / b_mantissa;
  const bool rest = numerator % b_mantissa != 0;
  return make(negative, quotient << 1 | rest, a_exponent - 63 - b_exponent - 1);
}

Number square_root(const Number& a) {
  if (a.is_nan() || a.is_zero()) return a;
  if (a.negative) return nan();
  if (a.kind == Number::Kind::infinite) return a;
  const auto [mantissa, exponent] = mantissa_of(a);
  const bool odd = exponent & 1;
  const Wide radicand = Wide{mantissa} << (odd ? 61 : 62);
  const int scale = exponent - (odd ? 61 : 62);
  Wide root = 0;
  for (int bit = 63; bit >= 0; --bit) {
    const Wide candidate = root | Wide{1} << bit;
    if (candidate * candidate <= radicand) root = candidate;
  }
  const bool rest = root * root != radicand;
  return make(false, root << 1 | rest, scale / 2 - 1);
}

Number negate(Number a) {
  a.negative = !a.negative;
  return a;
}

Number to_integral(const Number& a, Rounding rounding) {
  if (a.kind != Number::Kind::finite || a.is_zero() || a.exponent() >= 62) return a;
  return make(a.negative, round_at(a, 0, rounding), 0);
}

__int128 to_integer(const Number& a, Rounding rounding, __int128 low, __int128 high) {
  if (a.is_nan()) return 0;
  if (a.kind == Number::Kind::infinite) return a.negative ? low : high;
  if (a.is_zero()) return 0;
  if (a.exponent() >= 65) return a.negative ? low : high;
  // Numbers of 63 bits and more come from formats with 53 bits at most: they are integers.
  __int128 value = 0;
  if (a.exponent() < 62) {
    value = round_at(a, 0, rounding);
  } else {
    value = static_cast<__int128>(Wide{a.bits_from(64)} << 64 | a.bits_from(0));
  }
  if (a.negative) value = -value;
  return value < low ? low : value > high ? high : value;
}

}  // namespace kiln::emulator_test
