#include <algorithm>
#include <numeric>

#include "values.h"

namespace kiln::emulator_test {
namespace {

/// The same kernels as optimised PTX and with -G.
class Reduce : public testing::TestWithParam<const char*> {
 protected:
  Reduce() : module_((use_device(0), kernel_text(GetParam()))) {}
  Function kernel(const std::string& name) const { return module_.function(name); }
  Module module_;
};
INSTANTIATE_TEST_SUITE_P(Builds, Reduce, testing::Values("reduce.ptx", "reduce_debug.ptx"),
                         [](const auto& info) {
                           return std::string(info.index == 0 ? "Optimised" : "Debug");
                         });

TEST_P(Reduce, SharedMemory) {
  for (const int n : {0, 1, 1000, 20000}) {
    std::vector<float> in(n);
    for (int i = 0; i < n; ++i) in[i] = static_cast<float>(i % 17 - 8);
    const Array<float> din(in), out(5);
    launch(kernel("sum_shared"), {{5}, {256}, 1024}, din, out, n);
    synchronize();
    const auto parts = out.get();
    EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), 0.0),
              std::accumulate(in.begin(), in.end(), 0.0));
  }
}

TEST_P(Reduce, Shuffles) {
  for (const unsigned threads : {32u, 96u, 256u, 1024u}) {
    const auto in = random_values<int>(5003, -1000, 1000);
    const Array<int> din(in);
    const Array<long long> out(1);
    launch(kernel("sum_shuffle"), {{3}, {threads}}, din, out, 5003);
    synchronize();
    EXPECT_EQ(out.get()[0], std::accumulate(in.begin(), in.end(), 0ll)) << threads;
  }
}

TEST_P(Reduce, Atomics) {
  const auto in = random_bits<unsigned>(3000);
  const Array<unsigned> din(in), out(1);
  launch(kernel("sum_atomic"), {{12}, {256}}, din, out, 3000);
  synchronize();
  EXPECT_EQ(out.get()[0], std::accumulate(in.begin(), in.end(), 0u));
}

TEST_P(Reduce, LastBlockAddsUp) {
  const auto in = random_values<int>(30000, -50, 50);
  const std::vector<double> real(in.begin(), in.end());
  const Array<double> din(real), parts(40), out(1);
  for (int again = 0; again < 3; ++again) {
    launch(kernel("sum_last_block"), {{40}, {256}}, din, parts, out, 30000);
    synchronize();
    EXPECT_EQ(out.get()[0], std::accumulate(real.begin(), real.end(), 0.0));
  }
}

TEST_P(Reduce, GridThatWaitsForItself) {
  for (const unsigned blocks : {1u, 2u, 7u, 16u}) {
    const auto in = random_values<int>(10001, -100, 100);
    const Array<int> din(in), parts(blocks), out(1);
    const LaunchShape shape{{blocks}, {128}, 0, nullptr, true};
    launch(kernel("sum_grid"), shape, din, parts, out, 10001);
    synchronize();
    EXPECT_EQ(out.get()[0], std::accumulate(in.begin(), in.end(), 0)) << blocks;
  }
}

TEST_P(Reduce, ScanOfABlock) {
  for (const auto& [threads, n] : {std::pair{1u, 2}, {64u, 128}, {64u, 99}, {1024u, 2047}}) {
    const auto in = random_values<int>(n, -9, 9);
    const Array<int> din(in), out(n);
    launch(kernel("scan_block"), {{1}, {threads}}, din, out, n);
    synchronize();
    std::vector<int> expected(n);
    std::exclusive_scan(in.begin(), in.end(), expected.begin(), 0);
    EXPECT_EQ(out.get(), expected) << n;
  }
}

TEST_P(Reduce, ChainedScan) {
  const int n = 256 * 23 + 5;
  const auto in = random_bits<unsigned>(n);
  const unsigned blocks = blocks_for(n, 256);
  const Array<unsigned> din(in), out(n), state(blocks), sums(blocks);
  launch(kernel("scan_chained"), {{blocks}, {256}}, din, out, state, sums, n);
  synchronize();
  std::vector<unsigned> expected(n);
  std::exclusive_scan(in.begin(), in.end(), expected.begin(), 0u);
  EXPECT_EQ(out.get(), expected);
}

TEST_P(Reduce, RadixSortKeepsPairs) {
  for (const int n : {1, 100, 1000, 4096}) {
    const auto keys = random_bits<unsigned>(n);
    std::vector<unsigned> values(n);
    std::iota(values.begin(), values.end(), 0u);
    const Array<unsigned> dkeys(keys), dvalues(values), other_keys(n), other_values(n);
    launch(kernel("radix_sort"), {{1}, {128}}, dkeys, dvalues, other_keys, other_values, n);
    synchronize();
    std::sort(values.begin(), values.end(), [&](unsigned a, unsigned b) {
      return std::pair(keys[a], a) < std::pair(keys[b], b);
    });
    EXPECT_EQ(dvalues.get(), values);
    auto sorted = keys;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(dkeys.get(), sorted);
  }
}

}  // namespace
}  // namespace kiln::emulator_test
