#pragma once

#include "exact.h"
#include "forms.h"

namespace kiln::emulator_test {

/// A float type of PTX.
struct Float {
  const char* name;
  Type type;
  Format format;
  Type packed;       // two of them in 32 bits; the type itself where there is none
  const char* pair;  // the name of that
};

extern const Float kFloats[4];  // f32, f64, f16, bf16

/// Subnormal bits become a zero of the same sign.
std::uint64_t flushed(const Format& format, std::uint64_t bits);

std::vector<Form> float_arithmetic_forms();
std::vector<Form> float_select_forms();
std::vector<Form> float_compare_forms();
std::vector<Form> float_approximation_forms();
std::vector<Form> float_conversion_forms();
std::vector<Form> small_float_conversion_forms();
std::vector<Form> integer_conversion_forms();

}  // namespace kiln::emulator_test
