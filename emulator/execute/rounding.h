#pragma once

#include <cstdint>

namespace kiln::emulator {

/// Formats of real numbers that instructions convert between.
enum class SmallFormat : std::uint8_t { none, f16, bf16, tf32, f32, f64, e4m3, e5m2 };

/// 0 to nearest even, 1 down, 2 up, 3 to zero, 4 to nearest with halves away from zero.
enum class Rounding : std::uint8_t { nearest, down, up, zero, away };

/// Rounds a number to a format, by integer arithmetic; the result's bits. With `saturate`, what is
/// too large becomes the largest finite number. NaN becomes the canonical one of the format.
std::uint64_t round_to_format(double value, SmallFormat format, Rounding rounding, bool saturate);
/// As above, for an integer of 64 bits.
std::uint64_t round_integer(std::uint64_t value, bool is_signed, SmallFormat format,
                            Rounding rounding);
/// The exact value of a number of a format (f16, bf16, tf32, f32, e4m3, e5m2).
double value_of(std::uint64_t bits, SmallFormat format);

}  // namespace kiln::emulator
