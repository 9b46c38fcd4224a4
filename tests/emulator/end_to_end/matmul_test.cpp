#include "values.h"

namespace kiln::emulator_test {
namespace {

/// Small integers as floats: sums are exact in any order.
std::vector<float> whole_numbers(std::size_t count, std::uint64_t seed) {
  std::vector<float> values;
  for (const std::uint32_t bits : random_bits<std::uint32_t>(count, seed)) {
    values.push_back(static_cast<float>(static_cast<int>(bits % 9) - 4));
  }
  return values;
}

std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b, int m, int n,
                           int k) {
  std::vector<float> c(static_cast<std::size_t>(m) * n);
  for (int i = 0; i < m; ++i) {
    for (int p = 0; p < k; ++p) {
      for (int j = 0; j < n; ++j) c[i * n + j] += a[i * k + p] * b[p * n + j];
    }
  }
  return c;
}

TEST(Matmul, TilesInSharedMemory) {
  use_device(0);
  const Module module(kernel_text("matmul.ptx"));
  struct Case {
    int m, n, k;
  };
  for (const auto& [m, n, k] : {Case{1, 1, 1}, {16, 16, 16}, {33, 50, 17}, {64, 48, 100}}) {
    const auto a = whole_numbers(m * k, 1), b = whole_numbers(k * n, 2);
    const Array<float> da(a), db(b), dc(m * n);
    launch(module.function("matmul_tiled"), {{blocks_for(n, 16), blocks_for(m, 16)}, {16, 16}}, da,
           db, dc, m, n, k);
    synchronize();
    EXPECT_EQ(dc.get(), product(a, b, m, n, k)) << m << " " << n << " " << k;
  }
}

TEST(Matmul, TilesInRegisters) {
  use_device(0);
  const Module module(kernel_text("matmul.ptx"));
  for (const int n : {64, 128, 192}) {
    const int k = n / 2;
    const auto a = whole_numbers(n * k, 3), b = whole_numbers(k * n, 4);
    const Array<float> da(a), db(b), dc(n * n);
    launch(module.function("matmul_blocked"), {{n / 64u, n / 64u}, {256}}, da, db, dc, n, k);
    synchronize();
    EXPECT_EQ(dc.get(), product(a, b, n, n, k)) << n;
  }
}

TEST(Matmul, ClangsKernel) {
  use_device(0);
  for (const char* file : {"clang_kernels.ptx", "clang_kernels_debug.ptx"}) {
    const Module module(kernel_text(file));
    const int n = 64;
    const auto a = whole_numbers(n * n, 5), b = whole_numbers(n * n, 6);
    const Array<float> da(a), db(b), dc(n * n);
    launch(module.function("matmul"), {{4, 4}, {16, 16}}, da, db, dc, n);
    synchronize();
    EXPECT_EQ(dc.get(), product(a, b, n, n, n)) << file;
  }
}

}  // namespace
}  // namespace kiln::emulator_test
