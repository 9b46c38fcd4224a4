#include <bit>

#include "../instructions/exact.h"
#include "values.h"

// Operands are small whole numbers, so that every order of additions gives the same sum.

namespace kiln::emulator_test {
namespace {

/// Bits of a number in a float format, or as an integer of 8 bits.
struct Kind {
  int bytes;
  const Format* format;  // none: an integer
};
const Kind kHalf{2, &kF16}, kBfloat{2, &kBf16}, kTensorFloat{4, &kF32}, kDouble{8, &kF64},
    kByte{1, nullptr}, kFp8{1, &kE4m3}, kFp8Wide{1, &kE5m2}, kFloat{4, &kF32}, kInt{4, nullptr};

std::vector<std::uint8_t> stored(const Kind& kind, const std::vector<int>& values) {
  std::vector<std::uint8_t> bytes(values.size() * kind.bytes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t bits =
        kind.format ? encode(*kind.format, from_integer(values[i]), Rounding::nearest_even)
                    : static_cast<std::uint64_t>(values[i]);
    for (int b = 0; b < kind.bytes; ++b) bytes[i * kind.bytes + b] = bits >> 8 * b & 0xff;
  }
  return bytes;
}

std::vector<double> loaded(const Kind& kind, const std::vector<std::uint8_t>& bytes) {
  std::vector<double> values;
  for (std::size_t i = 0; i < bytes.size(); i += kind.bytes) {
    std::uint64_t bits = 0;
    for (int b = 0; b < kind.bytes; ++b) bits |= std::uint64_t{bytes[i + b]} << 8 * b;
    if (kind.format) {
      const Number number = decode(*kind.format, bits);
      const std::uint64_t wide = encode(kF64, number, Rounding::nearest_even);
      values.push_back(std::bit_cast<double>(wide));
    } else {
      values.push_back(static_cast<std::int32_t>(bits));
    }
  }
  return values;
}

struct Case {
  std::string kernel;
  Kind in, out;
  int m, n, k;
  bool a_rows, b_rows;
  int low = -4, high = 4;
  bool has_depth = true;  // whether the kernel takes k
};

std::vector<int> whole_numbers(std::size_t count, const Case& c, std::uint64_t seed) {
  std::vector<int> values;
  for (const std::uint32_t bits : random_bits<std::uint32_t>(count, seed)) {
    values.push_back(c.low + static_cast<int>(bits % static_cast<unsigned>(c.high - c.low + 1)));
  }
  return values;
}

void expect_product(const Module& module, const Case& c) {
  const auto a = whole_numbers(c.m * c.k, c, 1), b = whole_numbers(c.k * c.n, c, 2);
  const Array<std::uint8_t> da(stored(c.in, a)), db(stored(c.in, b));
  const Array<std::uint8_t> dc(static_cast<std::size_t>(c.m) * c.n * c.out.bytes);
  const Function function = module.function(c.kernel);
  if (c.has_depth) {
    launch(function, {{1}, {32}}, da, db, dc, c.k);
  } else {
    launch(function, {{1}, {32}}, da, db, dc);
  }
  synchronize();
  std::vector<double> expected;
  for (int row = 0; row < c.m; ++row) {
    for (int column = 0; column < c.n; ++column) {
      long long sum = 0;
      for (int i = 0; i < c.k; ++i) {
        const int left = c.a_rows ? a[row * c.k + i] : a[i * c.m + row];
        const int right = c.b_rows ? b[i * c.n + column] : b[column * c.k + i];
        sum += static_cast<long long>(left) * right;
      }
      expected.push_back(static_cast<double>(sum));
    }
  }
  EXPECT_EQ(loaded(c.out, dc.get()), expected) << c.kernel;
}

class TensorCores : public testing::Test {
 protected:
  TensorCores() : module_((use_device(0), kernel_text("tensor_cores.ptx"))) {}
  Module module_;
};

TEST_F(TensorCores, Wmma) {
  expect_product(module_, {"wmma_f16_f32", kHalf, kFloat, 16, 16, 64, true, true});
  expect_product(module_, {"wmma_f16_f16", kHalf, kHalf, 16, 16, 32, true, false});
  expect_product(module_, {"wmma_f16_f32_wide", kHalf, kFloat, 8, 32, 48, false, true});
  expect_product(module_, {"wmma_f16_f32_tall", kHalf, kFloat, 32, 8, 16, true, false});
  expect_product(module_, {"wmma_bf16", kBfloat, kFloat, 16, 16, 32, true, true});
  expect_product(module_, {"wmma_tf32", kTensorFloat, kFloat, 16, 16, 24, true, true});
  expect_product(module_, {"wmma_f64", kDouble, kDouble, 8, 8, 12, true, false, -1000, 1000});
  expect_product(module_, {"wmma_s8", kByte, kInt, 16, 16, 64, true, false, -128, 127});
  expect_product(module_, {"wmma_u8", kByte, kInt, 16, 16, 64, false, true, 0, 255});
}

TEST_F(TensorCores, Mma) {
  const auto mma = [&](const std::string& kernel, Kind in, Kind out, int k, int low, int high) {
    expect_product(module_, {kernel, in, out, 16, 8, k, true, false, low, high, false});
  };
  mma("mma_f16", kHalf, kFloat, 16, -100, 100);
  mma("mma_f16_f16", kHalf, kHalf, 16, -5, 5);
  mma("mma_f16_k8", kHalf, kFloat, 8, -100, 100);
  mma("mma_bf16", kBfloat, kFloat, 16, -100, 100);
  mma("mma_tf32", kTensorFloat, kFloat, 8, -500, 500);
  mma("mma_e4m3", kFp8, kFloat, 32, -8, 8);
  mma("mma_e5m2", kFp8Wide, kFloat, 32, -4, 4);
  mma("mma_s8", kByte, kInt, 32, -128, 127);
  mma("mma_s8_satfinite", kByte, kInt, 32, -128, 127);
}

TEST_F(TensorCores, UnsignedTimesSigned) {
  const auto a = random_bits<std::uint8_t>(16 * 32, 1);
  const auto b = random_bits<std::int8_t>(8 * 32, 2);
  const Array<std::uint8_t> da(a);
  const Array<std::int8_t> db(b);
  const Array<std::int32_t> dc(16 * 8);
  launch(module_.function("mma_u8_s8"), {{1}, {32}}, da, db, dc);
  synchronize();
  std::vector<std::int32_t> expected(16 * 8);
  for (int i = 0; i < 16 * 8 * 32; ++i) {
    expected[i / 32] += a[i / 256 * 32 + i % 32] * b[i / 32 % 8 * 32 + i % 32];
  }
  EXPECT_EQ(dc.get(), expected);
}

TEST_F(TensorCores, LdmatrixFeedsMma) {
  expect_product(module_, {"mma_ldmatrix", kHalf, kFloat, 16, 8, 16, true, true, -100, 100, false});
}

TEST_F(TensorCores, MatricesAreTurned) {
  std::vector<std::uint16_t> matrix(64), turned(64);
  for (int i = 0; i < 64; ++i) {
    matrix[i] = static_cast<std::uint16_t>(i * 257 + 3);
    turned[i % 8 * 8 + i / 8] = matrix[i];
  }
  const Array<std::uint16_t> in(matrix), moved(64), stored_tile(64);
  launch(module_.function("turn"), {{1}, {32}}, in, moved, stored_tile);
  synchronize();
  EXPECT_EQ(moved.get(), turned);
  EXPECT_EQ(stored_tile.get(), turned);
}

}  // namespace
}  // namespace kiln::emulator_test
