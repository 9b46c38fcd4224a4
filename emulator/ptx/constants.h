#pragma once

#include "emulator/ptx/lexer.h"
#include "emulator/ptx/syntax.h"

namespace kiln::emulator::ptx {

/// A constant: a number of either kind, or a symbol with what is added to it.
struct Constant {
  enum class Kind : std::uint8_t { integer, real, symbol };
  Kind kind = Kind::integer;
  bool single = false;  // a real written as 0f...
  bool is_unsigned = false;
  std::int64_t value = 0;  // an integer, the bits of a real, or what is added to `symbol`
  std::string_view symbol;
};

/// Reads a constant expression of integers, or one real number, or a symbol plus a number.
Constant parse_constant(Lexer& lexer);
/// One that must be an integer within [0, limit].
std::uint64_t parse_count(Lexer& lexer, std::uint64_t limit);

}  // namespace kiln::emulator::ptx
