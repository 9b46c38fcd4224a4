#include <algorithm>

#include "values.h"

namespace kiln::emulator_test {
namespace {

class Waiting : public testing::Test {
 protected:
  Waiting() : module_((use_device(0), kernel_text("waiting.ptx"))) {}
  Function kernel(const std::string& name) const { return module_.function(name); }
  Module module_;
};

TEST_F(Waiting, CopiesInAPipeline) {
  for (const int steps : {1, 2, 5, 16}) {
    std::vector<float> in(steps * 512);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 101);
    const Array<float> din(in), out(128);
    launch(kernel("copy_pipeline"), {{1}, {128}}, din, out, steps);
    synchronize();
    std::vector<float> expected(128);
    for (int t = 0; t < 128; ++t) {
      for (int i = 0; i < steps; ++i) {
        for (int k = 0; k < 4; ++k) expected[t] += (k + 1) * in[(i * 128 + 127 - t) * 4 + k];
      }
    }
    EXPECT_EQ(out.get(), expected) << steps;
  }
}

TEST_F(Waiting, CopiesOfAllSizesWithZerosBeyond) {
  const auto in = random_values<int>(512, -1000, 1000);
  const Array<int> din(in);
  for (const int n : {512, 510, 130, 1, 0}) {
    const Array<int> out(128);
    launch(kernel("copy_small"), {{1}, {128}}, din, out, n);
    synchronize();
    std::vector<int> expected;
    const auto within = [&](int i) { return i < n ? in[i] : 0; };
    for (int t = 0; t < 128; ++t) {
      expected.push_back(in[t] + 3 * in[2 * t + 1] + 5 * within(4 * t) + 7 * within(4 * t + 3));
    }
    EXPECT_EQ(out.get(), expected) << n;
  }
}

TEST_F(Waiting, MakersAndUsers) {
  for (const int rounds : {1, 2, 3, 20}) {
    const auto in = random_values<int>(rounds * 64, -9, 9);
    const Array<int> din(in);
    const Array<long long> out(64);
    launch(kernel("produce_consume"), {{1}, {128}}, din, out, rounds);
    synchronize();
    std::vector<long long> expected(64);
    for (int t = 0; t < 64; ++t) {
      for (int i = 0; i < rounds; ++i) expected[t] = expected[t] * 3 + in[i * 64 + 63 - t];
    }
    EXPECT_EQ(out.get(), expected) << rounds;
  }
}

TEST_F(Waiting, BulkCopies) {
  for (const int count : {4, 100, 1024}) {
    const auto in = random_values<int>(count, -1000, 1000);
    const Array<int> din(in), out(count);
    launch(kernel("copy_bulk"), {{1}, {96}}, din, out, count);
    synchronize();
    std::vector<int> expected;
    for (int value : in) expected.push_back(2 * value + 1);
    EXPECT_EQ(out.get(), expected) << count;
  }
}

TEST_F(Waiting, NamedBarriers) {
  const int rounds = 7;
  const Array<int> out(128);
  launch(kernel("named_barriers"), {{1}, {128}}, out, rounds);
  synchronize();
  std::vector<int> expected;
  for (int i = 0; i < 128; ++i) {
    const int half = i / 64, turns = rounds + half;
    const int own = half * 64 + (i % 64 + turns) % 64 + turns;
    const int other = (i % 64 + rounds) % 64 + rounds;
    expected.push_back(half == 0 ? own : other * 1000 + own);
  }
  EXPECT_EQ(out.get(), expected);
}

TEST_F(Waiting, BarriersThatReduce) {
  // Blocks of 96: no bits, all bits, and what chance gives.
  auto in = random_values<int>(5 * 96, 0, 7.999);
  for (int i = 0; i < 96; ++i) {
    in[i] = 0;
    in[96 + i] = 7;
    in[192 + i] |= 2;
  }
  const Array<int> din(in), out(in.size());
  launch(kernel("reducing_barriers"), {{5}, {96}}, din, out);
  synchronize();
  std::vector<int> expected;
  for (int i = 0; i < 5 * 96; ++i) {
    int count = 0, all = 1, any = 0;
    for (int k = i / 96 * 96; k < i / 96 * 96 + 96; ++k) {
      count += in[k] & 1;
      all &= in[k] >> 1 & 1;
      any |= in[k] >> 2 & 1;
    }
    expected.push_back(count * 4 + all * 2 + any);
  }
  EXPECT_EQ(out.get(), expected);
}

TEST_F(Waiting, WarpsTalk) {
  auto in = random_values<unsigned>(64, 0, 9.999);
  for (int i = 32; i < 64; ++i) in[i] %= 8;
  const Array<unsigned> din(in), out(640);
  launch(kernel("warp_talk"), {{1}, {64}}, din, out);
  synchronize();
  const auto found = out.get();
  for (unsigned t = 0; t < 64; ++t) {
    const unsigned* warp = &in[t / 32 * 32];
    unsigned ballot = 0, any = 0, all = 1, same = 0, sum = 0, mixed = 0, least = ~0u;
    for (unsigned lane = 0; lane < 32; ++lane) {
      ballot |= (warp[lane] & 1) << lane;
      any |= warp[lane] == 3;
      all &= warp[lane] < 8;
      same |= (warp[lane] == in[t] ? 1u : 0u) << lane;
      sum += warp[lane];
      mixed ^= warp[lane];
      if (warp[lane] & 1) least = std::min(least, warp[lane] + lane + t / 32 * 32);
    }
    const unsigned even = 32 - static_cast<unsigned>(__builtin_popcount(ballot));
    const std::vector<unsigned> expected = {ballot,
                                            any,
                                            all,
                                            same,
                                            ~0u,
                                            1,
                                            sum,
                                            mixed,
                                            warp[(t * 7 + 3) % 32],
                                            in[t] & 1 ? least : even};
    const std::vector<unsigned> own(found.begin() + t * 10, found.begin() + t * 10 + 10);
    EXPECT_EQ(own, expected) << "thread " << t;
  }
}

TEST_F(Waiting, BlocksRelay) {
  const Array<int> flags(20), out(20);
  launch(kernel("relay"), {{20}, {32}}, flags, out);
  synchronize();
  std::vector<int> expected;
  for (int i = 0; i < 20; ++i) expected.push_back(2 * i + 1);
  EXPECT_EQ(out.get(), expected);
}

TEST_F(Waiting, KernelsOnTwoStreamsThrowABall) {
  const Array<int> first(1), second(1), data(1);
  const Stream one, two;
  const int rounds = 25;
  launch(kernel("ping_pong"), {{1}, {32}, 0, one.handle()}, first, second, data, 1, rounds);
  launch(kernel("ping_pong"), {{1}, {32}, 0, two.handle()}, second, first, data, 0, rounds);
  one.synchronize();
  two.synchronize();
  unsigned expected = 0;
  for (unsigned i = 1; i <= rounds; ++i) expected = expected * 3 + i + 5;
  EXPECT_EQ(data.get()[0], static_cast<int>(expected));
}

TEST_F(Waiting, AHostAnswersAKernel) {
  void* host = nullptr;
  check(driver().allocate_host(&host, 64, 2), "Allocating host memory");
  Address address = 0;
  check(driver().host_device_address(&address, host, 0), "Getting the device's address");
  volatile int* words = static_cast<volatile int*>(host);
  for (int i = 0; i < 16; ++i) words[i] = 0;
  const Stream stream;
  launch(kernel("ping_pong"), {{1}, {1}, 0, stream.handle()}, address, address + 16, address + 32,
         1, 5);
  for (int i = 1; i <= 5; ++i) {
    while (__atomic_load_n(static_cast<int*>(host) + 4, __ATOMIC_ACQUIRE) < i) {
    }
    words[8] = words[8] + 5;
    __atomic_store_n(static_cast<int*>(host), i, __ATOMIC_RELEASE);
  }
  stream.synchronize();
  int expected = 0;
  for (int i = 1; i <= 5; ++i) expected = expected * 3 + i + 5;
  EXPECT_EQ(words[8], expected);
  check(driver().free_host(host), "Freeing host memory");
}

}  // namespace
}  // namespace kiln::emulator_test
