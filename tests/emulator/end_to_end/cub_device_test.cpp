#include <algorithm>
#include <numeric>

#include "values.h"

namespace kiln::emulator_test {
namespace {

/// How to launch CUB's kernels: what the module says.
struct Shapes {
  struct {
    int threads, elements;
  } reduce, scan, select;
  int histogram_threads, digit_bits;
  struct {
    int threads, elements;
  } pass;
};

class CubDevice : public testing::TestWithParam<int> {
 protected:
  CubDevice() : module_((use_device(0), kernel_text("cub_device.ptx"))) {
    const auto [address, bytes] = module_.global("cub_shapes");
    EXPECT_EQ(bytes, sizeof shapes_);
    check(driver().copy_to_host(&shapes_, address, sizeof shapes_), "Reading the shapes");
  }
  Function kernel(const std::string& name) const { return module_.function(name); }

  /// Memory for what blocks tell each other, prepared for `tiles` of them.
  Array<std::uint64_t> tile_states(unsigned tiles) const {
    Array<std::uint64_t> memory(2 * tiles + 1024);
    launch(kernel("device_scan_begin"), {{blocks_for(tiles, 128)}, {128}}, memory,
           static_cast<int>(tiles));
    return memory;
  }

  Module module_;
  Shapes shapes_{};
};
INSTANTIATE_TEST_SUITE_P(Counts, CubDevice, testing::Values(1, 100, 5000, 60001),
                         testing::PrintToStringParamName());

TEST_P(CubDevice, Reduce) {
  const int count = GetParam();
  const auto in = random_values<int>(count, -1000, 1000);
  const Array<int> din(in), parts(7), out(1);
  const auto threads = static_cast<unsigned>(shapes_.reduce.threads);
  launch(kernel("device_reduce"), {{7}, {threads}}, din, parts, static_cast<unsigned>(count));
  launch(kernel("device_reduce"), {{1}, {threads}}, parts, out, 7u);
  synchronize();
  EXPECT_EQ(out.get()[0], std::accumulate(in.begin(), in.end(), 0));
}

TEST_P(CubDevice, ExclusiveScan) {
  const int count = GetParam();
  const auto in = random_values<int>(count, -1000, 1000);
  const unsigned tiles = blocks_for(count, shapes_.scan.elements);
  const Array<int> din(in), out(count);
  const auto states = tile_states(tiles);
  launch(kernel("device_scan"), {{tiles}, {static_cast<unsigned>(shapes_.scan.threads)}}, din, out,
         states, static_cast<unsigned>(count));
  synchronize();
  std::vector<int> expected(count);
  std::exclusive_scan(in.begin(), in.end(), expected.begin(), 0);
  EXPECT_EQ(out.get(), expected);
}

TEST_P(CubDevice, Select) {
  const int count = GetParam();
  const auto in = random_bits<int>(count);
  const unsigned tiles = blocks_for(count, shapes_.select.elements);
  const Array<int> din(in), out(count), selected(1);
  const auto states = tile_states(tiles);
  launch(kernel("device_select"), {{tiles}, {static_cast<unsigned>(shapes_.select.threads)}}, din,
         out, selected, states, count);
  synchronize();
  std::vector<int> expected;
  for (int value : in) {
    if (value & 1) expected.push_back(value);
  }
  EXPECT_EQ(selected.get()[0], static_cast<int>(expected.size()));
  expected.resize(count);
  EXPECT_EQ(out.get(), expected);
}

TEST_P(CubDevice, RadixSort) {
  const int count = GetParam(), digits = 1 << shapes_.digit_bits;
  const int passes = (32 + shapes_.digit_bits - 1) / shapes_.digit_bits;
  const auto keys = random_bits<unsigned>(count);
  std::vector<unsigned> values(count);
  std::iota(values.begin(), values.end(), 0u);
  const Array<unsigned> first_keys(keys), first_values(values), other_keys(count),
      other_values(count), bins(passes * digits);
  launch(kernel("device_sort_histogram"), {{5}, {static_cast<unsigned>(shapes_.histogram_threads)}},
         bins, first_keys, static_cast<unsigned>(count));
  launch(kernel("device_sort_sums"), {{static_cast<unsigned>(passes)}, {256}}, bins);
  const unsigned blocks = blocks_for(count, shapes_.pass.elements);
  for (int pass = 0; pass < passes; ++pass) {
    const Array<int> lookback(blocks * digits), counter(1);
    const bool forth = pass % 2 == 0;
    const int bit = pass * shapes_.digit_bits;
    launch(kernel("device_sort_pass"), {{blocks}, {static_cast<unsigned>(shapes_.pass.threads)}},
           lookback, counter, bins.address() + 4u * pass * digits, forth ? other_keys : first_keys,
           forth ? first_keys : other_keys, forth ? other_values : first_values,
           forth ? first_values : other_values, count, bit, std::min(32 - bit, shapes_.digit_bits));
    synchronize();
  }
  std::sort(values.begin(), values.end(),
            [&](unsigned a, unsigned b) { return std::pair(keys[a], a) < std::pair(keys[b], b); });
  EXPECT_EQ(passes % 2 ? other_values.get() : first_values.get(), values);
}

}  // namespace
}  // namespace kiln::emulator_test
