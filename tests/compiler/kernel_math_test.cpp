#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "kernel_harness.h"
#include "kiln/support/format.h"

namespace kiln::compiler::kernel_test {
namespace {

using emulator_test::Array;
using Real = long double;

// A function of kiln::gpu, where to try it, and how many units in the last place it may be off on a
// device: what the CUDA C++ Programming Guide says of float and double.
struct Function {
  const char* name;
  std::function<Real(Real, Real)> exact;
  double low, high;
  double float_units, double_units;
  bool two = false;
};

#define ONE(name) #name, [](Real x, Real) { return std::name(x); }
#define TWO(name) #name, [](Real x, Real y) { return std::name(x, y); }

const std::vector<Function>& functions() {
  static const std::vector<Function> all = {
      {ONE(exp), -106, 100, 1, 1},
      {ONE(exp2), -151, 130, 2, 1},
      {ONE(expm1), -20, 90, 1, 1},
      {ONE(log), 0, 1e6, 1, 1},
      {ONE(log2), 0, 1e6, 1, 1},
      {ONE(log10), 0, 1e6, 2, 1},
      {ONE(log1p), -1, 1e3, 1, 1},
      {ONE(sqrt), 0, 1e9, 0, 0},
      {"rsqrt", [](Real x, Real) { return 1 / std::sqrt(x); }, 0, 1e9, 2, 1},
      {ONE(cbrt), -1e6, 1e6, 1, 1},
      {ONE(sin), -200, 200, 2, 2},
      {ONE(cos), -200, 200, 2, 2},
      {ONE(tan), -200, 200, 4, 2},
      {ONE(sin), -1e8, 1e8, 2, 2},
      {ONE(cos), -1e8, 1e8, 2, 2},
      {ONE(tan), -1e8, 1e8, 4, 2},
      {ONE(asin), -1, 1, 2, 2},
      {ONE(acos), -1, 1, 2, 2},
      {ONE(atan), -50, 50, 2, 2},
      {ONE(sinh), -80, 80, 3, 2},
      {ONE(cosh), -80, 80, 2, 1},
      {ONE(tanh), -10, 10, 2, 1},
      {ONE(asinh), -1e4, 1e4, 3, 3},
      {ONE(acosh), 1, 1e4, 4, 3},
      {ONE(atanh), -1, 1, 3, 2},
      {ONE(erf), -4, 4, 2, 2},
      {ONE(erfc), -4, 9, 4, 5},
      {ONE(tgamma), -30, 34, 5, 10},
      {ONE(lgamma), 0.01, 1e4, 6, 4},
      {ONE(floor), -100, 100, 0, 0},
      {ONE(ceil), -100, 100, 0, 0},
      {ONE(round), -100, 100, 0, 0},
      {ONE(trunc), -100, 100, 0, 0},
      {ONE(rint), -100, 100, 0, 0},
      {"abs", [](Real x, Real) { return std::fabs(x); }, -100, 100, 0, 0},
      {TWO(pow), 0.01, 30, 4, 2, true},
      {TWO(hypot), -1e3, 1e3, 3, 2, true},
      {TWO(atan2), -10, 10, 3, 2, true},
      {TWO(fmod), -100, 100, 0, 0, true},
      {TWO(copysign), -100, 100, 0, 0, true},
      {"min", [](Real x, Real y) { return std::fmin(x, y); }, -100, 100, 0, 0, true},
      {"max", [](Real x, Real y) { return std::fmax(x, y); }, -100, 100, 0, 0, true},
  };
  return all;
}

std::string source(const char* type, const Function& function) {
  return format(
      "__global__ void f({0}* out, const {0}* x, const {0}* y, int n) {{\n"
      "  int i = global_idx.x;\n"
      "  if (i < n) out[i] = {1}(x[i]{2});\n"
      "}}\n",
      type, function.name, function.two ? ", y[i]" : "");
}

template <class T>
std::vector<T> inputs(double low, double high, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> values;
  for (int i = 0; i < 4000; ++i) {
    // Half of them evenly, half of them of all sizes.
    const double u = std::uniform_real_distribution<>(0, 1)(random);
    double value = low + u * (high - low);
    if (i % 2) value = (low < 0 && u < 0.5 ? low : high) * std::exp2(-20 * u);
    if (value < low || value > high) value = high;
    values.push_back(static_cast<T>(value));
  }
  return values;
}

// How far `value` is from what is exact, in units of the last place of the exact value.
template <class T>
double units_off(T value, Real exact) {
  const T rounded = static_cast<T>(exact);
  if (std::memcmp(&value, &rounded, sizeof(T)) == 0 || value == rounded ||
      (std::isnan(value) && std::isnan(rounded)))
    return 0;
  if (!std::isfinite(rounded) || !std::isfinite(value)) return 1e30;
  const Real unit = std::max<Real>(
      std::nextafter(std::fabs(rounded), std::numeric_limits<T>::infinity()) - std::fabs(rounded),
      std::numeric_limits<T>::denorm_min());
  return static_cast<double>(std::fabs(value - exact) / unit);
}

template <class T>
class KernelMath : public testing::Test {
 protected:
  static constexpr const char* kType = sizeof(T) == 4 ? "float" : "double";

  static void check(const Function& function, const char* where, const std::vector<T>& x,
                    const std::vector<T>& y, const std::vector<T>& out, double limit) {
    double worst = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double off = units_off<T>(out[i], function.exact(x[i], y[i]));
      if (off > worst) worst = off, at = i;
    }
    if (std::getenv("KILN_SHOW_UNITS"))
      printf("%-10s %-7s %-7s %.3g\n", function.name, kType, where, worst);
    // A correct rounding is off by half a unit.
    EXPECT_LE(worst, limit + 0.5) << function.name << " of " << kType << " " << where << " at "
                                  << format("{:.17g}, {:.17g}", x[at], y[at]) << ": "
                                  << format("{:.17g}", out[at]);
  }
};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(KernelMath, Reals);

TYPED_TEST(KernelMath, IsExactEnoughOnDevices) {
  using T = TypeParam;
  for (const Function& function : functions()) {
    const auto x = inputs<T>(function.low, function.high, 1);
    const auto y = inputs<T>(function.low, function.high, 2);
    const int n = static_cast<int>(x.size());
    DeviceKernel kernel("f", source(this->kType, function));
    const Array<T> out(x.size());
    kernel.launch({static_cast<unsigned>(n + 127) / 128}, {128}, 0, out, Array<T>(x), Array<T>(y),
                  n);
    this->check(function, "device", x, y, out.get(),
                sizeof(T) == 4 ? function.float_units : function.double_units);
  }
}

TYPED_TEST(KernelMath, IsExactEnoughOnTheHost) {
  using T = TypeParam;
  for (const Function& function : functions()) {
    const auto x = inputs<T>(function.low, function.high, 1);
    const auto y = inputs<T>(function.low, function.high, 2);
    const int n = static_cast<int>(x.size());
    std::vector<T> out(x.size());
    T* to = out.data();
    const T *from = x.data(), *other = y.data();
    HostKernel("f", source(this->kType, function))
        .launch({static_cast<unsigned>(n + 127) / 128}, {128}, 0, to, from, other, n);
    // That of the C library.
    this->check(function, "host", x, y, out, 5);
  }
}

}  // namespace
}  // namespace kiln::compiler::kernel_test
