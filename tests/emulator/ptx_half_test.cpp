#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "ptx_machine.h"

namespace kiln::emulator::test {
namespace {

// A small format by its definition: the values of all its bit patterns, found by counting.
struct Format {
  int exponent_bits, digits;
  bool infinity;
  int bits() const { return 1 + exponent_bits + digits; }
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }

  double value(std::uint64_t pattern) const {
    const bool negative = (pattern >> (bits() - 1) & 1) != 0;
    const std::uint64_t exponent = pattern >> digits & ((1ULL << exponent_bits) - 1);
    const std::uint64_t fraction = pattern & ((1ULL << digits) - 1);
    const bool highest = exponent == (1ULL << exponent_bits) - 1;
    double magnitude = 0;
    if (highest && infinity)
      magnitude = fraction == 0 ? INFINITY : NAN;
    else if (highest && fraction == (1ULL << digits) - 1)
      magnitude = NAN;
    else if (exponent == 0)
      magnitude = std::ldexp(fraction, 1 - bias() - digits);
    else
      magnitude = std::ldexp(fraction + std::ldexp(1, digits),
                             static_cast<int>(exponent) - bias() - digits);
    return negative ? -magnitude : magnitude;
  }
  // Nearest, ties to even, by looking at the neighbours of a pattern among all of them. Larger than
  // all is infinity from half a step beyond the largest on.
  std::uint64_t nearest(__float128 exact) const {
    const bool negative = exact < 0;
    const __float128 magnitude = negative ? -exact : exact;
    std::uint64_t low = 0, high = (((1ULL << exponent_bits) - 1) << digits);
    // `high` stands for the step beyond the largest number.
    const auto at = [&](std::uint64_t pattern) -> __float128 {
      if (pattern == (((1ULL << exponent_bits) - 1) << digits)) return std::ldexp(1.0, bias() + 1);
      return value(pattern);
    };
    while (high - low > 1) {
      const std::uint64_t middle = (low + high) / 2;
      if (at(middle) <= magnitude)
        low = middle;
      else
        high = middle;
    }
    const __float128 below = magnitude - at(low), above = at(high) - magnitude;
    const std::uint64_t pick = below < above   ? low
                               : above < below ? high
                               : low % 2 == 0  ? low
                                               : high;
    return pick | std::uint64_t{negative} << (bits() - 1);
  }
};

constexpr Format kHalf{5, 10, true}, kBrain{8, 7, true}, kE4m3{4, 3, false}, kE5m2{5, 2, true};

std::vector<std::uint64_t> all_patterns() {
  std::vector<std::uint64_t> values(65536);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

std::vector<std::uint64_t> random_halves(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> values(count);
  for (std::uint64_t& value : values) value = random() & 0xffff;
  return values;
}

bool is_nan(const Format& format, std::uint64_t pattern) {
  return std::isnan(format.value(pattern));
}

// A sum for rounding: where 113 digits cannot hold both, the small one only says on which side.
__float128 exact_sum(__float128 a, __float128 b) {
  const __float128 sum = a + b;
  if (sum - a == b && sum - b == a) return sum;
  const __float128 large = (a < 0 ? -a : a) > (b < 0 ? -b : b) ? a : b, small = large == a ? b : a;
  return large + (small < 0 ? -1 : 1) * (large < 0 ? -large : large) * std::ldexp(1.0, -100);
}

TEST(PtxHalf, WidensEveryPattern) {
  const auto inputs = all_patterns();
  for (const auto& [type, format] : {std::pair{"f16", kHalf}, std::pair{"bf16", kBrain}}) {
    const auto found =
        apply({std::string("cvt.f32.") + type + " %d, %a;", "f32", {"b16"}}, {inputs});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const float value = std::bit_cast<float>(static_cast<std::uint32_t>(found[i]));
      if (is_nan(format, i))
        ASSERT_TRUE(std::isnan(value));
      else
        ASSERT_EQ(found[i], bits(static_cast<float>(format.value(i))));
    }
  }
}

TEST(PtxHalf, NegatesAndTakesAbsolutesOfEveryPattern) {
  const auto inputs = all_patterns();
  const auto minus = apply({"neg.f16 %d, %a;", "b16", {"b16"}}, {inputs});
  const auto absolute = apply({"abs.bf16 %d, %a;", "b16", {"b16"}}, {inputs});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_nan(kHalf, i)) ASSERT_EQ(minus[i], i ^ 0x8000);
    if (!is_nan(kBrain, i)) ASSERT_EQ(absolute[i], i & 0x7fff);
  }
}

TEST(PtxHalf, NarrowsAllThatIsBetween) {
  // Every number, every middle between neighbours, and what is just beside the middle.
  for (const auto& [type, format] : {std::pair{"f16", kHalf}, std::pair{"bf16", kBrain}}) {
    std::vector<std::uint64_t> inputs;
    for (std::uint64_t i = 0; i < 0x7c00; ++i) {
      const double low = format.value(i), high = format.value(i + 1);
      if (!std::isfinite(high)) continue;
      const auto middle = static_cast<float>((low + high) / 2);
      for (float value : {static_cast<float>(low), middle, std::nextafter(middle, 0.0F),
                          std::nextafter(middle, INFINITY), -middle})
        inputs.push_back(bits(value));
    }
    for (float value : {65519.9F, 65520.0F, 3.4e38F, INFINITY}) inputs.push_back(bits(value));
    const auto found =
        apply({std::string("cvt.rn.") + type + ".f32 %d, %a;", "b16", {"f32"}}, {inputs});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const float value = std::bit_cast<float>(static_cast<std::uint32_t>(inputs[i]));
      const std::uint64_t infinity = format.exponent_bits == 5 ? 0x7c00 : 0x7f80;
      const std::uint64_t expected = std::isinf(value) ? infinity : format.nearest(value);
      ASSERT_EQ(found[i], expected | (inputs[i] >> 16 & 0x8000)) << value;
    }
  }
}

TEST(PtxHalf, ArithmeticRoundsOnce) {
  const auto a = random_halves(20000, 1), b = random_halves(20000, 2), c = random_halves(20000, 3);
  for (const auto& [type, format] : {std::pair{"f16", kHalf}, std::pair{"bf16", kBrain}}) {
    const std::string t = type;
    const auto sums = apply({"add.rn." + t + " %d, %a, %b;", "b16", {"b16", "b16"}}, {a, b});
    const auto products = apply({"mul.rn." + t + " %d, %a, %b;", "b16", {"b16", "b16"}}, {a, b});
    const auto fused =
        apply({"fma.rn." + t + " %d, %a, %b, %c;", "b16", {"b16", "b16", "b16"}}, {a, b, c});
    const auto check = [&](std::uint64_t found, __float128 exact, double approximate) {
      if (std::isnan(approximate)) return is_nan(format, found);
      const std::uint64_t infinity = format.exponent_bits == 5 ? 0x7c00 : 0x7f80;
      if (std::isinf(approximate)) return (found & 0x7fff) == infinity;
      // The sign of a zero follows rules that this does not look at.
      if (exact == 0) return (found & 0x7fff) == 0;
      return found == format.nearest(exact);
    };
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double x = format.value(a[i]), y = format.value(b[i]), z = format.value(c[i]);
      ASSERT_TRUE(check(sums[i], static_cast<__float128>(x) + y, x + y)) << x << " " << y;
      ASSERT_TRUE(check(products[i], static_cast<__float128>(x) * y, x * y)) << x << " " << y;
      ASSERT_TRUE(check(fused[i], exact_sum(static_cast<__float128>(x) * y, z), x * y + z))
          << type << " " << x << " " << y << " " << z;
    }
  }
}

TEST(PtxHalf, PackedIsTwoOfThem) {
  const auto a = interesting_integers(32, 3000, 4), b = interesting_integers(32, 3000, 5);
  const auto packed = apply({"add.rn.f16x2 %d, %a, %b;", "b32", {"b32", "b32"}}, {a, b});
  const auto lanes =
      apply({"{.reg .b16 %l<4>, %h<4>;\nmov.b32 {%l1, %h1}, %a;\nmov.b32 {%l2, %h2}, %b;\n"
             "add.rn.f16 %l1, %l1, %l2;\nadd.rn.f16 %h1, %h1, %h2;\nmov.b32 %d, {%l1, %h1};}",
             "b32",
             {"b32", "b32"}},
            {a, b});
  EXPECT_EQ(packed, lanes);
}

TEST(PtxHalf, EightBitsBothWays) {
  for (const auto& [type, format] : {std::pair{"e4m3x2", kE4m3}, std::pair{"e5m2x2", kE5m2}}) {
    const std::string t = type;
    std::vector<std::uint64_t> pairs;
    for (std::uint64_t i = 0; i < 256; ++i) pairs.push_back(i | (255 - i) << 8);
    const auto wide = apply({"cvt.rn.f16x2." + t + " %d, %a;", "b32", {"b16"}}, {pairs});
    for (std::size_t i = 0; i < 256; ++i) {
      const double expected = format.value(i);
      const double found = kHalf.value(wide[i] & 0xffff);
      ASSERT_TRUE(std::isnan(expected) ? std::isnan(found) : expected == found) << i;
    }
    const auto halves = all_patterns();
    std::vector<std::uint64_t> packed;
    for (std::uint64_t half : halves) packed.push_back(half | half << 16);
    const auto narrow =
        apply({"cvt.rn.satfinite." + t + ".f16x2 %d, %a;", "b16", {"b32"}}, {packed});
    const double largest = format.infinity ? 57344 : 448;
    for (std::size_t i = 0; i < halves.size(); ++i) {
      const double value = kHalf.value(i);
      const double found = format.value(narrow[i] & 0xff);
      ASSERT_EQ(narrow[i] & 0xff, narrow[i] >> 8);
      if (std::isnan(value))
        ASSERT_TRUE(std::isnan(found));
      else if (std::fabs(value) >= largest)
        ASSERT_EQ(found, std::copysign(largest, value));
      else if (format.infinity || std::fabs(value) < 256)
        ASSERT_EQ(narrow[i] & 0xff, format.nearest(value) | (value == 0 ? i >> 8 & 0x80 : 0))
            << value;
    }
  }
}

}  // namespace
}  // namespace kiln::emulator::test
