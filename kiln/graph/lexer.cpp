#include "kiln/graph/lexer.h"

#include <charconv>

#include "kiln/graph/symbol_text.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph::ir {
namespace {

bool is_word_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word(char c) { return is_word_start(c) || (c >= '0' && c <= '9'); }

}  // namespace

void Lexer::fail(const std::string& reason) { fail_at(position(), reason); }

void Lexer::fail_at(std::size_t position, const std::string& reason) const {
  std::size_t line = 1, column = 1;
  for (std::size_t i = 0; i < position; ++i) {
    ++column;
    if (text_[i] == '\n') ++line, column = 1;
  }
  throw ValueError(format("{}:{}:{}: {}", file_, line, column, reason));
}

void Lexer::skip_blank() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
    ++at_;
}

std::size_t Lexer::position() {
  skip_blank();
  return at_;
}

bool Lexer::peek(std::string_view token) {
  skip_blank();
  if (text_.substr(at_, token.size()) != token) return false;
  const std::size_t end = at_ + token.size();
  return !is_word(token.back()) || end >= text_.size() || !is_word(text_[end]);
}

bool Lexer::accept(std::string_view token) {
  if (!peek(token)) return false;
  at_ += token.size();
  return true;
}

void Lexer::expect(std::string_view token) {
  if (!accept(token)) fail(format("expected '{}'", token));
}

std::string Lexer::identifier() {
  skip_blank();
  std::size_t end = at_;
  if (end < text_.size() && is_word_start(text_[end]))
    while (end < text_.size() && is_word(text_[end])) ++end;
  if (end == at_) fail("expected a name");
  std::string name(text_.substr(at_, end - at_));
  at_ = end;
  return name;
}

std::string Lexer::dotted() {
  std::string name = identifier();
  while (at_ < text_.size() && text_[at_] == '.') {
    ++at_;
    name += "." + identifier();
  }
  return name;
}

std::string Lexer::symbol() {
  skip_blank();
  if (peek("\"")) return string();
  std::size_t end = at_;
  while (end < text_.size() && is_symbol_char(text_[end])) ++end;
  if (end == at_) fail("expected a name");
  std::string name(text_.substr(at_, end - at_));
  at_ = end;
  return name;
}

std::int64_t Lexer::integer() {
  skip_blank();
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (error == std::errc::result_out_of_range) fail("the number does not fit in 64 bits");
  if (error != std::errc()) fail("expected an int");
  at_ = static_cast<std::size_t>(end - text_.data());
  return value;
}

std::string Lexer::number() {
  skip_blank();
  std::size_t end = at_;
  while (end < text_.size() &&
         std::string_view(",)]}> \n\t\r").find(text_[end]) == std::string_view::npos)
    ++end;
  std::string text(text_.substr(at_, end - at_));
  if (text.empty()) fail("expected a number");
  at_ = end;
  return text;
}

std::string_view Lexer::raw_string() {
  expect("\"");
  const std::size_t begin = at_;
  const std::size_t end = text_.find('"', at_);
  if (end == std::string_view::npos) fail_at(begin, "the string has no end");
  at_ = end + 1;
  return text_.substr(begin, end - begin);
}

std::string Lexer::string() {
  expect("\"");
  const std::size_t begin = at_;
  std::string out;
  while (at_ < text_.size() && text_[at_] != '"') {
    char c = text_[at_++];
    if (c != '\\') {
      out += c;
      continue;
    }
    char escape = at_ < text_.size() ? text_[at_++] : '\0';
    switch (escape) {
      case '"':
      case '\\':
        out += escape;
        break;
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'r':
        out += '\r';
        break;
      case 'x': {
        unsigned value = 0;
        const std::size_t stop = std::min(at_ + 2, text_.size());
        auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + stop, value, 16);
        if (error != std::errc() || end != text_.data() + at_ + 2)
          fail_at(at_, "\\x takes two hexadecimal digits");
        out += static_cast<char>(value);
        at_ += 2;
        break;
      }
      default:
        fail_at(at_ - 1, "unknown escape in a string");
    }
  }
  if (at_ >= text_.size()) fail_at(begin, "the string has no end");
  ++at_;
  return out;
}

}  // namespace kiln::graph::ir
