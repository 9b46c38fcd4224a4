#pragma once

#include <cstdint>
#include <string_view>

#include "emulator/program/program.h"

namespace kiln::emulator::ptx {

struct Token {
  enum class Kind : std::uint8_t {
    end,
    word,    // an identifier, which may begin with % $ _
    dotted,  // ".word", where the word may hold "::"
    number,  // an integer or a real number as it is written
    string,  // without the quotes
    sign,    // one character, or << >> == != <= >= && ||
  };
  Kind kind = Kind::end;
  std::uint32_t line = 1;
  std::uint32_t at = 0;  // offset into the text
  std::string_view text;
  bool is(std::string_view sign) const { return kind != Kind::string && text == sign; }
};

/// Splits a text of PTX. Holds one token of look-ahead.
class Lexer {
 public:
  /// The text must outlive the tokens.
  explicit Lexer(std::string_view text);

  const Token& peek() const { return next_; }
  Token take();
  bool take_if(std::string_view sign);
  /// Throws LoadError unless the next token reads so.
  Token expect(std::string_view sign);
  Token expect(Token::Kind kind, std::string_view what);
  std::string_view text() const { return text_; }

  /// An error at a token, with its line and the text of that line.
  [[noreturn]] void fail(const Token& at, std::string_view sentence,
                         LoadError::Kind kind = LoadError::Kind::invalid) const;
  [[noreturn]] void fail_here(std::string_view sentence) const { fail(next_, sentence); }

 private:
  Token scan();
  void skip_blanks();
  Token scan_number();

  std::string_view text_;
  std::size_t position_ = 0;
  std::uint32_t line_ = 1;
  Token next_;
};

}  // namespace kiln::emulator::ptx
