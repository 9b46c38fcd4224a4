#include <algorithm>
#include <array>

#include "values.h"

namespace kiln::emulator_test {
namespace {

/// The same kernels as optimised PTX, with -G and with -lineinfo.
class Language : public testing::TestWithParam<const char*> {
 protected:
  Language() : module_((use_device(0), kernel_text(GetParam()))) {}
  Function kernel(const std::string& name) const { return module_.function(name); }
  Module module_;
};
std::string build_name(const testing::TestParamInfo<const char*>& info) {
  constexpr std::array kNames = {"Optimised", "Debug", "Lines"};
  return kNames[info.index];
}
INSTANTIATE_TEST_SUITE_P(Builds, Language,
                         testing::Values("language.ptx", "language_debug.ptx",
                                         "language_lineinfo.ptx"),
                         build_name);

TEST_P(Language, Printf) {
  const std::string word = "word";
  const Array<char> text(std::vector<char>(word.c_str(), word.c_str() + 5));
  testing::internal::CaptureStdout();
  launch(kernel("print_lines"), {{1}, {4}}, 2, 2.71828, text);
  synchronize();
  const std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_EQ(printed,
            "thread 0 of 4: word 2.718 a -5000000000 beef %\n"
            "thread 1 of 4: word 2.718 b -5000000000 beef %\n");
}

TEST_P(Language, Recursion) {
  const Array<unsigned> out(16);
  launch(kernel("recursion"), {{1}, {16}}, out);
  synchronize();
  std::vector<unsigned> expected = {0, 1};
  while (expected.size() < 16) expected.push_back(expected.end()[-1] + expected.end()[-2]);
  EXPECT_EQ(out.get(), expected);
}

int descend(int depth, int* total) {
  if (depth == 0) return *total;
  *total += depth * 4 + depth % 4;
  return descend(depth - 1, total) + depth * 4 + (depth + 1) % 4;
}

TEST_P(Language, RecursionWithMemoryOfEachLevel) {
  const Array<int> out(64);
  launch(kernel("recursion_memory"), {{1}, {64}}, out);
  synchronize();
  std::vector<int> expected;
  for (int thread = 0; thread < 64; ++thread) {
    int total = 0;
    const int below = descend(thread % 17, &total);
    expected.push_back(below * 1000 + total);
  }
  EXPECT_EQ(out.get(), expected);
}

TEST_P(Language, RecursionThatMeetsAtBarriers) {
  for (const int depth : {0, 1, 5}) {
    const Array<int> out(128);
    launch(kernel("recursion_barrier"), {{1}, {128}}, out, depth);
    synchronize();
    std::vector<int> expected;
    const int added = depth * (depth + 1) / 2;
    for (int thread = 0; thread < 128; ++thread) expected.push_back((thread + 1) % 128 + 2 * added);
    EXPECT_EQ(out.get(), expected) << depth;
  }
}

TEST_P(Language, IndirectCalls) {
  const std::vector<int> which = {0, 1, 2, 3, 0, 2};
  const Array<int> dwhich(which), out(32);
  launch(kernel("indirect_calls"), {{1}, {32}}, dwhich, out, 6);
  synchronize();
  std::vector<int> expected;
  for (int thread = 0; thread < 32; ++thread) {
    unsigned value = thread + 1;
    for (int step : which) {
      switch (step ^ (thread & 1)) {
        case 0:
          value += 1;
          break;
        case 1:
          value *= 2;
          break;
        case 2:
          value *= value;
          break;
        default:
          value = -value;
      }
    }
    expected.push_back(static_cast<int>(value));
  }
  EXPECT_EQ(out.get(), expected);
}

TEST_P(Language, IndirectCallsThatMeetAtBarriers) {
  for (const int which : {0, 1}) {
    const Array<int> out(96);
    launch(kernel("indirect_barrier"), {{1}, {96}}, out, which);
    synchronize();
    std::vector<int> expected;
    for (int thread = 0; thread < 96; ++thread) expected.push_back(2 * thread + 1 + 48);
    EXPECT_EQ(out.get(), expected) << which;
  }
}

TEST_P(Language, VirtualCalls) {
  const Array<float> out(20);
  launch(kernel("virtual_calls"), {{1}, {20}}, out);
  synchronize();
  std::vector<float> expected;
  for (int i = 0; i < 20; ++i) expected.push_back(static_cast<float>(i * i * (i % 2 ? 3 : 1)));
  EXPECT_EQ(out.get(), expected);
}

TEST_P(Language, InitialisedVariables) {
  const Array<double> out(12);
  launch(kernel("variables"), {{1}, {1}}, out);
  synchronize();
  std::vector<double> expected = {7, 0.5, -6, 1.0f / 3, 'n', 99, -5, 'k', 2.25, 3, 3, 0};
  EXPECT_EQ(out.get(), expected);
  // The kernel left 100 and 5 behind.
  launch(kernel("variables"), {{1}, {1}}, out);
  synchronize();
  expected[5] = 100;
  expected[11] = 5;
  EXPECT_EQ(out.get(), expected);
  const auto [address, bytes] = module_.global("zeros");
  std::vector<int> zeros(5);
  ASSERT_EQ(bytes, 20u);
  check(driver().copy_to_host(zeros.data(), address, bytes), "Reading a variable");
  EXPECT_EQ(zeros, (std::vector<int>{0, 0, 0, 0, 5}));
}

TEST_P(Language, VariablesBelongToAModuleAndADevice) {
  const Module other(kernel_text(GetParam()));
  const Array<double> out(12);
  launch(kernel("variables"), {{1}, {1}}, out);
  launch(other.function("variables"), {{1}, {1}}, out);
  synchronize();
  EXPECT_EQ(out.get()[5], 99);
}

TEST_P(Language, LocalArrays) {
  const std::vector<int> places = {3, 63, 0, 17, 3, 42, 8, 63};
  const Array<int> dplaces(places), out(40);
  launch(kernel("local_array"), {{1}, {40}}, dplaces, out, 8);
  synchronize();
  std::vector<int> expected;
  for (int thread = 0; thread < 40; ++thread) {
    std::array<int, 64> values;
    for (int i = 0; i < 64; ++i) values[i] = i * thread;
    for (int i = 0; i < 8; ++i) values[places[i]] += values[places[(i + 1) % 8]];
    int sum = 0;
    for (int i = 0; i < 64; ++i) sum += values[i] * (i + 1);
    expected.push_back(sum);
  }
  EXPECT_EQ(out.get(), expected);
}

TEST_P(Language, DynamicSharedMemory) {
  // More than 48 KiB must be asked for.
  for (const int doubles : {1, 100, 4000, 20000}) {
    const unsigned bytes = doubles * 10;
    const auto in = random_values<double>(doubles, 0, 1);
    const Array<double> din(in), out(doubles);
    if (bytes > 48 * 1024) {
      check(driver().set_function_attribute(kernel("dynamic_shared"), 8, static_cast<int>(bytes)),
            "Asking for shared memory");
    }
    launch(kernel("dynamic_shared"), {{1}, {128}, bytes}, din, out, doubles);
    synchronize();
    std::vector<double> expected;
    for (int i = 0; i < doubles; ++i) {
      expected.push_back(in[doubles - 1 - i] + static_cast<short>(doubles - 1 - i));
    }
    EXPECT_EQ(out.get(), expected) << doubles;
  }
}

TEST_P(Language, Switches) {
  std::vector<int> in;
  for (int i = -2; i < 14; ++i) in.push_back(i);
  const Array<int> din(in), out(in.size());
  launch(kernel("choices"), {{1}, {16}}, din, out);
  synchronize();
  const std::vector<int> expected = {-1,     -1, 7,  4,  8,  -3, 4 ^ 0x55, 166,
                                     6 << 9, -1, -1, 11, -1, -1, -1,       -1};
  EXPECT_EQ(out.get(), expected);
}

TEST_P(Language, Divergence) {
  std::vector<unsigned> in;
  for (unsigned i = 0; i < 32; ++i) in.push_back(1 + i * 27);
  const Array<unsigned> din(in), out(32);
  launch(kernel("divergence"), {{1}, {32}}, din, out);
  synchronize();
  std::vector<unsigned> counts;
  for (unsigned x : in) {
    unsigned count = 0;
    for (; x != 1; ++count) x = x % 2 == 0 ? x / 2 : 3 * x + 1;
    counts.push_back(count);
  }
  const unsigned most = *std::max_element(counts.begin(), counts.end());
  for (unsigned& count : counts) count |= most << 16;
  EXPECT_EQ(out.get(), counts);
}

TEST_P(Language, StructuresByValue) {
  std::vector<std::array<int, 20>> in(8), expected(8);
  for (int thread = 0; thread < 8; ++thread) {
    for (int i = 0; i < 20; ++i) in[thread][i] = thread * 100 + i;
    for (int i = 0; i < 20; ++i) {
      expected[thread][i] = in[thread][(i + 3 + thread) % 20] + 3 + thread;
    }
  }
  const Array<std::array<int, 20>> din(in), out(8);
  launch(kernel("structures"), {{1}, {8}}, din, out, 3);
  synchronize();
  EXPECT_EQ(out.get(), expected);
}

TEST_P(Language, MemoryOnTheStack) {
  for (const int count : {0, 1, 10, 100}) {
    const Array<int> out(20);
    launch(kernel("allocate_local"), {{1}, {20}}, out, count);
    synchronize();
    std::vector<int> expected;
    for (int thread = 0; thread < 20; ++thread) {
      unsigned sum = 0;
      for (int i = count - 1; i >= 0; --i) sum = sum * 3 + i + thread;
      expected.push_back(static_cast<int>(sum));
    }
    EXPECT_EQ(out.get(), expected) << count;
  }
}

}  // namespace
}  // namespace kiln::emulator_test
