#include <array>

#include "values.h"

// The generators as their papers define them: Philox 4x32 with ten rounds by Salmon and others,
// xorwow by Marsaglia with the seeding that cuRAND's guide describes.

namespace kiln::emulator_test {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

std::array<u32, 4> philox(std::array<u32, 4> counter, u64 seed) {
  u32 first = static_cast<u32>(seed), second = static_cast<u32>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const u64 left = u64{0xD2511F53} * counter[0], right = u64{0xCD9E8D57} * counter[2];
    counter = {static_cast<u32>(right >> 32) ^ counter[1] ^ first, static_cast<u32>(right),
               static_cast<u32>(left >> 32) ^ counter[3] ^ second, static_cast<u32>(left)};
    first += 0x9E3779B9;
    second += 0xBB67AE85;
  }
  return counter;
}

/// Number `index` of a sequence: the counter's low half counts in fours, the high is the sequence.
u32 philox_number(u64 seed, u32 sequence, u64 index) {
  const u64 count = index / 4;
  return philox({static_cast<u32>(count), static_cast<u32>(count >> 32), sequence, 0},
                seed)[index % 4];
}

float uniform(u32 bits) { return std::fma(static_cast<float>(bits), 0x1p-32f, 0x1p-33f); }

class Curand : public testing::Test {
 protected:
  Curand() : module_((use_device(0), kernel_text("curand.ptx"))) {}
  Module module_;
};

TEST_F(Curand, TheReferenceMeetsTheTestOfItsAuthors) {
  const std::array<u32, 4> zeros = philox({0, 0, 0, 0}, 0);
  EXPECT_EQ(zeros, (std::array<u32, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

TEST_F(Curand, Philox) {
  for (const u64 offset : {u64{0}, u64{1}, u64{6}, (u64{1} << 34) - 3}) {
    const u64 seed = 0x123456789abcdef0;
    const int each = 11;
    const Array<u32> out(64 * each);
    launch(module_.function("philox"), {{2}, {32}}, seed, offset, out, each);
    synchronize();
    std::vector<u32> expected;
    for (u32 thread = 0; thread < 64; ++thread) {
      for (int k = 0; k < each; ++k) {
        expected.push_back(philox_number(seed, thread, offset + static_cast<u64>(k)));
      }
    }
    EXPECT_EQ(out.get(), expected) << offset;
  }
}

TEST_F(Curand, PhiloxFourAtOnce) {
  const Array<u32> out(4 * 64);
  const Array<float> real(4 * 64);
  launch(module_.function("philox_four"), {{2}, {32}}, u64{42}, out, real);
  synchronize();
  std::vector<u32> numbers;
  std::vector<float> reals;
  for (u32 thread = 0; thread < 64; ++thread) {
    for (u64 k = 0; k < 4; ++k) {
      numbers.push_back(philox_number(42, thread, k));
      reals.push_back(uniform(philox_number(42, thread, 4 + k)));
    }
  }
  EXPECT_EQ(out.get(), numbers);
  EXPECT_EQ(real.get(), reals);
}

TEST_F(Curand, NormalNumbers) {
  const int each = 64;
  const Array<float> out(256 * each);
  launch(module_.function("philox_normal"), {{2}, {128}}, u64{7}, out, each);
  synchronize();
  const auto numbers = out.get();
  // Box and Muller: sines and cosines of two uniform numbers.
  std::vector<double> expected;
  for (u32 thread = 0; thread < 256; ++thread) {
    for (u64 k = 0; k < static_cast<u64>(each); k += 2) {
      const double u = philox_number(7, thread, k) * 0x1p-32 + 0x1p-33;
      const double v = (philox_number(7, thread, k + 1) * 0x1p-32 + 0x1p-33) * 2 * M_PI;
      const double radius = std::sqrt(-2 * std::log(u));
      expected.push_back(radius * std::sin(v));
      expected.push_back(radius * std::cos(v));
    }
  }
  expect_near(expected, numbers, 1e-4, 1e-5);
}

TEST_F(Curand, Xorwow) {
  const int each = 9;
  const u64 seed = (u64{77} << 32) + 1234;
  const Array<u32> out(32 * each);
  const Array<float> real(32 * each);
  launch(module_.function("xorwow"), {{1}, {32}}, seed, out, real, each);
  synchronize();
  std::vector<u32> numbers;
  std::vector<float> reals;
  for (u64 thread = 0; thread < 32; ++thread) {
    const u32 low = static_cast<u32>(seed + thread) ^ 0xaad26b49;
    const u32 high = static_cast<u32>((seed + thread) >> 32) ^ 0xf7dcefdd;
    const u32 t0 = 1099087573u * low, t1 = 2591861531u * high;
    u32 weyl = 6615241u + t1 + t0;
    std::array<u32, 5> v = {123456789u + t0, 362436069u ^ t0, 521288629u + t1, 88675123u ^ t1,
                            5783321u + t0};
    const auto next = [&] {
      u32 t = v[0] ^ (v[0] >> 2);
      v = {v[1], v[2], v[3], v[4], (v[4] ^ (v[4] << 4)) ^ (t ^ (t << 1))};
      weyl += 362437;
      return weyl + v[4];
    };
    for (int k = 0; k < each; ++k) {
      numbers.push_back(next());
      reals.push_back(uniform(next()));
    }
  }
  EXPECT_EQ(out.get(), numbers);
  EXPECT_EQ(real.get(), reals);
}

}  // namespace
}  // namespace kiln::emulator_test
