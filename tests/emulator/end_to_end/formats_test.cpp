#include <bit>

#include "../instructions/exact.h"
#include "values.h"

namespace kiln::emulator_test {
namespace {

constexpr Rounding kNearest = Rounding::nearest_even;

class Formats : public testing::Test {
 protected:
  Formats() : module_((use_device(0), kernel_text("formats.ptx"))) {}
  Function kernel(const std::string& name) const { return module_.function(name); }

  /// y = alpha * x + y with one rounding an element.
  void axpy(const std::string& name, const Format& format) {
    const int n = 700;
    auto x = random_bits<std::uint16_t>(2 * n, 1), y = random_bits<std::uint16_t>(2 * n, 2);
    const Array<std::uint16_t> dx(x), dy(y);
    launch(kernel(name), {{blocks_for(n, 64)}, {64}}, dx, dy, 0.3f, n);
    synchronize();
    const Number alpha =
        decode(format, encode(format, decode(kF32, std::bit_cast<std::uint32_t>(0.3f)), kNearest));
    const auto found = dy.get();
    for (int i = 0; i < 2 * n; ++i) {
      const Number exact =
          add(multiply(alpha, decode(format, x[i])), decode(format, y[i]), kNearest);
      if (exact.is_nan()) {
        ASSERT_TRUE(decode(format, found[i]).is_nan()) << i;
      } else {
        ASSERT_EQ(found[i], encode(format, exact, kNearest)) << i;
      }
    }
  }

  Module module_;
};

TEST_F(Formats, HalfPairs) { axpy("half_axpy", kF16); }
TEST_F(Formats, BfloatPairs) { axpy("bfloat_axpy", kBf16); }

TEST_F(Formats, DotProductOfHalves) {
  const int n = 500;
  std::vector<std::uint16_t> a, b;
  double expected = 0;
  for (int i = 0; i < 2 * n; ++i) {
    const int x = i % 13 - 6, y = i % 7 - 3;
    a.push_back(static_cast<std::uint16_t>(encode(kF16, from_integer(x), kNearest)));
    b.push_back(static_cast<std::uint16_t>(encode(kF16, from_integer(y), kNearest)));
    expected += x * y;
  }
  const Array<std::uint16_t> da(a), db(b);
  const Array<float> out(1);
  launch(kernel("half_dot"), {{1}, {32}}, da, db, out, n);
  synchronize();
  EXPECT_EQ(out.get()[0], expected);
}

TEST_F(Formats, RoundTrips) {
  auto in = random_values<float>(2000, -600, 600);
  for (const std::uint32_t bits : random_bits<std::uint32_t>(2000)) {
    in.push_back(std::bit_cast<float>(bits));
  }
  const int n = static_cast<int>(in.size());
  const Array<float> din(in), out(5 * in.size());
  launch(kernel("round_trips"), {{blocks_for(in.size(), 256)}, {256}}, din, out, n);
  synchronize();
  const auto found = out.get();
  const struct {
    const Format& format;
    Rounding rounding;
    bool finite;
  } steps[] = {{kF16, kNearest, false},
               {kBf16, kNearest, false},
               {kE4m3, kNearest, true},
               {kE5m2, kNearest, true},
               {kF16, Rounding::zero, false}};
  for (int i = 0; i < n; ++i) {
    for (int k = 0; k < 5; ++k) {
      const auto& [format, rounding, finite] = steps[k];
      const Number number = decode(kF32, std::bit_cast<std::uint32_t>(in[i]));
      const Number expected = decode(format, encode(format, number, rounding, finite));
      if (expected.is_nan()) {
        ASSERT_TRUE(std::isnan(found[5 * i + k])) << in[i] << " step " << k;
      } else {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(found[5 * i + k]), encode(kF32, expected, kNearest))
            << in[i] << " step " << k;
      }
    }
  }
}

TEST_F(Formats, FunctionsOfHalves) {
  const int n = 2000;
  auto a = random_bits<std::uint16_t>(n, 3), b = random_bits<std::uint16_t>(n, 4);
  const Array<std::uint16_t> da(a), db(b), out(8 * n);
  launch(kernel("half_functions"), {{blocks_for(n, 64)}, {64}}, da, db, out, n);
  synchronize();
  const auto found = out.get();
  const auto matches = [](const Number& expected, std::uint16_t bits) {
    if (expected.is_nan()) return decode(kF16, bits).is_nan();
    return bits == encode(kF16, expected, kNearest);
  };
  for (int i = 0; i < n; ++i) {
    const Number x = decode(kF16, a[i]), y = decode(kF16, b[i]);
    const std::uint16_t* row = &found[8 * i];
    const bool unordered = x.is_nan() || y.is_nan();
    const bool less = !unordered && compare(x, y) < 0;
    // Zeros of either sign are rare enough among random bits; their order is tested elsewhere.
    if (!unordered && compare(x, y) == 0) continue;
    ASSERT_TRUE(matches(x.is_nan() ? y : y.is_nan() ? x : less ? y : x, row[0])) << i;
    ASSERT_TRUE(matches(unordered ? nan() : less ? x : y, row[1])) << i;
    ASSERT_EQ(row[2] & 0x7fff, a[i] & 0x7fff) << i;
    ASSERT_EQ(row[3], less ? a[i] : b[i]) << i;
    ASSERT_TRUE(matches(to_integral(x, kNearest), row[4])) << i;
    Number difference = add(x, negate(y), kNearest);
    if (difference.is_nan() || difference.negative) difference = Number{};
    if (compare(difference, from_integer(1)) > 0) difference = from_integer(1);
    ASSERT_TRUE(matches(difference, row[5])) << i;
    const __int128 whole = to_integer(x, Rounding::zero, INT32_MIN, INT32_MAX);
    ASSERT_TRUE(matches(from_integer(whole), row[6])) << i;
    ASSERT_EQ(row[7], x.is_nan()) << i;
  }
}

}  // namespace
}  // namespace kiln::emulator_test
