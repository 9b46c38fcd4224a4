// Accuracy of the float functions against long double references.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <iostream>
#include <random>

#include "lowering_harness.h"

namespace kiln::compiler::testing {
namespace {

using graph::OpKind;

struct Function {
  const char* name;
  OpKind kind;
  long double (*reference)(long double);
  const char* approximate = "none";
  double bound = 4;
};
void PrintTo(const Function& f, std::ostream* out) { *out << f.name; }

long double normal_cdf(long double x) {
  return 0.5L * std::erfc(-x * 0.707106781186547524400844362104849L);
}
long double sigmoid(long double x) { return 1 / (1 + std::exp(-x)); }
// The limit at −inf is chosen instead of the formula's NaN.
long double silu(long double x) { return x < -11000 ? -0.0L : x * sigmoid(x); }
long double gelu(long double x) { return x * normal_cdf(x); }
long double gelu_tanh(long double x) {
  long double u = 0.7978845608028654L * (x + 0.044715L * x * x * x);
  return x / (1 + std::exp(-2 * u));
}
long double gelu_quick(long double x) { return x * sigmoid(1.702L * x); }

const Function kFunctions[] = {
    {"exp", OpKind::exp, std::exp},
    {"log", OpKind::log, std::log},
    {"rsqrt", OpKind::rsqrt, [](long double x) { return 1 / std::sqrt(x); }},
    {"erf", OpKind::erf, std::erf},
    {"tanh", OpKind::tanh, std::tanh},
    {"sigmoid", OpKind::sigmoid, sigmoid},
    {"silu", OpKind::silu, silu},
    {"gelu", OpKind::gelu, gelu, "none"},
    {"gelu_tanh", OpKind::gelu, gelu_tanh, "tanh"},
    {"gelu_quick", OpKind::gelu, gelu_quick, "quick"},
    {"log1p", OpKind::log1p, std::log1p},
    {"atanh", OpKind::atanh, std::atanh},
    {"acos", OpKind::acos, [](long double x) { return std::acos(x > 1    ? 1
                                                                : x < -1 ? -1
                                                                         : x); }},
    {"sin", OpKind::sin, std::sin},
    {"cos", OpKind::cos, std::cos},
};

template <typename T>
std::vector<T> samples() {
  std::vector<T> x;
  using Limits = std::numeric_limits<T>;
  for (T value : {T(0), T(1), T(0.5), T(2), T(3), T(88.72283), T(88.8), T(709.78), T(745.1), T(104),
                  T(87.3), Limits::min(), Limits::denorm_min(), Limits::max(), Limits::infinity(),
                  Limits::epsilon(), Limits::quiet_NaN()}) {
    x.push_back(value);
    x.push_back(-value);
  }
  std::mt19937_64 random(7);
  for (int i = 0; i < 60000; ++i) {
    if constexpr (sizeof(T) == 4)
      x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
    else
      x.push_back(std::bit_cast<double>(random()));
  }
  auto uniform = [&](double low, double high, int n) {
    std::uniform_real_distribution<double> d(low, high);
    for (int i = 0; i < n; ++i) x.push_back(static_cast<T>(d(random)));
  };
  uniform(-1, 1, 30000);
  uniform(-6, 6, 30000);
  uniform(-6, -1, 60000);
  uniform(-16, 16, 30000);
  uniform(-110, 110, 30000);
  if (sizeof(T) == 8) uniform(-760, 760, 30000);
  while (x.size() % 64) x.push_back(T(1));
  return x;
}

class Functions : public ::testing::TestWithParam<Function> {};

template <typename T>
void check(const Function& f) {
  std::vector<T> x = samples<T>();
  std::vector<long double> expected(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) expected[i] = f.reference(x[i]);
  DType dtype = DType::of<T>();
  for (const std::string& target : runnable_targets()) {
    for (int lanes : lane_counts(target, 32)) {
      Kernel kernel(target, lanes, {dtype}, dtype,
                    [&](Lowering& l, const std::vector<llvm::Value*>& in) {
                      return l.unary(f.kind, in[0], dtype, f.approximate);
                    });
      EXPECT_TRUE(kernel.undefined_symbols().empty()) << kernel.undefined_symbols().front();
      std::vector<T> got(x.size());
      kernel.run({x.data()}, got.data(), static_cast<std::int64_t>(x.size()));
      double worst = 0;
      std::size_t at = 0;
      for (std::size_t i = 0; i < x.size(); ++i)
        if (double u = ulps(got[i], expected[i]); u > worst) worst = u, at = i;
      EXPECT_LE(worst, f.bound) << f.name << " on '" << target << "' with " << lanes
                                << " lanes at x = " << x[at] << ": " << got[at] << " instead of "
                                << expected[at];
      if (std::getenv("KILN_TEST_REPORT"))
        std::cout << f.name << ' ' << dtype.name() << ' ' << target << ' ' << lanes << ": " << worst
                  << " ulp at " << x[at] << '\n';
    }
  }
}

TEST_P(Functions, Float32) { check<float>(GetParam()); }

TEST_P(Functions, CompileWithoutCallsForEveryTarget) {
  const Function& f = GetParam();
  for (const std::string& target : all_targets())
    for (DType dtype : {DType(DType::float16), DType(DType::bfloat16), DType(DType::float32),
                        DType(DType::float64)}) {
      Kernel kernel(target, 16, {dtype}, dtype,
                    [&](Lowering& l, const std::vector<llvm::Value*>& in) {
                      return l.unary(f.kind, in[0], dtype, f.approximate);
                    });
      EXPECT_TRUE(kernel.undefined_symbols().empty())
          << f.name << " of " << dtype.name() << " on '" << target << "' calls "
          << kernel.undefined_symbols().front();
    }
}

template <typename T>
std::vector<long double> values_of_all_codes() {
  std::vector<long double> values(65536);
  for (unsigned code = 0; code < 65536; ++code) {
    if constexpr (std::is_same_v<T, bfloat16>) {
      values[code] = std::bit_cast<float>(code << 16);
    } else {
      int exponent = static_cast<int>(code >> 10 & 31);
      long double m = static_cast<int>(code & 1023) + (exponent ? 1024 : 0);
      long double value = std::ldexp(m, std::max(exponent, 1) - 25);
      if (exponent == 31)
        value = code & 1023 ? std::numeric_limits<long double>::quiet_NaN()
                            : std::numeric_limits<long double>::infinity();
      values[code] = code >> 15 ? -value : value;
    }
  }
  return values;
}

// Halves are computed in float32 and rounded once: the result is the nearest half or, where the
// exact value lies close to the middle of two, its neighbour.
template <typename T>
void check_half(const Function& f) {
  std::vector<std::uint16_t> x(65536);
  for (unsigned code = 0; code < 65536; ++code) x[code] = static_cast<std::uint16_t>(code);
  std::vector<long double> values = values_of_all_codes<T>();
  DType dtype = DType::of<T>();
  int digits = std::is_same_v<T, bfloat16> ? 8 : 11;
  int least = std::is_same_v<T, bfloat16> ? -133 : -24;
  long double above = std::ldexp(1.0L, std::is_same_v<T, bfloat16> ? 128 : 16);
  for (const std::string& target : runnable_targets()) {
    Kernel kernel(target, 16, {dtype}, dtype,
                  [&](Lowering& l, const std::vector<llvm::Value*>& in) {
                    return l.unary(f.kind, in[0], dtype, f.approximate);
                  });
    std::vector<std::uint16_t> got(65536);
    kernel.run({x.data()}, got.data(), 65536);
    for (unsigned code = 0; code < 65536; ++code) {
      long double expected = f.reference(values[code]);
      long double value = values[got[code]];
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(value)) << f.name << " of " << values[code] << " on " << target;
        continue;
      }
      // Beyond the largest half, infinity stands for the next number.
      if (std::isinf(value)) value = std::copysign(above, value);
      if (std::fabs(expected) > above) expected = std::copysign(above, expected);
      int exponent = expected == 0 ? least : std::ilogb(expected) - digits + 1;
      long double unit = std::ldexp(1.0L, std::max(exponent, least));
      ASSERT_LE(std::fabs(value - expected) / unit, 0.51)
          << f.name << " of " << values[code] << " is " << value << " instead of " << expected
          << " on " << target;
    }
  }
}

TEST_P(Functions, Float16) { check_half<float16>(GetParam()); }

TEST_P(Functions, Bfloat16) { check_half<bfloat16>(GetParam()); }

// The reference has the bits to spare that make one rounding of it correct only for float.
TEST(Lowering, SquareRootIsCorrectlyRounded) {
  std::vector<double> x = samples<double>();
  std::vector<double> got(x.size());
  for (const std::string& target : runnable_targets()) {
    Kernel kernel(target, 16, {DType::float64}, DType::float64,
                  [](Lowering& l, const std::vector<llvm::Value*>& in) {
                    return l.unary(OpKind::sqrt, in[0], DType::float64);
                  });
    kernel.run({x.data()}, got.data(), static_cast<std::int64_t>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(ulps(got[i], std::sqrt(x[i])), 0) << x[i];
  }
}

TEST_P(Functions, Float64) { check<double>(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Lowering, Functions, ::testing::ValuesIn(kFunctions),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace kiln::compiler::testing
