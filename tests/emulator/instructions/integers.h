#pragma once

#include <cstdint>

#include "forms.h"

namespace kiln::emulator_test {

/// An integer type of PTX.
struct Integer {
  const char* name;
  Type type;  // of a register that holds it
  int bits;
  bool is_signed;

  __int128 low() const { return is_signed ? -(__int128{1} << (bits - 1)) : 0; }
  __int128 high() const { return (__int128{1} << (is_signed ? bits - 1 : bits)) - 1; }
  /// The value that a register's bits stand for.
  __int128 value(std::uint64_t word) const {
    const std::uint64_t ones = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
    const auto plain = static_cast<__int128>(word & ones);
    return is_signed && (plain >> (bits - 1) & 1) ? plain - (__int128{1} << bits) : plain;
  }
};

inline constexpr Integer kS16{"s16", Type::s16, 16, true}, kU16{"u16", Type::u16, 16, false},
    kS32{"s32", Type::s32, 32, true}, kU32{"u32", Type::u32, 32, false},
    kS64{"s64", Type::s64, 64, true}, kU64{"u64", Type::u64, 64, false};
inline constexpr Integer kIntegers[] = {kS16, kU16, kS32, kU32, kS64, kU64};

}  // namespace kiln::emulator_test
