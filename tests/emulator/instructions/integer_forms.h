#pragma once

#include "forms.h"

namespace kiln::emulator_test {

/// Integer arithmetic, logic, shifts, bit fields, comparisons and carries.
std::vector<Form> integer_arithmetic_forms();
std::vector<Form> integer_bit_forms();
std::vector<Form> integer_compare_forms();

}  // namespace kiln::emulator_test
