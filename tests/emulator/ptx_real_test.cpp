#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "ptx_machine.h"

namespace kiln::emulator::test {
namespace {

using Quad = __float128;

float single(std::uint64_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value));
}
double whole(std::uint64_t value) { return std::bit_cast<double>(value); }

// Rounds a number of 113 digits, which must be exact, in one of four directions.
template <typename T>
T round_quad(Quad exact, const std::string& mode) {
  const T nearest = static_cast<T>(exact);
  if (mode == ".rn" || static_cast<Quad>(nearest) == exact || exact == 0) return nearest;
  const T infinity = std::numeric_limits<T>::infinity();
  const T below = static_cast<Quad>(nearest) < exact ? nearest : std::nextafter(nearest, -infinity);
  const T above = static_cast<Quad>(nearest) > exact ? nearest : std::nextafter(nearest, infinity);
  if (mode == ".rm") return below;
  if (mode == ".rp") return above;
  return exact > 0 ? below : above;
}

// Numbers near to 1, whose sums and products a Quad holds exactly.
std::vector<std::uint64_t> tame(unsigned width, std::size_t count, std::uint64_t seed) {
  auto values = interesting_reals(width, count, seed, false);
  for (std::uint64_t& value : values) {
    if (width == 32)
      value = (value & 0x80ffffff) | 0x3f000000;
    else
      value = (value & 0x801fffffffffffff) | 0x3fe0000000000000;
  }
  return values;
}

template <typename T, typename Exact>
void check_modes(const std::string& opcode, std::size_t operands, Exact exact) {
  const unsigned width = sizeof(T) * 8;
  const std::string type = "f" + std::to_string(width);
  std::vector<std::vector<std::uint64_t>> inputs;
  for (std::size_t i = 0; i < operands; ++i) inputs.push_back(tame(width, 2000, 5 + i));
  const auto value = [&](std::size_t k, std::size_t i) -> Quad {
    if (k >= inputs.size()) return 0;
    return width == 32 ? Quad{single(inputs[k][i])} : Quad{whole(inputs[k][i])};
  };
  for (const std::string mode : {".rn", ".rz", ".rm", ".rp"}) {
    SCOPED_TRACE(opcode + mode);
    const std::string sources = operands == 1 ? "%a" : operands == 2 ? "%a, %b" : "%a, %b, %c";
    const auto found = apply({opcode + mode + "." + type + " %d, " + sources + ";", type,
                              std::vector<std::string>(operands, type)},
                             inputs);
    for (std::size_t i = 0; i < 2000; ++i) {
      const Quad expected = exact(value(0, i), value(1, i), value(2, i));
      // An exact zero has the sign of the mode.
      if (expected == 0) continue;
      ASSERT_EQ(found[i], bits(round_quad<T>(expected, mode)));
    }
  }
}

TEST(PtxReal, RoundsInAllDirections) {
  check_modes<float>("add", 2, [](Quad a, Quad b, Quad) { return a + b; });
  check_modes<float>("sub", 2, [](Quad a, Quad b, Quad) { return a - b; });
  check_modes<float>("mul", 2, [](Quad a, Quad b, Quad) { return a * b; });
  check_modes<float>("fma", 3, [](Quad a, Quad b, Quad c) { return a * b + c; });
  check_modes<double>("add", 2, [](Quad a, Quad b, Quad) { return a + b; });
  check_modes<double>("mul", 2, [](Quad a, Quad b, Quad) { return a * b; });
}

TEST(PtxReal, QuotientsAndRootsAreTheNearestOnTheirSide) {
  for (const std::string mode : {".rn", ".rz", ".rm", ".rp"}) {
    SCOPED_TRACE(mode);
    const auto a = tame(32, 2000, 3), b = tame(32, 2000, 4);
    const auto quotients =
        apply({"div" + mode + ".f32 %d, %a, %b;", "f32", {"f32", "f32"}}, {a, b});
    const auto roots =
        apply({"{abs.f32 %a, %a;\nsqrt" + mode + ".f32 %d, %a;}", "f32", {"f32"}}, {a});
    for (std::size_t i = 0; i < a.size(); ++i) {
      // A double has enough digits that rounding it again is rounding at once, but for ties, which
      // a quotient of floats cannot be.
      const Quad quotient = Quad{single(a[i])} / single(b[i]);
      ASSERT_EQ(quotients[i], bits(round_quad<float>(quotient, mode)));
      const Quad root = std::sqrt(static_cast<double>(std::fabs(single(a[i]))));
      ASSERT_EQ(roots[i], bits(round_quad<float>(root, mode)));
    }
  }
}

TEST(PtxReal, FlushesSubnormalsAndSaturates) {
  const auto a = interesting_reals(32, 4000, 1, true), b = interesting_reals(32, 4000, 2, true);
  const auto flush = [](float x) {
    return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x;
  };
  const auto same = [](std::uint64_t found, float expected) {
    return std::isnan(expected) ? std::isnan(single(found)) : found == bits(expected);
  };
  const auto sums = apply({"add.ftz.f32 %d, %a, %b;", "f32", {"f32", "f32"}}, {a, b});
  const auto products = apply({"mul.ftz.sat.f32 %d, %a, %b;", "f32", {"f32", "f32"}}, {a, b});
  const auto plain = apply({"mul.f32 %d, %a, %b;", "f32", {"f32", "f32"}}, {a, b});
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float x = flush(single(a[i])), y = flush(single(b[i]));
    ASSERT_TRUE(same(sums[i], flush(x + y)));
    const float product = flush(x * y);
    ASSERT_TRUE(same(products[i], std::isnan(product) ? 0.0F
                                  : product > 1       ? 1.0F
                                  : product > 0       ? product
                                                      : 0.0F));
    ASSERT_TRUE(same(plain[i], single(a[i]) * single(b[i])));
  }
}

TEST(PtxReal, MinimumAndMaximumOfNaNAndZeros) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::uint64_t> a = {bits(nan), bits(1.0F), bits(nan), bits(-0.0F), bits(2.0F)};
  const std::vector<std::uint64_t> b = {bits(1.0F), bits(nan), bits(nan), bits(0.0F), bits(-3.0F)};
  const auto run = [&](const std::string& op) {
    return apply({op + ".f32 %d, %a, %b;", "f32", {"f32", "f32"}}, {a, b});
  };
  using List = std::vector<std::uint64_t>;
  EXPECT_EQ(run("min"), (List{bits(1.0F), bits(1.0F), 0x7fffffff, bits(-0.0F), bits(-3.0F)}));
  EXPECT_EQ(run("max"), (List{bits(1.0F), bits(1.0F), 0x7fffffff, bits(0.0F), bits(2.0F)}));
  EXPECT_EQ(run("min.NaN"), (List{0x7fffffff, 0x7fffffff, 0x7fffffff, bits(-0.0F), bits(-3.0F)}));
  EXPECT_EQ(run("max.xorsign.abs")[4], bits(-3.0F));
}

TEST(PtxReal, ApproximationsStayWithinTheirErrors) {
  const auto inputs = interesting_reals(32, 4000, 9, false);
  const auto check = [&](const std::string& op, auto exact, double relative, double absolute,
                         double lowest, double highest) {
    SCOPED_TRACE(op);
    const auto found = apply({op + ".f32 %d, %a;", "f32", {"f32"}}, {inputs});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const double x = single(inputs[i]);
      if (x < lowest || x > highest) continue;
      const double expected = exact(x), value = single(found[i]);
      if (std::fabs(expected) > 3.4e38 || std::fabs(expected) < 1.2e-38) continue;
      ASSERT_LE(std::fabs(value - expected), std::fabs(expected) * relative + absolute) << x;
    }
  };
  check("ex2.approx", [](double x) { return std::exp2(x); }, std::ldexp(1, -22), 0, -126, 127);
  check(
      "lg2.approx", [](double x) { return std::log2(x); }, std::ldexp(1, -22), std::ldexp(1, -22),
      1e-37, 1e37);
  check("sin.approx", [](double x) { return std::sin(x); }, 0, std::exp2(-20.5), -3.14, 3.14);
  check("cos.approx", [](double x) { return std::cos(x); }, 0, std::exp2(-20.5), -3.14, 3.14);
  check("tanh.approx", [](double x) { return std::tanh(x); }, std::ldexp(1, -11), 0, -1e30, 1e30);
  check("rcp.approx", [](double x) { return 1 / x; }, std::ldexp(1, -23), 0, -1e37, 1e37);
  check(
      "rsqrt.approx", [](double x) { return 1 / std::sqrt(x); }, std::exp2(-22.9), 0, 1e-37, 1e37);
}

TEST(PtxReal, ComparisonsWithNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::uint64_t> a = {bits(1.0F), bits(nan), bits(2.0F)},
                                   b = {bits(2.0F), bits(2.0F), bits(2.0F)};
  using List = std::vector<std::uint64_t>;
  const auto run = [&](const std::string& op) {
    return apply(
        {"{setp." + op + ".f32 %p, %a, %b;\nselp.b32 %d, 1, 0, %p;}", "b32", {"f32", "f32"}},
        {a, b});
  };
  EXPECT_EQ(run("lt"), (List{1, 0, 0}));
  EXPECT_EQ(run("ltu"), (List{1, 1, 0}));
  EXPECT_EQ(run("ne"), (List{1, 0, 0}));
  EXPECT_EQ(run("neu"), (List{1, 1, 0}));
  EXPECT_EQ(run("ge"), (List{0, 0, 1}));
  EXPECT_EQ(run("nan"), (List{0, 1, 0}));
  EXPECT_EQ(run("num"), (List{1, 0, 1}));
}

}  // namespace
}  // namespace kiln::emulator::test
