#pragma once

#include <concepts>
#include <cstdint>
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

  /// An integer beyond 64 bits, as the double nearest to it.
  static Scalar wide_integer(double nearest) {
    Scalar result(nearest);
    result.wide_integer_ = true;
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

 private:
  bool wide_integer_ = false;

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
