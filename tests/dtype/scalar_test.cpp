#include "kiln/dtype/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>

namespace kiln {
namespace {

TEST(Scalar, IntegersRoundedTwiceAreAsIfRoundedOnce) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    // Many ones and zeros in a row, so that ties and their neighbours are common.
    const int shift = static_cast<int>(random() % 64);
    const auto large = static_cast<std::uint64_t>(random() << shift ^ random() >> (random() % 64));
    EXPECT_EQ(static_cast<float>(Scalar(large).rounded_to_odd()), static_cast<float>(large));
    const auto sign = static_cast<std::int64_t>(large);
    EXPECT_EQ(static_cast<float>(Scalar(sign).rounded_to_odd()), static_cast<float>(sign));
  }
  for (const std::int64_t value : {INT64_MIN, INT64_MIN + 1, INT64_C(-1), INT64_C(0), INT64_MAX})
    EXPECT_EQ(static_cast<float>(Scalar(value).rounded_to_odd()), static_cast<float>(value));
}

TEST(Scalar, WideIntegersKeepTheirSide) {
  const double tie = std::ldexp(1.0, 80) + std::ldexp(1.0, 56);  // between two floats
  EXPECT_EQ(static_cast<float>(Scalar::wide_integer(tie).rounded_to_odd()), std::ldexp(1.0f, 80));
  EXPECT_EQ(static_cast<float>(Scalar::wide_integer(tie, -1).rounded_to_odd()),
            std::ldexp(1.0f, 80));
  EXPECT_EQ(static_cast<float>(Scalar::wide_integer(tie, 1).rounded_to_odd()),
            std::ldexp(1.0f, 80) + std::ldexp(1.0f, 57));
  EXPECT_EQ(static_cast<float>(Scalar::wide_integer(-tie, -1).rounded_to_odd()),
            -std::ldexp(1.0f, 80) - std::ldexp(1.0f, 57));
  EXPECT_EQ(Scalar::wide_integer(tie, 1).to<double>(), tie);
}

TEST(Scalar, FloatsAreAsTheyAre) {
  for (const double value : {0.0, 0.1, -1e300, 5e-324}) {
    EXPECT_EQ(Scalar(value).rounded_to_odd(), value);
  }
  EXPECT_TRUE(std::isnan(Scalar(NAN).rounded_to_odd()));
}

}  // namespace
}  // namespace kiln
