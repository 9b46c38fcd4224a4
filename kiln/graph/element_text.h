#pragma once

// Elements of constants as text, and conversions of numbers to elements. Internal to kiln/graph.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "kiln/dtype/dtype.h"

namespace kiln::graph {

/// The text of the float: shortest that reads back equal, with a point or an exponent; NaNs as
/// nan:0x7fc00000, with all bits.
std::string real_text(double value);
/// Reads `real_text` and any usual spelling of a number; nullopt: malformed.
std::optional<double> parse_real(std::string_view text);

/// The text of one element of a type of whole bytes.
std::string element_text(DType dtype, const std::byte* element);
/// Writes the element that `text` stands for; false: malformed or out of range.
bool parse_element(DType dtype, std::string_view text, std::byte* element);

/// The value of an element as a double; exact but for 64-bit integers.
double element_to_double(DType dtype, const std::byte* element);
/// Writes `value` rounded to the nearest element of a float type, ties to even.
void double_to_element(DType dtype, double value, std::byte* element);

}  // namespace kiln::graph
