#include <algorithm>
#include <numeric>

#include "values.h"

namespace kiln::emulator_test {
namespace {

class Atomics : public testing::Test {
 protected:
  Atomics() : module_((use_device(0), kernel_text("atomics.ptx"))) {}
  Function kernel(const std::string& name) const { return module_.function(name); }
  Module module_;
};

TEST_F(Atomics, Integers) {
  const int n = 5000;
  const auto in = random_values<int>(n, -1000000, 1000000);
  const std::vector<int> words = {5, 5, 0, 0, -1, 0, 0, 7, 7};
  const std::vector<std::uint64_t> longs = {1, 0, 0, 0, ~std::uint64_t{0}, 0};
  const Array<int> din(in), dwords(words);
  const Array<std::uint64_t> dlongs(longs);
  launch(kernel("integer_atomics"), {{blocks_for(n, 256)}, {256}}, din, dwords, dlongs, n);
  synchronize();
  auto w = words;
  auto l = longs;
  for (int value : in) {
    w[0] += value;
    w[1] -= value;
    w[2] = std::min(w[2], value);
    w[3] = std::max(w[3], value);
    w[4] &= value | 0x10;
    w[5] |= value & 0xff00;
    w[6] ^= value;
    w[7] = w[7] >= 99 ? 0 : w[7] + 1;
    w[8] = w[8] == 0 || w[8] > 49 ? 49 : w[8] - 1;
    const std::uint64_t wide = static_cast<std::uint64_t>(value) * 0x100000001u;
    l[0] += wide;
    l[1] = std::max(l[1], wide);
    l[2] = static_cast<std::uint64_t>(
        std::min(static_cast<std::int64_t>(l[2]), std::int64_t{value} * 4000000000));
    l[3] ^= wide;
    l[4] &= wide | 0xf0f;
    l[5] |= wide & 0xff;
  }
  EXPECT_EQ(dwords.get(), w);
  EXPECT_EQ(dlongs.get(), l);
}

TEST_F(Atomics, Floats) {
  const int n = 1500;
  std::vector<float> in(n);
  for (int i = 0; i < n; ++i) in[i] = static_cast<float>(i % 64) - 20;
  const double sum = std::accumulate(in.begin(), in.end(), 0.0);
  const Array<float> din(in), total(1), pair(2);
  const Array<double> wide(1);
  const Array<std::uint16_t> halves(2);
  launch(kernel("float_atomics"), {{blocks_for(n, 128)}, {128}}, din, total, wide, halves, pair, n);
  synchronize();
  EXPECT_EQ(total.get()[0], sum);
  EXPECT_EQ(wide.get()[0], sum);
  EXPECT_EQ(pair.get(), (std::vector<float>{static_cast<float>(sum), 1500}));
  // 1500 and -3000 as halves: both can be reached in steps of 1 and 2 without rounding.
  EXPECT_EQ(halves.get(), (std::vector<std::uint16_t>{0x65dc, 0xe9dc}));
}

TEST_F(Atomics, CompareAndSwapLoops) {
  const int n = 1000;
  const Array<unsigned> product(std::vector<unsigned>{1});
  const Array<int> lock(1), sum(1);
  launch(kernel("swap_loops"), {{blocks_for(n, 64)}, {64}}, product, lock, sum, n);
  synchronize();
  unsigned expected = 1;
  int total = 0;
  for (int i = 0; i < n; ++i) {
    expected *= 2 * i + 1;
    if (i % 64 == 0) total += i + 1;
  }
  EXPECT_EQ(product.get()[0], expected);
  EXPECT_EQ(sum.get()[0], total);
  EXPECT_EQ(lock.get()[0], 0);
}

TEST_F(Atomics, ALockWithinAWarp) {
  const Array<int> lock(1), order(64), count(1);
  launch(kernel("warp_lock"), {{1}, {64}}, lock, order, count);
  synchronize();
  auto found = order.get();
  std::sort(found.begin(), found.end());
  std::vector<int> expected(64);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(found, expected);
}

TEST_F(Atomics, SharedMemory) {
  const int n = 3000;
  const auto in = random_values<int>(n, 0, 100000);
  const Array<int> din(in), out(19);
  launch(kernel("shared_atomics"), {{1}, {160}}, din, out, n);
  synchronize();
  std::vector<int> expected(19);
  std::uint64_t best = 0;
  for (int i = 0; i < n; ++i) {
    ++expected[in[i] & 15];
    best = std::max(best, static_cast<std::uint64_t>(in[i]) << 32 | static_cast<unsigned>(i));
  }
  expected[16] = static_cast<int>(best >> 32);
  expected[17] = static_cast<int>(best);
  expected[18] = n / 2;
  EXPECT_EQ(out.get(), expected);
}

TEST_F(Atomics, OrderOfTickets) {
  const Array<unsigned> ticket(1), serving(1), sum(1);
  launch(kernel("ordered_atomics"), {{30}, {32}}, ticket, serving, sum);
  synchronize();
  unsigned expected = 0;
  for (unsigned i = 0; i < 30; ++i) expected = expected * 5 + i;
  EXPECT_EQ(sum.get()[0], expected);
}

}  // namespace
}  // namespace kiln::emulator_test
