#include "emulator/ptx/constants.h"

#include <bit>
#include <charconv>
#include <cstdlib>

#include "kiln/support/format.h"

namespace kiln::emulator::ptx {
namespace {

// Parentheses nest no deeper, so that a hostile text cannot exhaust the stack.
constexpr int kMaxDepth = 64;

bool has_prefix(std::string_view text, char a, char b) {
  return text.size() > 2 && text[0] == '0' && (text[1] == a || text[1] == b);
}

Constant real_from_bits(const Lexer& lexer, const Token& token, std::size_t digits) {
  const std::string_view text = token.text.substr(2);
  std::uint64_t bits = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits, 16);
  if (text.size() != digits || error != std::errc{} || end != text.data() + text.size())
    lexer.fail(token, format("a real number with {} hexadecimal digits is expected", digits));
  return {Constant::Kind::real, digits == 8, false, static_cast<std::int64_t>(bits), {}};
}

Constant number(const Lexer& lexer, const Token& token) {
  std::string_view text = token.text;
  if (has_prefix(text, 'f', 'F')) return real_from_bits(lexer, token, 8);
  if (has_prefix(text, 'd', 'D')) return real_from_bits(lexer, token, 16);
  const bool hex = has_prefix(text, 'x', 'X');
  if (!hex && text.find_first_of(".eE") != std::string_view::npos) {
    const std::string copy(text);
    char* end = nullptr;
    const double value = std::strtod(copy.c_str(), &end);
    if (end != copy.c_str() + copy.size()) lexer.fail(token, "this is not a number");
    return {Constant::Kind::real, false, false, std::bit_cast<std::int64_t>(value), {}};
  }
  const bool marked = text.back() == 'U';
  if (marked) text.remove_suffix(1);
  int base = 10;
  if (hex || has_prefix(text, 'b', 'B')) {
    base = hex ? 16 : 2;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text[0] == '0') {
    base = 8;
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size())
    lexer.fail(token, "this is not an integer of 64 bits");
  return {Constant::Kind::integer,
          false,
          marked || value >> 63 != 0,
          static_cast<std::int64_t>(value),
          {}};
}

struct Level {
  std::string_view sign;
  int precedence;
};
constexpr Level kLevels[] = {{"||", 1}, {"&&", 2}, {"|", 3}, {"^", 4},  {"&", 5},  {"==", 6},
                             {"!=", 6}, {"<", 7},  {">", 7}, {"<=", 7}, {">=", 7}, {"<<", 8},
                             {">>", 8}, {"+", 9},  {"-", 9}, {"*", 10}, {"/", 10}, {"%", 10}};

int precedence_of(const Token& token) {
  if (token.kind != Token::Kind::sign) return 0;
  for (const Level& level : kLevels)
    if (token.text == level.sign) return level.precedence;
  return 0;
}

std::int64_t divide(const Lexer& lexer, const Token& sign, std::uint64_t a, std::uint64_t b,
                    bool is_unsigned) {
  const bool rest = sign.text == "%";
  if (b == 0) lexer.fail(sign, "a constant is divided by zero");
  if (is_unsigned) return static_cast<std::int64_t>(rest ? a % b : a / b);
  const auto x = static_cast<std::int64_t>(a), y = static_cast<std::int64_t>(b);
  if (y == -1) return rest ? 0 : static_cast<std::int64_t>(0 - a);
  return rest ? x % y : x / y;
}

std::int64_t compare(std::string_view sign, std::int64_t x, std::int64_t y, bool is_unsigned) {
  const auto a = static_cast<std::uint64_t>(x), b = static_cast<std::uint64_t>(y);
  const bool less = is_unsigned ? a < b : x < y;
  if (sign == "==") return x == y;
  if (sign == "!=") return x != y;
  if (sign == "<") return less;
  if (sign == ">=") return !less;
  return sign == "<=" ? less || x == y : !less && x != y;
}

Constant combine(const Lexer& lexer, const Token& sign, const Constant& left,
                 const Constant& right) {
  const auto a = static_cast<std::uint64_t>(left.value);
  const auto b = static_cast<std::uint64_t>(right.value);
  const std::string_view s = sign.text;
  const bool sum = s == "+" || s == "-";
  if (left.kind == Constant::Kind::symbol && right.kind == Constant::Kind::integer && sum) {
    Constant result = left;
    result.value = static_cast<std::int64_t>(s == "+" ? a + b : a - b);
    return result;
  }
  if (left.kind != Constant::Kind::integer || right.kind != Constant::Kind::integer)
    lexer.fail(sign, "only integers can be combined in a constant");
  Constant result;
  result.is_unsigned = left.is_unsigned || right.is_unsigned;
  if (s == "+")
    result.value = static_cast<std::int64_t>(a + b);
  else if (s == "-")
    result.value = static_cast<std::int64_t>(a - b);
  else if (s == "*")
    result.value = static_cast<std::int64_t>(a * b);
  else if (s == "/" || s == "%")
    result.value = divide(lexer, sign, a, b, result.is_unsigned);
  else if (s == "&")
    result.value = left.value & right.value;
  else if (s == "|")
    result.value = left.value | right.value;
  else if (s == "^")
    result.value = left.value ^ right.value;
  else if (s == "<<")
    result.value = b > 63 ? 0 : static_cast<std::int64_t>(a << b);
  else if (s == ">>" && left.is_unsigned)
    result.value = b > 63 ? 0 : static_cast<std::int64_t>(a >> b);
  else if (s == ">>")
    result.value = left.value >> (b > 63 ? 63 : b);
  else if (s == "&&")
    result.value = left.value != 0 && right.value != 0;
  else if (s == "||")
    result.value = left.value != 0 || right.value != 0;
  else
    result.value = compare(s, left.value, right.value, result.is_unsigned);
  return result;
}

Constant parse_level(Lexer& lexer, int minimum, int depth);

Constant negated(const Lexer& lexer, const Token& sign, Constant operand) {
  const auto value = static_cast<std::uint64_t>(operand.value);
  if (operand.kind == Constant::Kind::real && sign.text == "-") {
    operand.value ^=
        operand.single ? std::int64_t{1} << 31 : std::numeric_limits<std::int64_t>::min();
    return operand;
  }
  if (operand.kind != Constant::Kind::integer) lexer.fail(sign, "this operator takes an integer");
  if (sign.text == "-") operand.value = static_cast<std::int64_t>(0 - value);
  if (sign.text == "~") operand.value = ~operand.value;
  if (sign.text == "!") operand.value = operand.value == 0;
  if (sign.text == "-") operand.is_unsigned = false;
  return operand;
}

Constant parse_primary(Lexer& lexer, int depth) {
  if (depth > kMaxDepth) lexer.fail_here("a constant is nested too deeply");
  const Token token = lexer.take();
  if (token.kind == Token::Kind::number) return number(lexer, token);
  if (token.is("-") || token.is("~") || token.is("!"))
    return negated(lexer, token, parse_primary(lexer, depth + 1));
  if (token.is("+")) return parse_primary(lexer, depth + 1);
  if (token.is("(")) {
    // A cast such as (.u64) or (.s64).
    if (lexer.peek().is(".s64") || lexer.peek().is(".u64")) {
      const bool is_unsigned = lexer.take().text == ".u64";
      lexer.expect(")");
      Constant operand = parse_primary(lexer, depth + 1);
      operand.is_unsigned = is_unsigned;
      return operand;
    }
    Constant inner = parse_level(lexer, 1, depth + 1);
    lexer.expect(")");
    return inner;
  }
  if (token.kind == Token::Kind::word && token.text == "generic" && lexer.take_if("(")) {
    Constant inner = parse_level(lexer, 1, depth + 1);
    lexer.expect(")");
    if (inner.kind != Constant::Kind::symbol) lexer.fail(token, "generic() takes a variable");
    return inner;
  }
  if (token.kind == Token::Kind::word) return {Constant::Kind::symbol, false, false, 0, token.text};
  lexer.fail(token, "a constant is expected");
}

Constant parse_level(Lexer& lexer, int minimum, int depth) {
  Constant left = parse_primary(lexer, depth);
  for (;;) {
    const int precedence = precedence_of(lexer.peek());
    if (precedence == 0 || precedence < minimum) return left;
    const Token sign = lexer.take();
    left = combine(lexer, sign, left, parse_level(lexer, precedence + 1, depth + 1));
  }
}

}  // namespace

Constant parse_constant(Lexer& lexer) { return parse_level(lexer, 4, 0); }

std::uint64_t parse_count(Lexer& lexer, std::uint64_t limit) {
  const Token at = lexer.peek();
  // Without comparisons, so that "%r<4>" ends at its bracket.
  const Constant constant = parse_level(lexer, 8, 0);
  const auto value = static_cast<std::uint64_t>(constant.value);
  if (constant.kind != Constant::Kind::integer || value > limit)
    lexer.fail(at, format("an integer from 0 to {} is expected", limit));
  return value;
}

}  // namespace kiln::emulator::ptx
