#pragma once

// Exact numbers and their rounding to float formats, in integers alone: the reference for what PTX
// defines to the bit. A magnitude is a fixed-point number wide enough for a product of any two
// doubles, so sums and products are exact and one rounding ends each operation, as IEEE 754 says.

#include <array>
#include <cstdint>
#include <utility>

namespace kiln::emulator_test {

/// A float format: 1 bit of sign, then these.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool infinities = true;  // without: the largest exponent is finite, but for the one NaN
  int shift = 0;           // unused low bits of the container
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};

inline constexpr Format kF64{11, 52};
inline constexpr Format kF32{8, 23};
inline constexpr Format kF16{5, 10};
inline constexpr Format kBf16{8, 7};
inline constexpr Format kTf32{8, 10, true, 13};
inline constexpr Format kE5m2{5, 2};
inline constexpr Format kE4m3{4, 3, false};

enum class Rounding { nearest_even, zero, down, up, nearest_away };

/// A number that is no NaN, a NaN, or infinite.
struct Number {
  static constexpr int kWords = 68;
  static constexpr int kLowest = -2240;  // the weight of the lowest bit is 2^kLowest
  enum class Kind { finite, infinite, nan };

  Kind kind = Kind::finite;
  bool negative = false;
  std::array<std::uint64_t, kWords> words{};

  bool is_zero() const;
  bool is_nan() const { return kind == Kind::nan; }
  /// The weight of the highest set bit; not for zero.
  int exponent() const;
  /// The bits of weight 2^low and up, cut to 64 bits.
  std::uint64_t bits_from(int low) const;
  /// Whether a bit below weight 2^low is set.
  bool any_below(int low) const;
};

/// `mantissa` * 2^exponent.
Number make(bool negative, unsigned __int128 mantissa, int exponent);
Number from_integer(__int128 value);
Number nan();
Number infinite(bool negative);

Number decode(const Format& format, std::uint64_t bits);
/// A NaN becomes the one with all bits of the mantissa set. With `finite`, what would be infinite
/// becomes the largest number.
std::uint64_t encode(const Format& format, const Number& number, Rounding rounding,
                     bool finite = false);

int compare_magnitudes(const Number& a, const Number& b);
/// -1, 0 or 1; neither may be a NaN. Zeros are equal.
int compare(const Number& a, const Number& b);
/// The sign of a sum that is zero depends on the rounding.
Number add(const Number& a, const Number& b, Rounding rounding);
Number multiply(const Number& a, const Number& b);
/// Not exact, but rounds to any format here as the exact quotient would.
Number divide(const Number& a, const Number& b);
/// As divide.
Number square_root(const Number& a);
Number negate(Number a);
/// Rounded to an integer; infinities and NaN stay.
Number to_integral(const Number& a, Rounding rounding);
/// Rounded to an integer and clamped; 0 for a NaN.
__int128 to_integer(const Number& a, Rounding rounding, __int128 low, __int128 high);

}  // namespace kiln::emulator_test
