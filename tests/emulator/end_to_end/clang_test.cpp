#include <array>
#include <bit>
#include <numeric>

#include "../instructions/exact.h"
#include "values.h"

namespace kiln::emulator_test {
namespace {

class Clang : public testing::TestWithParam<const char*> {
 protected:
  Clang() : module_((use_device(0), kernel_text(GetParam()))) {}
  Function kernel(const std::string& name) const { return module_.function(name); }
  Module module_;
};
std::string build_name(const testing::TestParamInfo<const char*>& info) {
  return info.index == 0 ? "Optimised" : "Debug";
}
INSTANTIATE_TEST_SUITE_P(Builds, Clang,
                         testing::Values("clang_kernels.ptx", "clang_kernels_debug.ptx"),
                         build_name);

TEST_P(Clang, VectorAdd) {
  const int n = 1000;
  const auto a = random_values<float>(n, -1, 1, 1), b = random_values<float>(n, -1, 1, 2);
  const Array<float> da(a), db(b), dc(n);
  launch(kernel("vector_add"), {{8}, {128}}, da, db, dc, n);
  synchronize();
  const auto c = dc.get();
  for (int i = 0; i < n; ++i) ASSERT_EQ(c[i], a[i] + b[i]);
}

TEST_P(Clang, SumByShuffles) {
  const auto in = random_values<int>(4321, -1000, 1000);
  const Array<int> din(in);
  const Array<long long> out(1);
  launch(kernel("sum_shuffle"), {{3}, {160}}, din, out, 4321);
  synchronize();
  EXPECT_EQ(out.get()[0], std::accumulate(in.begin(), in.end(), 0ll));
}

int ackermann(int m, int n) {
  if (m == 0) return n + 1;
  return n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

TEST_P(Clang, Recursion) {
  const Array<int> out(24);
  launch(kernel("recursion"), {{1}, {24}}, out);
  synchronize();
  std::vector<int> expected;
  for (int i = 0; i < 24; ++i) expected.push_back(ackermann(i % 3, i / 3));
  EXPECT_EQ(out.get(), expected);
}

TEST_P(Clang, PointersInInitialisers) {
  const Array<int> out(3);
  launch(kernel("pointers"), {{1}, {3}}, out);
  synchronize();
  const int inner = 7 + 2 * 3 + 3 * 5, sum = 11 + 2 * inner + 3 * 5;
  EXPECT_EQ(out.get(), (std::vector<int>{sum, sum + 1, sum + 2}));
}

TEST_P(Clang, IndirectCalls) {
  const Array<int> out(9);
  launch(kernel("indirect_calls"), {{1}, {9}}, out);
  synchronize();
  EXPECT_EQ(out.get(), (std::vector<int>{7, -6, 14, 10, -3, 35, 13, 0, 56}));
}

TEST_P(Clang, Switches) {
  const std::vector<int> in = {5, 4, 3, 2, 1, 0, 9, -7};
  const Array<int> din(in), out(8);
  launch(kernel("choices"), {{1}, {8}}, din, out);
  synchronize();
  EXPECT_EQ(out.get(), (std::vector<int>{2, 1, -5, 20, 25, 10, -1, -1}));
}

TEST_P(Clang, Halves) {
  const int n = 3000;
  const auto a = random_bits<std::uint16_t>(n, 1), b = random_bits<std::uint16_t>(n, 2);
  const Array<std::uint16_t> da(a), db(b), out(n);
  launch(kernel("half_arithmetic"), {{12}, {256}}, da, db, out, n);
  synchronize();
  const auto found = out.get();
  constexpr Rounding rn = Rounding::nearest_even;
  for (int i = 0; i < n; ++i) {
    const Number x = decode(kF16, a[i]), y = decode(kF16, b[i]);
    const bool less = !x.is_nan() && !y.is_nan() && compare(x, y) < 0;
    const Number addend = less ? from_integer(1) : negate(y);
    // The compiler may or may not fuse the sum with the product.
    const std::uint64_t fused = encode(kF16, add(multiply(x, y), addend, rn), rn);
    const Number product = decode(kF16, encode(kF16, multiply(x, y), rn));
    const std::uint64_t split = encode(kF16, add(product, addend, rn), rn);
    if (decode(kF16, fused).is_nan() || decode(kF16, split).is_nan()) continue;
    ASSERT_TRUE(found[i] == fused || found[i] == split) << i;
  }
}

TEST_P(Clang, WideIntegers) {
  const int n = 300;
  const auto a = random_bits<std::uint64_t>(n, 1), b = random_bits<std::uint64_t>(n, 2);
  const Array<std::uint64_t> da(a), db(b), out(2 * n);
  launch(kernel("wide_integers"), {{3}, {128}}, da, db, out, n);
  synchronize();
  std::vector<std::uint64_t> expected;
  for (int i = 0; i < n; ++i) {
    const unsigned __int128 product = static_cast<unsigned __int128>(a[i]) * b[i] + a[i];
    expected.push_back(static_cast<std::uint64_t>(product));
    expected.push_back(static_cast<std::uint64_t>(product >> 64));
  }
  EXPECT_EQ(out.get(), expected);
}

TEST_P(Clang, Bits) {
  auto a = random_bits<std::uint32_t>(300);
  a[0] = 0;
  a[1] = ~0u;
  const Array<std::uint32_t> da(a), out(6 * 300);
  launch(kernel("bits"), {{3}, {128}}, da, out, 300);
  synchronize();
  std::vector<std::uint32_t> expected;
  for (std::uint32_t x : a) {
    std::uint32_t mirrored = 0;
    for (int i = 0; i < 32; ++i) mirrored |= (x >> i & 1) << (31 - i);
    expected.push_back(static_cast<std::uint32_t>(std::popcount(x)));
    expected.push_back(static_cast<std::uint32_t>(std::countl_zero(x)));
    expected.push_back(mirrored);
    expected.push_back(std::rotl(x, 7));
    expected.push_back(x << 24 | (x << 8 & 0xff0000) | (x >> 8 & 0xff00) | x >> 24);
    expected.push_back(static_cast<std::uint32_t>(static_cast<std::int32_t>(x) / 10) + x % 7);
  }
  EXPECT_EQ(out.get(), expected);
}

TEST_P(Clang, Printing) {
  testing::internal::CaptureStdout();
  launch(kernel("print_values"), {{1}, {4}}, 3);
  synchronize();
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "0: 0.00 clang\n1: 0.50 clang\n2: 1.00 clang\n");
}

TEST_P(Clang, BytesOfALocalArray) {
  const int n = 40;
  const auto in = random_bits<std::uint8_t>(16 * n);
  const Array<std::uint8_t> din(in), out(16 * n);
  launch(kernel("bytes"), {{2}, {32}}, din, out, n);
  synchronize();
  std::vector<std::uint8_t> expected;
  for (int i = 0; i < 16 * n; ++i) {
    const int row = i / 16, k = i % 16;
    expected.push_back(static_cast<std::uint8_t>(in[16 * row + (k * 5 + row) % 16] + k));
  }
  EXPECT_EQ(out.get(), expected);
}

TEST_P(Clang, OrderedMemory) {
  const Array<int> flag(1), data(6);
  launch(kernel("ordered"), {{6}, {32}}, flag, data);
  synchronize();
  EXPECT_EQ(data.get(), std::vector<int>(6, 42));
}

}  // namespace
}  // namespace kiln::emulator_test
