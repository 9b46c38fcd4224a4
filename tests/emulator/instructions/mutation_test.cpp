#include <gtest/gtest.h>

#include "float_forms.h"
#include "integer_forms.h"
#include "warp_forms.h"

// The references would be worth little if they accepted anything: each operand of each form is
// exchanged in the text, and the reference must notice.

namespace kiln::emulator_test {
namespace {

TEST(Mutations, IntegerArithmetic) { expect_mutations_found(integer_arithmetic_forms()); }
TEST(Mutations, IntegerBits) { expect_mutations_found(integer_bit_forms()); }
TEST(Mutations, IntegerConversions) { expect_mutations_found(integer_conversion_forms()); }
TEST(Mutations, FloatArithmetic) { expect_mutations_found(float_arithmetic_forms()); }
TEST(Mutations, FloatMinimaMaximaAndSigns) { expect_mutations_found(float_select_forms()); }
TEST(Mutations, FloatConversions) { expect_mutations_found(float_conversion_forms()); }
TEST(Mutations, SmallFloatConversions) { expect_mutations_found(small_float_conversion_forms()); }
TEST(Mutations, Approximations) { expect_mutations_found(float_approximation_forms()); }
TEST(Mutations, Warps) { expect_mutations_found(warp_forms()); }
TEST(Mutations, Atomics) { expect_mutations_found(atomic_forms()); }

}  // namespace
}  // namespace kiln::emulator_test
