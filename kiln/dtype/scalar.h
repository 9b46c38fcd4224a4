#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <variant>

#include "kiln/dtype/float_formats.h"

namespace kiln {

/// One number of any element type: a bool, an integer or a double. Built from any C++ arithmetic
/// type and from kiln's own float types.
class Scalar : public std::variant<bool, std::int64_t, std::uint64_t, double> {
 public:
  Scalar() : variant(std::int64_t{0}) {}
  template <typename T>
    requires std::is_arithmetic_v<T> || kIsFloatFormat<T>
  Scalar(T value) : variant(widen(value)) {}  // NOLINT: numbers are scalars

  /// An integer beyond 64 bits, as the double nearest to it; `side` tells where the integer lies
  /// from there: -1 below, 0 at it, 1 above.
  static Scalar wide_integer(double nearest, int side = 0) {
    Scalar result(nearest);
    result.wide_integer_ = true;
    result.side_ = static_cast<std::int8_t>(side);
    return result;
  }

  bool is_bool() const { return index() == 0; }
  bool is_integer() const { return index() == 1 || index() == 2 || wide_integer_; }
  /// Whether it is an integer that only a double holds, rounded.
  bool is_wide_integer() const { return wide_integer_; }
  bool is_float() const { return index() == 3 && !wide_integer_; }

  /// Plain C++ conversion of whatever is held.
  template <typename T>
  T to() const {
    return std::visit([](auto value) { return static_cast<T>(value); },
                      static_cast<const variant&>(*this));
  }
  /// The value as a double that may be rounded again to a narrower format: where no double holds
  /// it, the neighbour with an odd last bit, which never lies on or across a tie of that format.
  double rounded_to_odd() const {
    if (const auto* integer = std::get_if<std::int64_t>(this)) {
      const auto bits = static_cast<std::uint64_t>(*integer);
      return *integer < 0 ? -odd_double(0 - bits) : odd_double(bits);
    }
    if (const auto* integer = std::get_if<std::uint64_t>(this)) return odd_double(*integer);
    const double nearest = to<double>();
    if (side_ == 0 || (std::bit_cast<std::uint64_t>(nearest) & 1) != 0) return nearest;
    return std::nextafter(nearest, side_ * std::numeric_limits<double>::infinity());
  }

 private:
  bool wide_integer_ = false;
  std::int8_t side_ = 0;

  static double odd_double(std::uint64_t value) {
    const int cut = std::bit_width(value) - std::numeric_limits<double>::digits;
    if (cut <= 0) return static_cast<double>(value);
    const std::uint64_t last = std::uint64_t{1} << cut;
    const std::uint64_t kept = value & ~(last - 1);
    return static_cast<double>(kept == value ? kept : kept | last);
  }

  template <typename T>
  static variant widen(T value) {
    if constexpr (std::is_same_v<T, bool>)
      return value;
    else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
      return static_cast<std::int64_t>(value);
    else if constexpr (std::is_integral_v<T>)
      return static_cast<std::uint64_t>(value);
    else
      return static_cast<double>(value);
  }
};

}  // namespace kiln
