#pragma once

#include <concepts>
#include <cstdint>
#include <string>

namespace kiln::gpu {

/// Extent of a grid, a block or a cluster. Holds any integers; they are checked where it is used.
class Dim {
 public:
  template <std::integral T>
  constexpr Dim(T x) : values_{static_cast<std::int64_t>(x), 1, 1} {}  // NOLINT
  constexpr Dim(std::int64_t x, std::int64_t y) : values_{x, y, 1}, given_(2) {}
  constexpr Dim(std::int64_t x, std::int64_t y, std::int64_t z) : values_{x, y, z}, given_(3) {}

  constexpr std::int64_t x() const { return values_[0]; }
  constexpr std::int64_t y() const { return values_[1]; }
  constexpr std::int64_t z() const { return values_[2]; }
  /// Component 0 to 2, else IndexError.
  std::int64_t operator[](std::int64_t i) const;
  /// "(x=4)", "(x=4, y=2)", "(x=4, y=1, z=3)": as many as are needed.
  std::string to_string() const;

  friend constexpr bool operator==(const Dim& a, const Dim& b) {
    return a.values_[0] == b.values_[0] && a.values_[1] == b.values_[1] &&
           a.values_[2] == b.values_[2];
  }

 private:
  std::int64_t values_[3];
  int given_ = 1;
};

}  // namespace kiln::gpu
