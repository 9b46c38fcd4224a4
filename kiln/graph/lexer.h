#pragma once

// Characters of the IR text, with positions for messages. Internal to kiln/graph.

#include <cstdint>
#include <string>
#include <string_view>

namespace kiln::graph::ir {

class Lexer {
 public:
  Lexer(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  /// ValueError "file:line:column: reason" at the next token, or at `position`.
  [[noreturn]] void fail(const std::string& reason);
  [[noreturn]] void fail_at(std::size_t position, const std::string& reason) const;
  /// Where the next token starts.
  std::size_t position();

  std::string_view text() const { return text_; }
  bool at_end() { return position() == text_.size(); }
  /// Whether `token` comes next; words only as a whole.
  bool peek(std::string_view token);
  /// Takes `token` if it comes next.
  bool accept(std::string_view token);
  void expect(std::string_view token);
  /// A name of letters, digits and '_' that does not start with a digit.
  std::string identifier();
  /// Names joined by '.', such as "buffer.load".
  std::string dotted();
  /// The characters of a graph's name or a value's name, or a quoted string.
  std::string symbol();
  std::int64_t integer();
  /// Everything up to one of the characters ",)]}>" or blank space.
  std::string number();
  std::string string();
  /// What stands between quotes, without escapes.
  std::string_view raw_string();

 private:
  void skip_blank();

  std::string_view text_;
  std::string_view file_;
  std::size_t at_ = 0;
};

}  // namespace kiln::graph::ir
