#include <algorithm>
#include <bit>

#include "../instructions/exact.h"
#include "values.h"

namespace kiln::emulator_test {
namespace {

using u32 = std::uint32_t;
using s32 = std::int32_t;
using u64 = std::uint64_t;
using s64 = std::int64_t;

template <class T>
std::vector<T> with_edges(std::size_t count, std::uint64_t seed) {
  auto values = random_bits<T>(count, seed);
  const std::vector<T> edges = {0, 1, static_cast<T>(-1),
                                static_cast<T>(T{1} << (8 * sizeof(T) - 1)),
                                static_cast<T>(~(T{1} << (8 * sizeof(T) - 1)))};
  for (T a : edges) {
    for (std::size_t k = 0; k < edges.size(); ++k) {
      values.push_back(seed == 1 ? a : edges[k]);
    }
  }
  return values;
}

/// Applies a function to each byte or half of two words.
template <class Function>
u32 by_parts(u32 a, u32 b, int bits, Function function) {
  u32 result = 0;
  const u32 mask = (1u << bits) - 1;
  for (int shift = 0; shift < 32; shift += bits) {
    result |= (static_cast<u32>(function(a >> shift & mask, b >> shift & mask)) & mask) << shift;
  }
  return result;
}

/// Three bits of each selector count.
u32 permuted(u32 x, u32 y, u32 selectors) {
  const u64 both = x | static_cast<u64>(y) << 32;
  u32 result = 0;
  for (int i = 0; i < 4; ++i) {
    const u32 byte = both >> 8 * (selectors >> 4 * i & 7) & 0xff;
    result |= byte << 8 * i;
  }
  return result;
}

u32 reversed(u32 x) {
  u32 result = 0;
  for (int i = 0; i < 32; ++i) result |= (x >> i & 1) << (31 - i);
  return result;
}

s32 low24(u32 x) { return static_cast<s32>(x << 8) >> 8; }

std::vector<u32> expected_row(u32 x, u32 y, u32 z) {
  const s32 a = static_cast<s32>(x), b = static_cast<s32>(y);
  const u64 both = x | static_cast<u64>(y) << 32;
  u32 dot4 = z, dot2 = z;
  for (int i = 0; i < 4; ++i) dot4 += (x >> 8 * i & 0xff) * (y >> 8 * i & 0xff);
  for (int i = 0; i < 2; ++i) {
    dot2 += static_cast<u32>(static_cast<std::int16_t>(x >> 16 * i) *
                             static_cast<std::int8_t>(y >> 8 * i));
  }
  const s64 sum = static_cast<s64>(a) + b;
  const auto byte = [](u32 v) { return static_cast<s32>(v); };
  return {
      static_cast<u32>(std::popcount(x)),
      static_cast<u32>(std::countl_zero(x)),
      x ? static_cast<u32>(std::countr_zero(x)) + 1 : 0,
      reversed(x),
      permuted(x, y, z),
      static_cast<u32>(static_cast<u64>(x) * y >> 32),
      static_cast<u32>(static_cast<s64>(a) * b >> 32),
      std::max(x, y) - std::min(x, y) + z,
      static_cast<u32>(std::max(a, b)) - static_cast<u32>(std::min(a, b)) + z,
      static_cast<u32>((static_cast<u64>(x) + y) >> 1),
      static_cast<u32>(sum >> 1),
      static_cast<u32>((static_cast<u64>(x) + y + 1) >> 1),
      static_cast<u32>((sum + 1) >> 1),
      static_cast<u32>(both << (z & 31) >> 32),
      static_cast<u32>(both >> std::min(z, 32u)),
      static_cast<u32>(low24(x)) * static_cast<u32>(low24(y)),
      (x & 0xffffff) * (y & 0xffffff),
      dot4,
      dot2,
      by_parts(x, y, 8, [](u32 p, u32 q) { return p + q; }),
      by_parts(x, y, 8, [&](u32 p, u32 q) { return std::abs(byte(p) - byte(q)); }),
      by_parts(x, y, 16,
               [](u32 p, u32 q) {
                 return std::max(static_cast<std::int16_t>(p), static_cast<std::int16_t>(q));
               }),
      by_parts(x, y, 8, [](u32 p, u32 q) { return p > q ? 0xffu : 0u; }),
      static_cast<u32>(std::max(static_cast<s32>(x + y), static_cast<s32>(z))),
  };
}

class Intrinsics : public testing::Test {
 protected:
  Intrinsics() : module_((use_device(0), kernel_text("intrinsics.ptx"))) {}
  Module module_;
};

TEST_F(Intrinsics, Integers) {
  const auto a = with_edges<u32>(500, 1), b = with_edges<u32>(500, 2), c = with_edges<u32>(500, 3);
  const int n = static_cast<int>(a.size());
  const Array<u32> da(a), db(b), dc(c), out(24 * n);
  launch(module_.function("integer_intrinsics"), {{blocks_for(n, 64)}, {64}}, da, db, dc, out, n);
  synchronize();
  const auto found = out.get();
  for (int i = 0; i < n; ++i) {
    const std::vector<u32> row(found.begin() + 24 * i, found.begin() + 24 * i + 24);
    ASSERT_EQ(row, expected_row(a[i], b[i], c[i])) << a[i] << " " << b[i] << " " << c[i];
  }
}

TEST_F(Intrinsics, LongIntegers) {
  const auto a = with_edges<u64>(500, 1), b = with_edges<u64>(500, 2);
  const int n = static_cast<int>(a.size());
  const Array<u64> da(a), db(b), out(10 * n);
  launch(module_.function("long_intrinsics"), {{blocks_for(n, 64)}, {64}}, da, db, out, n);
  synchronize();
  const auto found = out.get();
  for (int i = 0; i < n; ++i) {
    const u64 x = a[i], y = b[i];
    const unsigned __int128 product = static_cast<unsigned __int128>(x) * y + x;
    const bool plain = y != 0 && y + 1 != 0;
    u64 mirrored = 0;
    for (int k = 0; k < 64; ++k) mirrored |= (x >> k & 1) << (63 - k);
    const std::vector<u64> expected = {
        static_cast<u64>(std::popcount(x)),
        static_cast<u64>(std::countl_zero(x)),
        x ? static_cast<u64>(std::countr_zero(x)) + 1 : 0,
        mirrored,
        static_cast<u64>(static_cast<unsigned __int128>(x) * y >> 64),
        static_cast<u64>(static_cast<__int128>(static_cast<s64>(x)) * static_cast<s64>(y) >> 64),
        y ? x / y : 0,
        y ? x % y : 0,
        plain ? static_cast<u64>(static_cast<s64>(x) / static_cast<s64>(y)) : 0,
        static_cast<u64>(product >> 64) ^ static_cast<u64>(product)};
    const std::vector<u64> row(found.begin() + 10 * i, found.begin() + 10 * i + 10);
    ASSERT_EQ(row, expected) << x << " " << y;
  }
}

TEST_F(Intrinsics, RoundedFloats) {
  const auto a = random_values<float>(1000, -5, 5, 1), b = random_values<float>(1000, -5, 5, 2),
             c = random_values<float>(1000, -5, 5, 3);
  const Array<float> da(a), db(b), dc(c), out(8000);
  launch(module_.function("float_intrinsics"), {{10}, {100}}, da, db, dc, out, 1000);
  synchronize();
  const auto found = out.get();
  const auto number = [](float x) { return decode(kF32, std::bit_cast<u32>(x)); };
  const auto rounded = [](const Number& x, Rounding rounding) {
    return std::bit_cast<float>(static_cast<u32>(encode(kF32, x, rounding)));
  };
  for (int i = 0; i < 1000; ++i) {
    const Number x = number(a[i]), y = number(b[i]), z = number(c[i]);
    const std::vector<float> expected = {
        rounded(add(x, y, Rounding::zero), Rounding::zero),
        rounded(multiply(x, y), Rounding::up),
        rounded(add(multiply(x, y), z, Rounding::down), Rounding::down),
        rounded(add(x, negate(y), Rounding::up), Rounding::up),
        std::clamp(a[i], 0.0f, 1.0f),
        std::fdim(a[i], b[i]),
        std::bit_cast<float>(std::bit_cast<u32>(a[i]) ^ 1),
        std::copysign(a[i], b[i])};
    const std::vector<float> row(found.begin() + 8 * i, found.begin() + 8 * i + 8);
    ASSERT_EQ(row, expected) << a[i] << " " << b[i] << " " << c[i];
  }
}

}  // namespace
}  // namespace kiln::emulator_test
