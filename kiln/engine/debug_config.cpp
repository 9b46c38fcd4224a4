#include "kiln/engine/debug_config.h"

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::engine {
namespace {

constexpr std::pair<std::string_view, PrintStyle> kStyles[] = {
    {"COMPACT", PrintStyle::COMPACT},
    {"FULL", PrintStyle::FULL},
    {"BINARY", PrintStyle::BINARY},
    {"BINARY_MAX_CHECKPOINT", PrintStyle::BINARY_MAX_CHECKPOINT},
    {"NONE", PrintStyle::NONE}};

}  // namespace

PrintStyle print_style_from_string(std::string_view name) {
  std::string upper(name);
  for (char& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  for (char& c : upper)
    if (c == '-') c = '_';
  for (const auto& [spelling, style] : kStyles)
    if (spelling == upper) return style;
  throw TypeError(
      "Invalid debug print style. Please use one of 'COMPACT', 'FULL', 'BINARY', "
      "'BINARY_MAX_CHECKPOINT', or 'NONE'.");
}

std::string_view to_string(PrintStyle style) {
  for (const auto& [spelling, value] : kStyles)
    if (value == style) return spelling;
  return "NONE";
}

PrintStyle DebugConfig::print_style() const { return print_style_from_string(text("print-style")); }

void DebugConfig::set_print_style(PrintStyle style) {
  set("print-style", std::string(to_string(style)));
}

void DebugConfig::check_assert_level() const {
  const std::string level = assert_level();
  if (level.empty()) return;
  try {
    DebugSettings().set_from_text("assert-level", level);
  } catch (const ValueError&) {
    throw TypeError(
        format("Invalid assert level ({}). Please use one of: NONE, WARN, SAFE, ALL", level));
  }
}

DebugConfig& debug_config() {
  static auto* config = new DebugConfig(debug_settings());  // leaked, as the settings are
  return *config;
}

}  // namespace kiln::engine
