#include <cmath>
#include <functional>
#include <limits>

#include "values.h"

// libdevice's functions against those of the host in long double. Bounds are those that the CUDA
// programming guide lists: how many numbers a result may lie from the correctly rounded one.

namespace kiln::emulator_test {
namespace {

using Real = long double;
using Unary = Real (*)(Real);
using Binary = Real (*)(Real, Real);

template <class T>
void expect_within(const std::vector<Real>& exact, const std::vector<T>& found, double ulps,
                   const std::string& name, const std::function<std::string(std::size_t)>& input) {
  int wrong = 0;
  for (std::size_t i = 0; i < exact.size() && wrong < 4; ++i) {
    const Real e = exact[i], f = found[i];
    const T rounded = static_cast<T>(e);
    if (std::isnan(e) ? std::isnan(f) : static_cast<Real>(rounded) == f) continue;
    // The distance between numbers near the exact result.
    int exponent = 0;
    std::frexp(std::fabs(e), &exponent);
    exponent = std::max(exponent, std::numeric_limits<T>::min_exponent);
    const Real unit = std::ldexp(Real{1}, exponent - std::numeric_limits<T>::digits);
    if (std::isfinite(f) && std::fabs(rounded - f) <= static_cast<Real>(ulps) * unit) continue;
    ADD_FAILURE() << name << "(" << input(i) << "): expected " << static_cast<double>(e)
                  << ", found " << static_cast<double>(f);
    ++wrong;
  }
}

template <class T>
std::vector<T> arguments(double low, double high, std::uint64_t seed) {
  auto values = random_values<T>(1000, low, high, seed);
  for (double special :
       {0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 10.0, -3.0, HUGE_VAL, -HUGE_VAL, std::nan(""), 1e-30,
        -1e-30, 1e30, 1e-40, 88.5, -104.0, 709.0, 3.14159265358979}) {
    values.push_back(static_cast<T>(special));
  }
  return values;
}

class Math : public testing::Test {
 protected:
  Math() : module_((use_device(0), kernel_text("math.ptx"))) {}

  template <class T>
  void unary(const std::string& name, const std::string& kernel, Unary exact, double low,
             double high, double ulps) {
    const auto in = arguments<T>(low, high, 1);
    const Array<T> din(in), out(in.size());
    launch(module_.function(kernel), {{blocks_for(in.size(), 128)}, {128}}, din, out,
           static_cast<int>(in.size()));
    synchronize();
    std::vector<Real> expected;
    for (T x : in) expected.push_back(exact(x));
    expect_within(expected, out.get(), ulps, name,
                  [&](std::size_t i) { return testing::PrintToString(in[i]); });
  }

  void both(const std::string& name, Unary exact, double low, double high, double float_ulps,
            double double_ulps) {
    unary<float>(name, name + "_f", exact, low, high, float_ulps);
    unary<double>(name, name + "_d", exact, low, high, double_ulps);
  }

  template <class T>
  void binary(const std::string& name, const std::string& kernel, Binary exact, double low,
              double high, double ulps) {
    std::vector<T> a, b;
    const auto left = arguments<T>(low, high, 2), right = arguments<T>(low, high, 3);
    for (std::size_t i = 0; i < left.size(); ++i) {
      a.push_back(left[i]);
      b.push_back(right[(i * 7 + 3) % right.size()]);
    }
    const Array<T> da(a), db(b), out(a.size());
    launch(module_.function(kernel), {{blocks_for(a.size(), 128)}, {128}}, da, db, out,
           static_cast<int>(a.size()));
    synchronize();
    std::vector<Real> expected;
    for (std::size_t i = 0; i < a.size(); ++i) expected.push_back(exact(a[i], b[i]));
    expect_within(expected, out.get(), ulps, name, [&](std::size_t i) {
      return testing::PrintToString(a[i]) + ", " + testing::PrintToString(b[i]);
    });
  }

  void both(const std::string& name, Binary exact, double low, double high, double float_ulps,
            double double_ulps) {
    binary<float>(name, name + "_f", exact, low, high, float_ulps);
    binary<double>(name, name + "_d", exact, low, high, double_ulps);
  }

  Module module_;
};

TEST_F(Math, Trigonometry) {
  both("sine", Unary(std::sin), -100, 100, 2, 2);
  both("cosine", Unary(std::cos), -100, 100, 2, 2);
  both("tangent", Unary(std::tan), -100, 100, 4, 2);
  both("arcsine", Unary(std::asin), -1, 1, 4, 2);
  both("arctangent", Unary(std::atan), -50, 50, 2, 2);
  both("arctangent_of_two", Binary(std::atan2), -10, 10, 3, 2);
}

TEST_F(Math, LargeArgumentsOfTrigonometry) {
  both("sine", Unary(std::sin), -1e7, 1e7, 2, 2);
  both("cosine", Unary(std::cos), -1e9, 1e9, 2, 2);
}

TEST_F(Math, Exponentials) {
  both("exponential", Unary(std::exp), -110, 90, 2, 1);
  both("exponential", Unary(std::exp), -750, 710, 2, 1);
  both("exponential_minus_one", Unary(std::expm1), -5, 5, 2, 1);
  both("power_of_two", Unary(std::exp2), -150, 128, 2, 1);
  both("hyperbolic_sine", Unary(std::sinh), -20, 20, 3, 2);
  both("hyperbolic_tangent", Unary(std::tanh), -10, 10, 2, 2);
}

TEST_F(Math, Logarithms) {
  both("logarithm", Unary(std::log), 0, 100, 1, 1);
  both("logarithm_of_two", Unary(std::log2), 0, 1e6, 1, 1);
  both("logarithm_plus_one", Unary(std::log1p), -1, 10, 1, 1);
}

TEST_F(Math, Powers) {
  both("power", Binary(std::pow), 0, 20, 4, 2);
  both("power", Binary(std::pow), -5, 5, 4, 2);
  // Exact, but the reference is rounded twice: to long double, then to double.
  both("root", Unary(std::sqrt), 0, 1000, 0, 1);
  both("cube_root", Unary(std::cbrt), -1000, 1000, 1, 1);
  both("reciprocal_root", [](Real x) { return 1 / std::sqrt(x); }, 0, 1000, 2, 1);
  both("hypotenuse", Binary(std::hypot), -1000, 1000, 3, 2);
}

TEST_F(Math, SpecialFunctions) {
  both("error_function", Unary(std::erf), -4, 4, 2, 2);
  both("error_complement", Unary(std::erfc), -5, 9, 4, 5);
  both("gamma_function", Unary(std::tgamma), 0.1, 30, 5, 10);
  // Near its zeros the bound is absolute; above 3 it is not near one.
  both("gamma_logarithm", Unary(std::lgamma), 3, 100, 6, 4);
}

TEST_F(Math, Rounding) {
  both("round_even", Unary(std::nearbyint), -100, 100, 0, 0);
  both("round_away", Unary(std::round), -100, 100, 0, 0);
  both("ceiling", Unary(std::ceil), -100, 100, 0, 0);
  both("remainder_of", Binary(std::fmod), -100, 100, 0, 0);
  both("division", [](Real a, Real b) { return a / b; }, -100, 100, 0, 1);
}

}  // namespace
}  // namespace kiln::emulator_test
