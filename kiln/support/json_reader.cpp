#include "kiln/support/json_reader.h"

#include <charconv>

#include "kiln/support/format.h"

namespace kiln {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Length of the UTF-8 sequence at the start of `text`, or 0 when it is none.
std::size_t utf8_length(std::string_view text) {
  auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  auto continues = [&](std::size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (!continues(1) || !continues(2)) return 0;
    if (lead == 0xE0 && byte(1) < 0xA0) return 0;  // overlong
    if (lead == 0xED && byte(1) > 0x9F) return 0;  // surrogate
    return 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (!continues(1) || !continues(2) || !continues(3)) return 0;
    if (lead == 0xF0 && byte(1) < 0x90) return 0;
    if (lead == 0xF4 && byte(1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}

void append_utf8(std::string& out, std::uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

}  // namespace

void JsonReader::fail(std::string_view what) const {
  throw JsonError(format("{} at byte {}", what, position_));
}

void JsonReader::skip_space() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') break;
    ++position_;
  }
}

void JsonReader::expect(char c) {
  skip_space();
  if (position_ >= text_.size() || text_[position_] != c) fail(format("expected '{}'", c));
  ++position_;
}

void JsonReader::enter() {
  if (++depth_ > kMaxDepth) fail("too many nested values");
  first_ = true;
}

JsonReader::Kind JsonReader::peek() {
  skip_space();
  if (position_ >= text_.size()) fail("the text ends early");
  switch (text_[position_]) {
    case '{':
      return Kind::object;
    case '[':
      return Kind::array;
    case '"':
      return Kind::string;
    case 't':
    case 'f':
      return Kind::boolean;
    case 'n':
      return Kind::null;
    default:
      break;
  }
  if (text_[position_] == '-' || is_digit(text_[position_])) return Kind::number;
  fail("expected a value");
}

void JsonReader::begin_object() {
  expect('{');
  enter();
}

void JsonReader::begin_array() {
  expect('[');
  enter();
}

/// Steps to the next member of the innermost object or array; false when it closes.
bool JsonReader::separator(char closing) {
  skip_space();
  if (position_ < text_.size() && text_[position_] == closing) {
    ++position_;
    --depth_;
    first_ = false;  // the object or array that ended was a member of the one around it
    return false;
  }
  if (!first_) expect(',');
  first_ = false;
  return true;
}

bool JsonReader::next_key(std::string& key) {
  if (!separator('}')) return false;
  key = string();
  expect(':');
  return true;
}

bool JsonReader::next_element() { return separator(']'); }

std::uint32_t JsonReader::hex4() {
  if (text_.size() - position_ < 4) fail("the text ends early");
  std::uint32_t code = 0;
  const char* begin = text_.data() + position_;
  const auto [end, error] = std::from_chars(begin, begin + 4, code, 16);
  if (error != std::errc() || end != begin + 4) fail("expected four hexadecimal digits");
  position_ += 4;
  return code;
}

template <typename Sink>
void JsonReader::scan_string(Sink&& sink) {
  expect('"');
  while (true) {
    if (position_ >= text_.size()) fail("the text ends early");
    const char c = text_[position_];
    if (c == '"') {
      ++position_;
      return;
    }
    if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a string");
    if (c != '\\') {
      const std::size_t length = utf8_length(text_.substr(position_, 4));
      if (length == 0) fail("bytes that are not UTF-8");
      sink.raw(text_.substr(position_, length));
      position_ += length;
      continue;
    }
    if (++position_ >= text_.size()) fail("the text ends early");
    const char escape = text_[position_++];
    switch (escape) {
      case '"':
      case '\\':
      case '/':
        sink.code(static_cast<unsigned char>(escape));
        break;
      case 'b':
        sink.code('\b');
        break;
      case 'f':
        sink.code('\f');
        break;
      case 'n':
        sink.code('\n');
        break;
      case 'r':
        sink.code('\r');
        break;
      case 't':
        sink.code('\t');
        break;
      case 'u': {
        std::uint32_t code = hex4();
        if (code >= 0xD800 && code <= 0xDBFF) {
          if (text_.substr(position_, 2) != "\\u") fail("half of a surrogate pair");
          position_ += 2;
          const std::uint32_t low = hex4();
          if (low < 0xDC00 || low > 0xDFFF) fail("half of a surrogate pair");
          code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        } else if (code >= 0xDC00 && code <= 0xDFFF) {
          fail("half of a surrogate pair");
        }
        sink.code(code);
        break;
      }
      default:
        fail("an unknown escape");
    }
  }
}

std::string JsonReader::string() {
  struct Sink {
    const JsonReader& reader;
    std::string value;
    void raw(std::string_view text) {
      value += text;
      check();
    }
    void code(std::uint32_t code) {
      append_utf8(value, code);
      check();
    }
    void check() const {
      if (value.size() > reader.longest_)
        reader.fail(format("a string of more than {} bytes", reader.longest_));
    }
  } sink{*this, {}};
  scan_string(sink);
  return std::move(sink.value);
}

std::string_view JsonReader::number() {
  skip_space();
  const std::size_t begin = position_;
  auto at = [&](char c) { return position_ < text_.size() && text_[position_] == c; };
  auto digits = [&] {
    if (position_ >= text_.size() || !is_digit(text_[position_])) fail("expected a digit");
    while (position_ < text_.size() && is_digit(text_[position_])) ++position_;
  };
  if (at('-')) ++position_;
  if (at('0'))
    ++position_;
  else
    digits();
  if (at('.')) {
    ++position_;
    digits();
  }
  if (at('e') || at('E')) {
    ++position_;
    if (at('+') || at('-')) ++position_;
    digits();
  }
  return text_.substr(begin, position_ - begin);
}

std::int64_t JsonReader::integer() {
  const std::string_view text = number();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail(format("'{}' is not a 64-bit integer", text.substr(0, 40)));
  return value;
}

std::uint64_t JsonReader::unsigned_integer() {
  const std::string_view text = number();
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail(format("'{}' is not a 64-bit unsigned integer", text.substr(0, 40)));
  return value;
}

bool JsonReader::boolean() {
  skip_space();
  for (bool value : {true, false}) {
    const std::string_view word = value ? "true" : "false";
    if (text_.substr(position_, word.size()) == word) {
      position_ += word.size();
      return value;
    }
  }
  fail("expected true or false");
}

void JsonReader::null() {
  skip_space();
  if (text_.substr(position_, 4) != "null") fail("expected null");
  position_ += 4;
}

void JsonReader::skip() {
  struct Sink {
    void raw(std::string_view) {}
    void code(std::uint32_t) {}
  } nowhere;
  switch (peek()) {
    case Kind::object:
      begin_object();
      while (separator('}')) {
        scan_string(nowhere);
        expect(':');
        skip();
      }
      break;
    case Kind::array:
      for (begin_array(); next_element();) skip();
      break;
    case Kind::string:
      scan_string(nowhere);
      break;
    case Kind::number:
      number();
      break;
    case Kind::boolean:
      boolean();
      break;
    case Kind::null:
      null();
      break;
  }
}

std::size_t JsonReader::count_elements() {
  const JsonReader saved = *this;
  std::size_t count = 0;
  for (begin_array(); next_element(); ++count) skip();
  *this = saved;
  return count;
}

void JsonReader::finish() {
  skip_space();
  if (position_ != text_.size()) fail("text after the end");
}

}  // namespace kiln
