#include "emulator/ptx/lexer.h"

#include <array>

#include "kiln/support/format.h"

namespace kiln::emulator::ptx {
namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool starts_word(char c) { return is_letter(c) || c == '_' || c == '$' || c == '%'; }
constexpr bool continues_word(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '$';
}

constexpr std::array<std::string_view, 8> kDoubleSigns = {
    "<<", ">>", "==", "!=", "<=", ">=", "&&", "||"};

std::string printable(std::string_view text) {
  std::string result;
  for (char c : text.substr(0, 160)) result += c >= ' ' && c < 127 ? c : '?';
  return result;
}

}  // namespace

Lexer::Lexer(std::string_view text) : text_(text) { next_ = scan(); }

Token Lexer::take() {
  Token token = next_;
  next_ = scan();
  return token;
}

bool Lexer::take_if(std::string_view sign) {
  if (!next_.is(sign)) return false;
  take();
  return true;
}

Token Lexer::expect(std::string_view sign) {
  if (!next_.is(sign)) fail_here(format("'{}' is expected", sign));
  return take();
}

Token Lexer::expect(Token::Kind kind, std::string_view what) {
  if (next_.kind != kind) fail_here(format("{} is expected", what));
  return take();
}

void Lexer::fail(const Token& at, std::string_view sentence, LoadError::Kind kind) const {
  std::size_t begin = text_.rfind('\n', at.at == 0 ? 0 : at.at - 1);
  begin = begin == std::string_view::npos || begin >= at.at ? 0 : begin + 1;
  const std::size_t end = text_.find('\n', at.at);
  const std::string_view line =
      text_.substr(begin, end == std::string_view::npos ? end : end - begin);
  const std::string found =
      at.kind == Token::Kind::end ? "the end of the text" : format("'{}'", printable(at.text));
  throw LoadError(kind, format("Line {} of the PTX: {}, found {}. The line reads: {}", at.line,
                               sentence, found, printable(line)));
}

void Lexer::skip_blanks() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '\n') {
      ++line_;
      ++position_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++position_;
    } else if (text_.substr(position_, 2) == "//") {
      const std::size_t end = text_.find('\n', position_);
      position_ = end == std::string_view::npos ? text_.size() : end;
    } else if (text_.substr(position_, 2) == "/*") {
      const std::size_t end = text_.find("*/", position_ + 2);
      if (end == std::string_view::npos) {
        Token open{Token::Kind::sign, line_, static_cast<std::uint32_t>(position_),
                   text_.substr(position_, 2)};
        fail(open, "a comment is never closed");
      }
      for (std::size_t i = position_; i < end; ++i) line_ += text_[i] == '\n';
      position_ = end + 2;
    } else {
      break;
    }
  }
}

// 12, 0x1F, 017, 0b11, 12U, 0f3F800000, 0d..., 1.5, 1e5
Token Lexer::scan_number() {
  Token token{Token::Kind::number, line_, static_cast<std::uint32_t>(position_), {}};
  std::size_t end = position_;
  while (end < text_.size()) {
    const char c = text_[end];
    const bool exponent_sign =
        (c == '+' || c == '-') && (text_[end - 1] == 'e' || text_[end - 1] == 'E') &&
        text_.substr(position_, 2) != "0x" && text_.substr(position_, 2) != "0X" &&
        text_.substr(position_, 2) != "0f" && text_.substr(position_, 2) != "0F" &&
        text_.substr(position_, 2) != "0d" && text_.substr(position_, 2) != "0D";
    const bool point = c == '.' && end + 1 < text_.size() && is_digit(text_[end + 1]);
    if (!is_digit(c) && !is_letter(c) && !exponent_sign && !point) break;
    ++end;
  }
  token.text = text_.substr(position_, end - position_);
  position_ = end;
  return token;
}

Token Lexer::scan() {
  skip_blanks();
  Token token{Token::Kind::end, line_, static_cast<std::uint32_t>(position_), {}};
  if (position_ >= text_.size()) return token;
  const char c = text_[position_];
  std::size_t end = position_ + 1;
  const char after = end < text_.size() ? text_[end] : '\0';
  if (is_digit(c)) return scan_number();
  if (starts_word(c)) {
    token.kind = Token::Kind::word;
    while (end < text_.size() && continues_word(text_[end])) ++end;
  } else if (c == '.' && (continues_word(after))) {
    token.kind = Token::Kind::dotted;
    while (end < text_.size()) {
      if (continues_word(text_[end])) {
        ++end;
      } else if (text_.substr(end, 2) == "::") {
        end += 2;
      } else {
        break;
      }
    }
  } else if (c == '"') {
    token.kind = Token::Kind::string;
    while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') ++end;
    if (end >= text_.size() || text_[end] != '"') {
      token.text = text_.substr(position_, 1);
      fail(token, "a string is never closed");
    }
    token.text = text_.substr(position_ + 1, end - position_ - 1);
    position_ = end + 1;
    return token;
  } else {
    token.kind = Token::Kind::sign;
    for (std::string_view pair : kDoubleSigns)
      if (text_.substr(position_, 2) == pair) end = position_ + 2;
  }
  token.text = text_.substr(position_, end - position_);
  position_ = end;
  return token;
}

}  // namespace kiln::emulator::ptx
