#include <gtest/gtest.h>

#include <cmath>

#include "ptx_machine.h"

namespace kiln::emulator::test {
namespace {

__float128 round_to_integer(__float128 value, int mode) {
  // Far beyond 2^63 every number is an integer.
  if (value > 1e25 || value < -1e25) return value;
  __int128 down = static_cast<__int128>(value);
  if (static_cast<__float128>(down) > value) --down;
  const __float128 rest = value - static_cast<__float128>(down);
  if (rest == 0) return value;
  if (mode == 1) return static_cast<__float128>(down);
  if (mode == 2) return static_cast<__float128>(down + 1);
  if (mode == 3) return static_cast<__float128>(value < 0 ? down + 1 : down);
  const bool up = rest > 0.5 || (rest == 0.5 && down % 2 != 0);
  return static_cast<__float128>(up ? down + 1 : down);
}

TEST(PtxConvert, RealNumbersBecomeTheNearestInteger) {
  constexpr const char* kModes[] = {".rni", ".rmi", ".rpi", ".rzi"};
  for (unsigned from : {32U, 64U}) {
    const auto inputs = interesting_reals(from, 3000, 8, true);
    for (unsigned to : {8U, 16U, 32U, 64U})
      for (bool is_signed : {false, true})
        for (int mode = 0; mode < 4; ++mode) {
          const std::string type = (is_signed ? "s" : "u") + std::to_string(to);
          const unsigned width = to == 8 ? 16 : to;
          const std::string op = std::string("cvt") + kModes[mode] + "." + type + ".f" +
                                 std::to_string(from) + " %d, %a;";
          SCOPED_TRACE(op);
          const auto found =
              apply({op, "b" + std::to_string(width), {"f" + std::to_string(from)}}, {inputs});
          const __float128 highest = std::ldexp(1.0, static_cast<int>(to) - (is_signed ? 1 : 0));
          const __float128 lowest = is_signed ? -highest : 0;
          const std::uint64_t mask = width == 64 ? ~0ULL : (1ULL << width) - 1;
          for (std::size_t i = 0; i < inputs.size(); ++i) {
            const double value = from == 32
                                     ? std::bit_cast<float>(static_cast<std::uint32_t>(inputs[i]))
                                     : std::bit_cast<double>(inputs[i]);
            __int128 expected = 0;
            if (std::isnan(value)) {
              if (from == 64 || to == 64) expected = static_cast<__int128>(1) << (to - 1);
              // A register that is wider repeats the sign.
              if (expected != 0 && is_signed) expected = -expected;
            } else {
              const __float128 rounded = round_to_integer(value, mode);
              if (rounded >= highest)
                expected = static_cast<__int128>(highest) - 1;
              else if (rounded < lowest)
                expected = static_cast<__int128>(lowest);
              else
                expected = static_cast<__int128>(rounded);
            }
            ASSERT_EQ(found[i], static_cast<std::uint64_t>(expected) & mask) << value;
          }
        }
  }
}

TEST(PtxConvert, IntegersBecomeRealNumbersInAllDirections) {
  const auto inputs = interesting_integers(64, 3000, 12);
  for (const std::string mode : {".rn", ".rz", ".rm", ".rp"})
    for (bool is_signed : {false, true}) {
      const std::string op = "cvt" + mode + ".f32." + (is_signed ? "s64" : "u64") + " %d, %a;";
      SCOPED_TRACE(op);
      const auto found = apply({op, "f32", {"b64"}}, {inputs});
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const __float128 exact = is_signed
                                     ? static_cast<__float128>(static_cast<std::int64_t>(inputs[i]))
                                     : static_cast<__float128>(inputs[i]);
        float expected = static_cast<float>(exact);
        if (static_cast<__float128>(expected) > exact &&
            (mode == ".rm" || (mode == ".rz" && exact > 0)))
          expected = std::nextafter(expected, -INFINITY);
        if (static_cast<__float128>(expected) < exact &&
            (mode == ".rp" || (mode == ".rz" && exact < 0)))
          expected = std::nextafter(expected, INFINITY);
        ASSERT_EQ(found[i], bits(expected)) << inputs[i];
      }
    }
}

TEST(PtxConvert, IntegersOfOtherWidths) {
  const auto inputs = interesting_integers(32, 2000, 13);
  const auto low = apply({"cvt.s32.s8 %d, %a;", "s32", {"b32"}}, {inputs});
  const auto wide = apply({"cvt.s64.s32 %d, %a;", "s64", {"s32"}}, {inputs});
  const auto clamped = apply({"cvt.sat.u16.s32 %d, %a;", "u16", {"s32"}}, {inputs});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto value = static_cast<std::int32_t>(inputs[i]);
    ASSERT_EQ(low[i], static_cast<std::uint32_t>(static_cast<std::int8_t>(inputs[i])));
    ASSERT_EQ(wide[i], static_cast<std::uint64_t>(std::int64_t{value}));
    ASSERT_EQ(clamped[i], static_cast<std::uint64_t>(std::clamp(value, 0, 65535)));
  }
}

TEST(PtxConvert, DoublesBecomeFloatsInAllDirections) {
  const auto inputs = interesting_reals(64, 4000, 21, false);
  for (const std::string mode : {".rn", ".rz", ".rm", ".rp"}) {
    SCOPED_TRACE(mode);
    const auto found = apply({"cvt" + mode + ".f32.f64 %d, %a;", "f32", {"f64"}}, {inputs});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const double exact = std::bit_cast<double>(inputs[i]);
      float expected = static_cast<float>(exact);
      if (expected > exact && (mode == ".rm" || (mode == ".rz" && exact > 0)))
        expected = std::nextafter(expected, -INFINITY);
      if (expected < exact && (mode == ".rp" || (mode == ".rz" && exact < 0)))
        expected = std::nextafter(expected, INFINITY);
      ASSERT_EQ(found[i], bits(expected)) << exact;
    }
  }
}

TEST(PtxConvert, ToTf32WithHalvesAwayFromZero) {
  const auto inputs = interesting_reals(32, 4000, 22, false);
  const auto found = apply({"cvt.rna.tf32.f32 %d, %a;", "b32", {"f32"}}, {inputs});
  for (std::size_t i = 0; i < inputs.size(); ++i)
    ASSERT_EQ(found[i], ((inputs[i] & 0x7fffffff) + 0x1000) >> 13 << 13 | (inputs[i] & 0x80000000));
}

}  // namespace
}  // namespace kiln::emulator::test
