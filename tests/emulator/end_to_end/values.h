#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "driver.h"

namespace kiln::emulator_test {

/// Numbers in [low, high], the same in every run.
template <class T>
std::vector<T> random_values(std::size_t count, double low, double high, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed * 7919 + count);
  std::vector<T> values(count);
  for (T& value : values) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
    value = static_cast<T>(low + unit * (high - low));
  }
  return values;
}

template <class T>
std::vector<T> random_bits(std::size_t count, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed * 104729 + count);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(random());
  return values;
}

/// Each element within `relative` of the expected one plus `absolute`; NaN and infinities alike.
template <class Expected, class Found>
void expect_near(const std::vector<Expected>& expected, const std::vector<Found>& found,
                 double relative, double absolute, const std::string& what = "") {
  ASSERT_EQ(expected.size(), found.size()) << what;
  int wrong = 0;
  for (std::size_t i = 0; i < expected.size() && wrong < 4; ++i) {
    const double e = static_cast<double>(expected[i]), f = static_cast<double>(found[i]);
    if (std::isnan(e) ? std::isnan(f) : e == f) continue;
    if (std::fabs(e - f) <= std::fabs(e) * relative + absolute) continue;
    ADD_FAILURE() << what << " element " << i << ": expected " << e << ", found " << f;
    ++wrong;
  }
}

/// How many blocks of `size` threads cover `count`.
inline unsigned blocks_for(std::size_t count, unsigned size) {
  return static_cast<unsigned>((count + size - 1) / size);
}

}  // namespace kiln::emulator_test
