// Casts between dtypes against their definitions: exhaustive over the small dtypes, sampled over
// the others.

#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "lowering_harness.h"

namespace kiln::compiler::testing {
namespace {

// The values of a float format by its definition, code by code.
struct Format {
  DType dtype;
  int exponent_bits;
  int mantissa_bits;
  int bias;
  long double max;
  bool ieee;  // infinities and NaNs in the highest exponent
  bool fnuz;  // 0x80 is the only NaN
};

const Format kFormats[] = {
    {DType::float16, 5, 10, 15, 65504, true, false},
    {DType::bfloat16, 8, 7, 127, 0x1.FEp127L, true, false},
    {DType::float8_e4m3fn, 4, 3, 7, 448, false, false},
    {DType::float8_e4m3fnuz, 4, 3, 8, 240, false, true},
    {DType::float8_e5m2, 5, 2, 15, 57344, true, false},
    {DType::float8_e5m2fnuz, 5, 2, 16, 57344, false, true},
};

long double value_of(const Format& f, unsigned code) {
  int width = 1 + f.exponent_bits + f.mantissa_bits;
  unsigned sign = code >> (width - 1) & 1;
  int exponent = static_cast<int>(code >> f.mantissa_bits & ((1u << f.exponent_bits) - 1));
  unsigned mantissa = code & ((1u << f.mantissa_bits) - 1);
  int top = (1 << f.exponent_bits) - 1;
  long double nan = std::numeric_limits<long double>::quiet_NaN();
  if (f.fnuz && code == 1u << (width - 1)) return nan;
  if (f.ieee && exponent == top)
    return mantissa ? nan : (sign ? -1 : 1) * std::numeric_limits<long double>::infinity();
  if (!f.ieee && !f.fnuz && exponent == top && mantissa == (1u << f.mantissa_bits) - 1) return nan;
  long double value =
      exponent == 0 ? std::ldexp(static_cast<long double>(mantissa), 1 - f.bias - f.mantissa_bits)
                    : std::ldexp(static_cast<long double>(mantissa + (1u << f.mantissa_bits)),
                                 exponent - f.bias - f.mantissa_bits);
  return sign ? -value : value;
}

// The nearest value of the format, ties to even, by arithmetic in long double.
long double nearest(const Format& f, long double x, bool saturates) {
  if (std::isnan(x)) return x;
  long double magnitude = std::fabs(x);
  long double rounded = magnitude;
  if (std::isfinite(magnitude) && magnitude > 0) {
    int exponent = std::max(std::ilogb(magnitude), 1 - f.bias);
    long double unit = std::ldexp(1.0L, exponent - f.mantissa_bits);
    rounded = std::nearbyint(magnitude / unit) * unit;
  }
  if (rounded > f.max) rounded = saturates ? f.max : std::numeric_limits<long double>::infinity();
  return std::copysign(rounded, x);
}

template <typename T>
std::vector<T> run_cast(const std::string& target, int lanes, DType from, DType to, const void* in,
                        std::size_t n) {
  Kernel kernel(target, lanes, {from}, to, [&](Lowering& l, const std::vector<llvm::Value*>& v) {
    return l.cast(v[0], from, to);
  });
  EXPECT_TRUE(kernel.undefined_symbols().empty()) << kernel.undefined_symbols().front();
  std::vector<T> out(n);
  kernel.run({in}, out.data(), static_cast<std::int64_t>(n));
  return out;
}

template <typename T>
std::vector<T> random_codes(std::size_t n) {
  std::mt19937_64 random(11);
  std::vector<T> x(n);
  for (T& value : x) {
    std::uint64_t code = random();
    std::memcpy(&value, &code, sizeof value);
  }
  return x;
}

// Floats over all magnitudes, with those half way between neighbours of every format.
std::vector<double> wide_samples() {
  std::vector<double> x = {0.0, -0.0, INFINITY, -INFINITY, NAN, 464, 465, 463.9, 248, 1e30, -1e30};
  for (const Format& f : kFormats) {
    unsigned codes = 1u << (f.exponent_bits + f.mantissa_bits);
    for (unsigned code = 0; code + 1 < codes; code += codes > 4096 ? 7 : 1) {
      double a = static_cast<double>(value_of(f, code));
      double b = static_cast<double>(value_of(f, code + 1));
      if (!std::isfinite(a) || !std::isfinite(b)) continue;
      double middle = (a + b) / 2;
      for (double value : {a, middle, std::nextafter(middle, 0.0), std::nextafter(middle, 1e300)})
        x.push_back(value), x.push_back(-value);
    }
  }
  for (double value : random_codes<double>(20000)) x.push_back(value);
  for (float value : random_codes<float>(20000)) x.push_back(value);
  while (x.size() % 32) x.push_back(1);
  return x;
}

TEST(LoweringCast, SmallFloatsWiden) {
  for (const std::string& target : runnable_targets())
    for (const Format& f : kFormats) {
      bool wide = f.dtype.size_in_bytes() == 2;
      std::vector<std::uint16_t> codes16(65536);
      std::vector<std::uint8_t> codes8(256);
      for (unsigned i = 0; i < 65536; ++i) codes16[i] = static_cast<std::uint16_t>(i);
      for (unsigned i = 0; i < 256; ++i) codes8[i] = static_cast<std::uint8_t>(i);
      std::size_t n = wide ? 65536 : 256;
      const void* in = wide ? static_cast<const void*>(codes16.data()) : codes8.data();
      for (int lanes : lane_counts(target, 16)) {
        auto got = run_cast<float>(target, lanes, f.dtype, DType::float32, in, n);
        for (unsigned i = 0; i < n; ++i) {
          auto expected = static_cast<float>(value_of(f, i));
          if (std::isnan(expected))
            ASSERT_TRUE(std::isnan(got[i])) << f.dtype.name() << ' ' << i;
          else
            ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(expected))
                << f.dtype.name() << ' ' << i << " on " << target;
        }
      }
    }
}

TEST(LoweringCast, FloatsNarrowRoundingOnce) {
  std::vector<double> doubles = wide_samples();
  std::vector<float> floats(doubles.begin(), doubles.end());
  for (const std::string& target : runnable_targets())
    for (const Format& f : kFormats)
      for (bool from_double : {true, false}) {
        DType from = from_double ? DType::float64 : DType::float32;
        const void* in = from_double ? static_cast<const void*>(doubles.data()) : floats.data();
        std::size_t n = doubles.size();
        std::vector<unsigned> got(n);
        if (f.dtype.size_in_bytes() == 2) {
          auto codes = run_cast<std::uint16_t>(target, 16, from, f.dtype, in, n);
          got.assign(codes.begin(), codes.end());
        } else {
          auto codes = run_cast<std::uint8_t>(target, 16, from, f.dtype, in, n);
          got.assign(codes.begin(), codes.end());
        }
        for (std::size_t i = 0; i < n; ++i) {
          long double x = from_double ? doubles[i] : floats[i];
          long double expected = nearest(f, x, !f.dtype.is_half());
          long double value = value_of(f, got[i]);
          if (std::isnan(expected)) {
            ASSERT_TRUE(std::isnan(value)) << f.dtype.name() << ' ' << target;
            continue;
          }
          ASSERT_EQ(value, expected)
              << from.name() << " to " << f.dtype.name() << " of " << x << " on " << target;
          if (!f.fnuz) ASSERT_EQ(std::signbit(value), std::signbit(expected)) << x;
        }
      }
}

TEST(LoweringCast, PowersOfTwo) {
  std::vector<float> x = {0,         -1,          1,           1.49f,    1.5f,      2.9f,
                          3,         0x1p-127f,   3e38f,       INFINITY, -INFINITY, NAN,
                          0x1p-149f, 0x1.8p-127f, 0x1.7p-127f, 0x1p-126f};
  std::vector<unsigned> expected = {0, 0, 127, 127, 128, 128, 129, 0, 254, 254, 0, 255, 0, 1, 0, 1};
  for (const std::string& target : runnable_targets()) {
    auto got = run_cast<std::uint8_t>(target, 16, DType::float32, DType::float8_e8m0fnu, x.data(),
                                      x.size());
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(got[i], expected[i]) << x[i];
    std::vector<std::uint8_t> codes(256);
    for (unsigned i = 0; i < 256; ++i) codes[i] = static_cast<std::uint8_t>(i);
    auto back =
        run_cast<float>(target, 16, DType::float8_e8m0fnu, DType::float32, codes.data(), 256);
    for (int i = 0; i < 255; ++i)
      EXPECT_EQ(back[static_cast<std::size_t>(i)], std::ldexp(1.0f, i - 127));
    EXPECT_TRUE(std::isnan(back[255]));
  }
}

TEST(LoweringCast, Float4) {
  const float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  std::vector<std::uint8_t> codes(16);
  for (unsigned i = 0; i < 16; ++i) codes[i] = static_cast<std::uint8_t>(i);
  std::vector<float> x = {0.25f, 0.75f, 1.25f,    1.75f, 2.5f,  3.5f,   5,     5.01f,
                          7,     -7,    INFINITY, NAN,   0.26f, -0.75f, 0.24f, -5};
  std::vector<unsigned> expected = {0, 2, 2, 4, 4, 6, 6, 7, 7, 15, 7, 7, 1, 10, 0, 14};
  for (const std::string& target : runnable_targets()) {
    auto wide = run_cast<float>(target, 16, DType::float4_e2m1fn, DType::float32, codes.data(), 16);
    for (unsigned i = 0; i < 16; ++i) EXPECT_EQ(wide[i], i < 8 ? values[i] : -values[i - 8]);
    auto got = run_cast<std::uint8_t>(target, 16, DType::float32, DType::float4_e2m1fn, x.data(),
                                      x.size());
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(got[i], expected[i]) << x[i];
  }
}

template <typename From, typename To>
To saturated(From x) {
  if (std::isnan(x)) return 0;
  long double t = std::trunc(static_cast<long double>(x));
  if (t <= static_cast<long double>(std::numeric_limits<To>::min()))
    return std::numeric_limits<To>::min();
  if (t >= static_cast<long double>(std::numeric_limits<To>::max()))
    return std::numeric_limits<To>::max();
  return static_cast<To>(t);
}

template <typename From, typename To>
void check_to_integer(const std::string& target) {
  std::vector<From> x = {From(0.99),
                         From(-0.99),
                         From(127.5),
                         From(-128.9),
                         From(255.9),
                         From(256),
                         From(2147483648.0),
                         From(-2147483649.0),
                         From(9.2233720368547758e18),
                         From(-9.3e18),
                         From(1.8446744073709552e19),
                         From(NAN),
                         From(INFINITY),
                         From(-INFINITY),
                         From(4294967295.0),
                         From(65535.9)};
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000; ++i)
    x.push_back(static_cast<From>(
        std::ldexp(static_cast<double>(random()) - 0x1p63, static_cast<int>(random() % 66) - 63)));
  for (From value : random_codes<From>(4000)) x.push_back(value);
  for (int lanes : lane_counts(target, 16)) {
    auto got = run_cast<To>(target, lanes, DType::of<From>(), DType::of<To>(), x.data(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(got[i], (saturated<From, To>(x[i])))
          << x[i] << " to " << DType::of<To>().name() << " on " << target;
  }
}

template <typename From>
void check_to_integers(const std::string& target) {
  check_to_integer<From, std::int8_t>(target);
  check_to_integer<From, std::uint8_t>(target);
  check_to_integer<From, std::int16_t>(target);
  check_to_integer<From, std::uint16_t>(target);
  check_to_integer<From, std::int32_t>(target);
  check_to_integer<From, std::uint32_t>(target);
  check_to_integer<From, std::int64_t>(target);
  check_to_integer<From, std::uint64_t>(target);
}

TEST(LoweringCast, FloatsToIntegersSaturate) {
  for (const std::string& target : runnable_targets()) {
    check_to_integers<float>(target);
    check_to_integers<double>(target);
  }
}

template <typename From>
void check_from_integer(const std::string& target) {
  std::vector<From> x = random_codes<From>(4096);
  for (std::size_t i = 0; i < 2000; ++i) x[i] = static_cast<From>(x[i] >> (i % (8 * sizeof(From))));
  x[0] = std::numeric_limits<From>::max();
  x[1] = std::numeric_limits<From>::min();
  x[2] = 0;
  // Just above the middle of two halves: rounding twice would tie.
  if constexpr (sizeof(From) == 8) {
    x[3] = static_cast<From>((0x101LL << 46) + 1);
    x[4] = static_cast<From>((0x1011LL << 46) + (1LL << 45) + 1);
    x[5] = static_cast<From>((0x80800001LL << 31) + 1);
    x[6] = static_cast<From>(0x4040000000000001LL);
    x[7] = static_cast<From>(0x4040000000000000LL);
  }
  DType from = DType::of<From>();
  for (int lanes : lane_counts(target, 16)) {
    auto floats = run_cast<float>(target, lanes, from, DType::float32, x.data(), x.size());
    auto doubles = run_cast<double>(target, lanes, from, DType::float64, x.data(), x.size());
    auto flags = run_cast<std::uint8_t>(target, lanes, from, DType::bool_, x.data(), x.size());
    auto shorts = run_cast<std::int16_t>(target, lanes, from, DType::int16, x.data(), x.size());
    auto longs = run_cast<std::uint64_t>(target, lanes, from, DType::uint64, x.data(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(floats[i], static_cast<float>(x[i])) << x[i] << ' ' << target;
      ASSERT_EQ(doubles[i], static_cast<double>(x[i])) << x[i] << ' ' << target;
      ASSERT_EQ(flags[i], x[i] != 0);
      ASSERT_EQ(shorts[i], static_cast<std::int16_t>(x[i]));
      ASSERT_EQ(longs[i], static_cast<std::uint64_t>(x[i]));
    }
  }
  for (const Format& f : {kFormats[0], kFormats[1]}) {
    auto codes = run_cast<std::uint16_t>(target, 16, from, f.dtype, x.data(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(value_of(f, codes[i]), nearest(f, static_cast<long double>(x[i]), false))
          << static_cast<long double>(x[i]) << " to " << f.dtype.name() << " on " << target;
  }
}

TEST(LoweringCast, IntegersToAll) {
  for (const std::string& target : runnable_targets()) {
    check_from_integer<std::int8_t>(target);
    check_from_integer<std::uint8_t>(target);
    check_from_integer<std::int16_t>(target);
    check_from_integer<std::uint16_t>(target);
    check_from_integer<std::int32_t>(target);
    check_from_integer<std::uint32_t>(target);
    check_from_integer<std::int64_t>(target);
    check_from_integer<std::uint64_t>(target);
  }
}

TEST(LoweringCast, FloatsToBool) {
  std::vector<float> x = {0, -0.0f, 1, NAN, INFINITY, 0x1p-149f, -2, 0};
  for (const std::string& target : runnable_targets()) {
    auto got = run_cast<std::uint8_t>(target, 8, DType::float32, DType::bool_, x.data(), 8);
    EXPECT_EQ(got, (std::vector<std::uint8_t>{0, 0, 1, 1, 1, 1, 1, 0}));
  }
}

TEST(LoweringCast, EveryPairCompilesWithoutCalls) {
  const DType all[] = {
      DType::bool_,           DType::int8,           DType::uint8,           DType::int16,
      DType::uint16,          DType::int32,          DType::uint32,          DType::int64,
      DType::uint64,          DType::float16,        DType::bfloat16,        DType::float32,
      DType::float64,         DType::float8_e4m3fn,  DType::float8_e4m3fnuz, DType::float8_e5m2,
      DType::float8_e5m2fnuz, DType::float8_e8m0fnu, DType::float4_e2m1fn};
  for (const std::string target : {"generic", "x86-64-v4"})
    for (DType from : all)
      for (DType to : all) {
        Kernel kernel(target, 16, {from}, to, [&](Lowering& l, const std::vector<llvm::Value*>& v) {
          return l.cast(v[0], from, to);
        });
        EXPECT_TRUE(kernel.undefined_symbols().empty())
            << from.name() << " to " << to.name() << " on " << target << " calls "
            << kernel.undefined_symbols().front();
      }
}

}  // namespace
}  // namespace kiln::compiler::testing
