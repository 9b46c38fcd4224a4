#include <gtest/gtest.h>

#include "float_forms.h"
#include "integer_forms.h"
#include "warp_forms.h"

namespace kiln::emulator_test {
namespace {

TEST(Instructions, IntegerArithmetic) { expect_forms(integer_arithmetic_forms()); }
TEST(Instructions, IntegerBits) { expect_forms(integer_bit_forms()); }
TEST(Instructions, IntegerComparisons) { expect_forms(integer_compare_forms()); }
TEST(Instructions, IntegerConversions) { expect_forms(integer_conversion_forms()); }
TEST(Instructions, FloatArithmetic) { expect_forms(float_arithmetic_forms()); }
TEST(Instructions, FloatMinimaMaximaAndSigns) { expect_forms(float_select_forms()); }
TEST(Instructions, FloatComparisons) { expect_forms(float_compare_forms()); }
TEST(Instructions, FloatConversions) { expect_forms(float_conversion_forms()); }
TEST(Instructions, SmallFloatConversions) { expect_forms(small_float_conversion_forms()); }
TEST(Instructions, Approximations) { expect_forms(float_approximation_forms()); }
TEST(Instructions, Warps) { expect_forms(warp_forms()); }
TEST(Instructions, Atomics) { expect_forms(atomic_forms()); }
TEST(Instructions, Memory) { expect_forms(memory_forms()); }

}  // namespace
}  // namespace kiln::emulator_test
