#include <algorithm>
#include <numeric>

#include "values.h"

namespace kiln::emulator_test {
namespace {

constexpr int kThreads = 128, kCount = 512;

class Cub : public testing::Test {
 protected:
  Cub() : module_((use_device(0), kernel_text("cub.ptx"))) {}

  template <class... Arguments>
  void run(const std::string& name, const Arguments&... arguments) {
    launch(module_.function(name), {{1}, {kThreads}}, arguments...);
    synchronize();
  }

  template <class Key>
  void sort(const std::string& name, const std::vector<Key>& keys, bool down) {
    std::vector<int> values(kCount);
    std::iota(values.begin(), values.end(), 0);
    const Array<Key> dkeys(keys);
    const Array<int> dvalues(values);
    run(name, dkeys, dvalues);
    std::sort(values.begin(), values.end(), [&](int a, int b) {
      if (keys[a] != keys[b]) return down ? keys[a] > keys[b] : keys[a] < keys[b];
      return a < b;
    });
    EXPECT_EQ(dvalues.get(), values);
    std::vector<Key> sorted;
    for (int value : values) sorted.push_back(keys[value]);
    EXPECT_EQ(dkeys.get(), sorted);
  }

  Module module_;
};

TEST_F(Cub, Reductions) {
  const auto in = random_values<int>(3000, -100, 100);
  const Array<int> din(in), out(2);
  run("cub_reduce", din, out, 3000);
  std::vector<int> by_thread(kThreads);
  for (int i = 0; i < 3000; ++i) by_thread[i % kThreads] += in[i];
  EXPECT_EQ(out.get(), (std::vector<int>{std::accumulate(in.begin(), in.end(), 0),
                                         *std::max_element(by_thread.begin(), by_thread.end())}));
}

TEST_F(Cub, ReductionOfSomeThreads) {
  for (const int n : {1, 31, 100, 128}) {
    std::vector<float> in(n);
    std::iota(in.begin(), in.end(), 1.0f);
    const Array<float> din(in), out(1);
    run("cub_reduce_raking", din, out, n);
    EXPECT_EQ(out.get()[0], static_cast<float>(n * (n + 1) / 2));
  }
}

TEST_F(Cub, Scans) {
  const auto in = random_values<int>(kCount, -1000, 1000);
  const Array<int> din(in), inclusive(kCount), exclusive(kCount), total(1);
  run("cub_scan", din, inclusive, exclusive, total);
  std::vector<int> expected(kCount);
  std::inclusive_scan(in.begin(), in.end(), expected.begin());
  EXPECT_EQ(inclusive.get(), expected);
  EXPECT_EQ(total.get()[0], expected.back());
  std::exclusive_scan(in.begin(), in.end(), expected.begin(), 0);
  EXPECT_EQ(exclusive.get(), expected);
}

TEST_F(Cub, RadixSorts) {
  sort("cub_sort", random_bits<int>(kCount), false);
  sort("cub_sort", random_values<int>(kCount, -3, 3), false);
  sort("cub_sort_floats", random_values<float>(kCount, -10, 10), true);
}

TEST_F(Cub, Histogram) {
  auto in = random_bits<std::uint8_t>(kCount);
  for (int i = 0; i < 200; ++i) in[i] = 7;
  const Array<std::uint8_t> din(in);
  const Array<unsigned> bins(256);
  run("cub_histogram", din, bins);
  std::vector<unsigned> expected(256);
  for (std::uint8_t value : in) ++expected[value];
  EXPECT_EQ(bins.get(), expected);
}

TEST_F(Cub, MergeSort) {
  auto keys = random_values<double>(kCount, -1, 1);
  const Array<double> dkeys(keys);
  run("cub_merge_sort", dkeys);
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(dkeys.get(), keys);
}

TEST_F(Cub, Runs) {
  const auto in = random_values<int>(kCount, 0, 2.999);
  const Array<int> din(in), heads(kCount), count(1);
  run("cub_runs", din, heads, count);
  std::vector<int> expected;
  for (int i = 0; i < kCount; ++i) {
    if (i == 0 || in[i] != in[i - 1]) expected.push_back(i);
  }
  EXPECT_EQ(count.get()[0], static_cast<int>(expected.size()));
  expected.resize(kCount);
  EXPECT_EQ(heads.get(), expected);
}

TEST_F(Cub, Warps) {
  const auto in = random_values<int>(kThreads, -50, 50);
  const Array<int> din(in), out(2 * kThreads + kThreads / 16);
  run("cub_warp", din, out);
  std::vector<int> expected(2 * kThreads + kThreads / 16);
  for (int warp = 0; warp < kThreads; warp += 32) {
    std::inclusive_scan(in.begin() + warp, in.begin() + warp + 32, expected.begin() + warp);
    const auto sorted = expected.begin() + kThreads + warp;
    std::copy_n(in.begin() + warp, 32, sorted);
    std::sort(sorted, sorted + 32);
  }
  for (int half = 0; half < kThreads / 16; ++half) {
    expected[2 * kThreads + half] =
        std::accumulate(in.begin() + 16 * half, in.begin() + 16 * half + 16, 0);
  }
  EXPECT_EQ(out.get(), expected);
}

}  // namespace
}  // namespace kiln::emulator_test
