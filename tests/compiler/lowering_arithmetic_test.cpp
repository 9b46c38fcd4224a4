// Integer and float arithmetic, comparison, remainders and powers against their definitions.

#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "lowering_harness.h"

namespace kiln::compiler::testing {
namespace {

using graph::OpKind;

template <typename T, typename Out = T>
std::vector<Out> run_binary(const std::string& target, int lanes, OpKind kind,
                            const std::vector<T>& x, const std::vector<T>& y,
                            DType out = DType::of<Out>()) {
  DType dtype = DType::of<T>();
  Kernel kernel(target, lanes, {dtype, dtype}, out,
                [&](Lowering& l, const std::vector<llvm::Value*>& in) {
                  return l.binary(kind, in[0], in[1], dtype);
                });
  EXPECT_TRUE(kernel.undefined_symbols().empty()) << kernel.undefined_symbols().front();
  std::vector<Out> result(x.size());
  kernel.run({x.data(), y.data()}, result.data(), static_cast<std::int64_t>(x.size()));
  return result;
}

template <typename T>
std::vector<T> run_unary(const std::string& target, int lanes, OpKind kind,
                         const std::vector<T>& x) {
  DType dtype = DType::of<T>();
  Kernel kernel(target, lanes, {dtype}, dtype,
                [&](Lowering& l, const std::vector<llvm::Value*>& in) {
                  return l.unary(kind, in[0], dtype);
                });
  EXPECT_TRUE(kernel.undefined_symbols().empty()) << kernel.undefined_symbols().front();
  std::vector<T> result(x.size());
  kernel.run({x.data()}, result.data(), static_cast<std::int64_t>(x.size()));
  return result;
}

template <typename T>
T reference_mod(T x, T y) {
  if (y == 0) return 0;
  auto a = static_cast<__int128>(x);
  auto d = static_cast<__int128>(y);
  __int128 r = a % d;
  if (r != 0 && (r < 0) != (d < 0)) r += d;
  return static_cast<T>(r);
}

template <typename T>
T reference_power(T x, T y) {
  if (y < 0) return x == 1 ? T(1) : x == static_cast<T>(-1) ? ((y & 1) ? T(-1) : T(1)) : T(0);
  std::uint64_t result = 1;
  auto base = static_cast<std::uint64_t>(x);
  for (auto n = static_cast<std::uint64_t>(y); n; n >>= 1, base *= base)
    if (n & 1) result *= base;
  return static_cast<T>(result);
}

template <typename T>
class Integers : public ::testing::Test {};
using IntegerTypes = ::testing::Types<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t,
                                      std::int32_t, std::uint32_t, std::int64_t, std::uint64_t>;
TYPED_TEST_SUITE(Integers, IntegerTypes);

template <typename T>
std::pair<std::vector<T>, std::vector<T>> integer_pairs() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> special = {0,
                            1,
                            2,
                            3,
                            7,
                            static_cast<T>(-1),
                            static_cast<T>(-2),
                            Limits::max(),
                            Limits::min(),
                            static_cast<T>(Limits::max() - 1),
                            static_cast<T>(Limits::min() + 1)};
  std::vector<T> x;
  std::vector<T> y;
  for (T a : special)
    for (T c : special) x.push_back(a), y.push_back(c);
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    x.push_back(static_cast<T>(static_cast<T>(random()) >> (i % 3 * sizeof(T) * 2)));
    y.push_back(
        static_cast<T>(static_cast<T>(random()) >> (i % 5 * sizeof(T) * 2 % (sizeof(T) * 8))));
  }
  if (sizeof(T) == 1) {
    x.clear();
    y.clear();
    for (int i = 0; i < 65536; ++i)
      x.push_back(static_cast<T>(i)), y.push_back(static_cast<T>(i >> 8));
  }
  while (x.size() % 32) x.push_back(5), y.push_back(3);
  return {x, y};
}

TYPED_TEST(Integers, Arithmetic) {
  using T = TypeParam;
  using U = std::make_unsigned_t<T>;
  auto [x, y] = integer_pairs<T>();
  auto wrap = [](auto a, auto c, auto f) {
    return static_cast<T>(f(static_cast<std::uint64_t>(static_cast<U>(a)),
                            static_cast<std::uint64_t>(static_cast<U>(c))));
  };
  for (const std::string& target : runnable_targets())
    for (int lanes : lane_counts(target, 32)) {
      auto add = run_binary(target, lanes, OpKind::add, x, y);
      auto sub = run_binary(target, lanes, OpKind::sub, x, y);
      auto mul = run_binary(target, lanes, OpKind::mul, x, y);
      auto mod = run_binary(target, lanes, OpKind::mod, x, y);
      auto pow = run_binary(target, lanes, OpKind::pow, x, y);
      auto max = run_binary(target, lanes, OpKind::max, x, y);
      auto min = run_binary(target, lanes, OpKind::min, x, y);
      auto greater =
          run_binary<T, std::uint8_t>(target, lanes, OpKind::greater, x, y, DType::bool_);
      auto at_least =
          run_binary<T, std::uint8_t>(target, lanes, OpKind::greater_equal, x, y, DType::bool_);
      auto equal = run_binary<T, std::uint8_t>(target, lanes, OpKind::equal, x, y, DType::bool_);
      auto abs = run_unary(target, lanes, OpKind::abs, x);
      auto negate = run_unary(target, lanes, OpKind::negate, x);
      auto relu = run_unary(target, lanes, OpKind::relu, x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(add[i], wrap(x[i], y[i], std::plus<>()));
        ASSERT_EQ(sub[i], wrap(x[i], y[i], std::minus<>()));
        ASSERT_EQ(mul[i], wrap(x[i], y[i], std::multiplies<>()));
        ASSERT_EQ(mod[i], reference_mod(x[i], y[i])) << +x[i] << " mod " << +y[i] << ' ' << target;
        ASSERT_EQ(pow[i], reference_power(x[i], y[i])) << +x[i] << " ^ " << +y[i] << ' ' << target;
        ASSERT_EQ(max[i], std::max(x[i], y[i]));
        ASSERT_EQ(min[i], std::min(x[i], y[i]));
        ASSERT_EQ(greater[i], x[i] > y[i]);
        ASSERT_EQ(at_least[i], x[i] >= y[i]);
        ASSERT_EQ(equal[i], x[i] == y[i]);
        ASSERT_EQ(abs[i], x[i] < 0 ? static_cast<T>(U(0) - static_cast<U>(x[i])) : x[i]);
        ASSERT_EQ(negate[i], static_cast<T>(U(0) - static_cast<U>(x[i])));
        ASSERT_EQ(relu[i], std::max(x[i], T(0)));
      }
    }
}

template <typename T>
class Floats : public ::testing::Test {};
using FloatTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Floats, FloatTypes);

template <typename T>
std::pair<std::vector<T>, std::vector<T>> float_pairs() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> special = {0,
                            1,
                            2,
                            3,
                            T(0.5),
                            T(2.5),
                            T(1.5),
                            T(7.25),
                            Limits::max(),
                            Limits::min(),
                            Limits::denorm_min(),
                            Limits::infinity(),
                            Limits::quiet_NaN(),
                            T(1) + Limits::epsilon(),
                            T(5e6),
                            T(8388609)};
  std::size_t n = special.size();
  for (std::size_t i = 0; i < n; ++i) special.push_back(-special[i]);
  std::vector<T> x;
  std::vector<T> y;
  for (T a : special)
    for (T c : special) x.push_back(a), y.push_back(c);
  std::mt19937_64 random(2);
  for (int i = 0; i < 20000; ++i) {
    std::uint64_t a = random();
    std::uint64_t c = random();
    T u;
    T v;
    std::memcpy(&u, &a, sizeof u);
    std::memcpy(&v, &c, sizeof v);
    x.push_back(u), y.push_back(v);
    std::uniform_real_distribution<double> d(-100, 100);
    x.push_back(static_cast<T>(d(random))), y.push_back(static_cast<T>(d(random)));
    x.push_back(static_cast<T>(d(random))), y.push_back(static_cast<T>(std::round(d(random) / 5)));
    // Results near overflow and underflow.
    x.push_back(static_cast<T>(std::exp2(d(random) / 10)));
    y.push_back(static_cast<T>(d(random) * (sizeof(T) == 4 ? 1 : 10)));
    // Bases close to 1 with large exponents.
    x.push_back(static_cast<T>(1 + d(random) / 1e5)), y.push_back(static_cast<T>(d(random) * 1e3));
  }
  while (x.size() % 32) x.push_back(5), y.push_back(3);
  return {x, y};
}

template <typename T>
bool same(T a, T b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

template <typename T>
T reference_float_mod(T x, T y) {
  T r = std::fmod(x, y);
  if (r == 0) return std::copysign(T(0), y);
  return std::signbit(r) != std::signbit(y) ? r + y : r;
}

TYPED_TEST(Floats, Arithmetic) {
  using T = TypeParam;
  auto [x, y] = float_pairs<T>();
  for (const std::string& target : runnable_targets())
    for (int lanes : lane_counts(target, 32)) {
      auto div = run_binary(target, lanes, OpKind::div, x, y);
      auto max = run_binary(target, lanes, OpKind::max, x, y);
      auto min = run_binary(target, lanes, OpKind::min, x, y);
      auto mod = run_binary(target, lanes, OpKind::mod, x, y);
      auto unequal =
          run_binary<T, std::uint8_t>(target, lanes, OpKind::not_equal, x, y, DType::bool_);
      auto at_least =
          run_binary<T, std::uint8_t>(target, lanes, OpKind::greater_equal, x, y, DType::bool_);
      for (std::size_t i = 0; i < x.size(); ++i) {
        T a = x[i];
        T c = y[i];
        bool nan = std::isnan(a) || std::isnan(c);
        ASSERT_TRUE(same(div[i], a / c)) << a << " / " << c;
        T larger = nan ? std::numeric_limits<T>::quiet_NaN() : std::max(a, c);
        T smaller = nan ? std::numeric_limits<T>::quiet_NaN() : std::min(a, c);
        ASSERT_TRUE(nan ? std::isnan(max[i]) : max[i] == larger) << a << ", " << c;
        ASSERT_TRUE(nan ? std::isnan(min[i]) : min[i] == smaller) << a << ", " << c;
        ASSERT_EQ(unequal[i], a != c);
        ASSERT_EQ(at_least[i], a >= c);
        ASSERT_TRUE(same(mod[i], reference_float_mod(a, c)))
            << a << " mod " << c << " is " << mod[i] << " instead of " << reference_float_mod(a, c)
            << " on " << target;
      }
    }
}

TYPED_TEST(Floats, Power) {
  using T = TypeParam;
  auto [x, y] = float_pairs<T>();
  std::vector<long double> expected(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    expected[i] = std::pow(static_cast<long double>(x[i]), static_cast<long double>(y[i]));
  for (const std::string& target : runnable_targets())
    for (int lanes : lane_counts(target, 32)) {
      auto got = run_binary(target, lanes, OpKind::pow, x, y);
      double worst = 0;
      std::size_t at = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (double u = ulps(got[i], expected[i]); u > worst) worst = u, at = i;
        if (expected[i] == 0 && got[i] == 0)
          ASSERT_EQ(std::signbit(got[i]), std::signbit(expected[i])) << x[i] << " ^ " << y[i];
      }
      EXPECT_LE(worst, 2) << x[at] << " ^ " << y[at] << " is " << got[at] << " instead of "
                          << expected[at] << " on " << target;
    }
}

TYPED_TEST(Floats, Rounding) {
  using T = TypeParam;
  auto x = float_pairs<T>().first;
  for (const std::string& target : runnable_targets())
    for (int lanes : lane_counts(target, 32)) {
      auto floor = run_unary(target, lanes, OpKind::floor, x);
      auto ceil = run_unary(target, lanes, OpKind::ceil, x);
      auto trunc = run_unary(target, lanes, OpKind::trunc, x);
      auto round = run_unary(target, lanes, OpKind::round, x);
      auto relu = run_unary(target, lanes, OpKind::relu, x);
      auto abs = run_unary(target, lanes, OpKind::abs, x);
      auto negate = run_unary(target, lanes, OpKind::negate, x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_TRUE(same(floor[i], std::floor(x[i]))) << x[i] << ' ' << target;
        ASSERT_TRUE(same(ceil[i], std::ceil(x[i]))) << x[i] << ' ' << target << ceil[i];
        ASSERT_TRUE(same(trunc[i], std::trunc(x[i]))) << x[i] << ' ' << target;
        ASSERT_TRUE(same(round[i], std::nearbyint(x[i]))) << x[i] << ' ' << target;
        ASSERT_TRUE(std::isnan(x[i]) ? std::isnan(relu[i]) : relu[i] == std::max(x[i], T(0)));
        ASSERT_TRUE(same(abs[i], std::fabs(x[i])));
        ASSERT_TRUE(same(negate[i], -x[i]));
      }
    }
}

TEST(LoweringArithmetic, Booleans) {
  std::vector<std::uint8_t> x = {0, 0, 1, 1};
  std::vector<std::uint8_t> y = {0, 1, 0, 1};
  auto run = [&](OpKind kind) {
    Kernel kernel("", 4, {DType::bool_, DType::bool_}, DType::bool_,
                  [&](Lowering& l, const std::vector<llvm::Value*>& in) {
                    return l.binary(kind, in[0], in[1], DType::bool_);
                  });
    std::vector<std::uint8_t> out(4);
    kernel.run({x.data(), y.data()}, out.data(), 4);
    return out;
  };
  using Bytes = std::vector<std::uint8_t>;
  EXPECT_EQ(run(OpKind::logical_and), (Bytes{0, 0, 0, 1}));
  EXPECT_EQ(run(OpKind::logical_or), (Bytes{0, 1, 1, 1}));
  EXPECT_EQ(run(OpKind::logical_xor), (Bytes{0, 1, 1, 0}));
  EXPECT_EQ(run(OpKind::greater), (Bytes{0, 0, 1, 0}));
  EXPECT_EQ(run(OpKind::greater_equal), (Bytes{1, 0, 1, 1}));
  EXPECT_EQ(run(OpKind::equal), (Bytes{1, 0, 0, 1}));
  EXPECT_EQ(run(OpKind::max), (Bytes{0, 1, 1, 1}));
  EXPECT_EQ(run(OpKind::min), (Bytes{0, 0, 0, 1}));
}

}  // namespace
}  // namespace kiln::compiler::testing
