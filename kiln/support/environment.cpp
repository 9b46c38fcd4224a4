#include "kiln/support/environment.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "kiln/support/format.h"
#include "kiln/support/warning.h"

namespace kiln {

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::optional<bool> parse_bool(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* yes : {"1", "true", "yes", "on"})
    if (lower == yes) return true;
  for (const char* no : {"0", "false", "no", "off"})
    if (lower == no) return false;
  return std::nullopt;
}

bool environment_flag(const char* name, bool fallback) {
  const std::optional<std::string> value = environment(name);
  if (!value) return fallback;
  if (const std::optional<bool> flag = parse_bool(*value)) return *flag;
  warn(format(
      "The environment variable {} is '{}', which is no boolean (1, true, yes, on, 0, false, "
      "no, off); {} is used.",
      name, *value, fallback));
  return fallback;
}

std::optional<std::int64_t> environment_integer(const char* name, std::int64_t least,
                                                std::int64_t most) {
  const std::optional<std::string> value = environment(name);
  if (!value) return std::nullopt;
  std::string_view text = *value;
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) {
    warn(format("The environment variable {} is '{}', which is no integer; it is ignored.", name,
                *value));
    return std::nullopt;
  }
  if (number < least || number > most) {
    warn(format("The environment variable {} is {}, but must lie between {} and {}; it is ignored.",
                name, number, least, most));
    return std::nullopt;
  }
  return number;
}

}  // namespace kiln
