#include "kiln/engine/debug_config.h"

#include <cstdio>
#include <cstdlib>

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::engine {
namespace {

enum class Type { flag, text, log_level, assert_level, print_style };

struct Property {
  std::string_view name;
  Type type;
  std::string_view default_value;
  std::string_view sensible;  // the value under sensible_mode, when it has one
};

constexpr Property kProperties[] = {
    {"nan-check", Type::flag, "false", "true"},
    {"uninitialized-read-check", Type::flag, "false", ""},
    {"device-sync-mode", Type::flag, "false", "true"},
    {"queue-order", Type::flag, "false", ""},
    {"stack-trace-on-error", Type::flag, "false", "true"},
    {"stack-trace-on-crash", Type::flag, "false", "true"},
    {"source-tracebacks", Type::flag, "false", "true"},
    {"op-log-level", Type::log_level, "", ""},
    {"assert-level", Type::assert_level, "", "all"},
    {"print-style", Type::print_style, "NONE", ""},
    {"ir-output-dir", Type::text, "", ""},
    {"profiling-output-path", Type::text, "kiln_trace.json", ""},
    {"sensible", Type::flag, "false", ""},
};

const Property* find(std::string_view name) {
  for (const Property& property : kProperties)
    if (property.name == name) return &property;
  return nullptr;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

bool one_of(std::string_view value, std::initializer_list<std::string_view> choices) {
  return std::find(choices.begin(), choices.end(), value) != choices.end();
}

/// The value in the form that is kept, or nothing for a value that the property does not take.
std::optional<std::string> normalised(const Property& property, std::string_view value) {
  const std::string text = lower(value);
  switch (property.type) {
    case Type::flag:
      if (one_of(text, {"1", "true", "yes", "on"})) return "true";
      if (one_of(text, {"0", "false", "no", "off"})) return "false";
      return std::nullopt;
    case Type::log_level:
      if (one_of(text, {"", "notset", "trace", "debug", "info", "warning", "error", "critical"}))
        return text;
      return std::nullopt;
    case Type::assert_level:
      if (one_of(text, {"", "none", "warn", "safe", "all"})) return text;
      return std::nullopt;
    case Type::print_style:
      try {
        return std::string(to_string(print_style_from_string(value)));
      } catch (const TypeError&) {
        return std::nullopt;
      }
    case Type::text:
      return std::string(value);
  }
  return std::nullopt;
}

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

std::string DebugConfig::text(std::string_view name) const {
  const Property* property = find(name);
  KILN_CHECK(property != nullptr, std::string(name));
  const std::lock_guard lock(mutex_);
  if (const auto set = values_.find(name); set != values_.end()) return set->second;
  if (!property->sensible.empty())
    if (const auto mode = values_.find("sensible"); mode != values_.end() && mode->second == "true")
      return std::string(property->sensible);
  return std::string(property->default_value);
}

bool DebugConfig::flag(std::string_view name) const { return text(name) == "true"; }

void DebugConfig::set(std::string_view name, std::string value) {
  const std::lock_guard lock(mutex_);
  values_.insert_or_assign(std::string(name), std::move(value));
}

PrintStyle DebugConfig::print_style() const { return print_style_from_string(text("print-style")); }

void DebugConfig::set_print_style(PrintStyle style) {
  set("print-style", std::string(to_string(style)));
}

void DebugConfig::check_assert_level() const {
  const std::string level = assert_level();
  if (!one_of(lower(level), {"", "none", "warn", "safe", "all"}))
    throw TypeError(
        format("Invalid assert level ({}). Please use one of: NONE, WARN, SAFE, ALL", level));
}

std::string DebugConfig::get(std::string_view name) const {
  if (find(name) == nullptr) throw KeyError(format("There is no debug setting '{}'.", name));
  return text(name);
}

void DebugConfig::set_from_text(std::string_view name, std::string_view value) {
  const Property* property = find(name == "sensible-mode" ? "sensible" : name);
  if (property == nullptr) throw KeyError(format("There is no debug setting '{}'.", name));
  std::optional<std::string> text = normalised(*property, value);
  if (!text)
    throw ValueError(format("The debug setting '{}' cannot be '{}'.", property->name, value));
  set(property->name, std::move(*text));
}

std::vector<std::string> DebugConfig::names() {
  std::vector<std::string> names;
  for (const Property& property : kProperties) names.emplace_back(property.name);
  return names;
}

void DebugConfig::reset() {
  const std::lock_guard lock(mutex_);
  values_.clear();
}

std::vector<std::string> DebugConfig::apply(std::string_view settings) {
  std::vector<std::string> complaints;
  while (!settings.empty()) {
    const std::size_t comma = settings.find(',');
    std::string_view item = settings.substr(0, comma);
    settings = comma == std::string_view::npos ? "" : settings.substr(comma + 1);
    while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
    while (!item.empty() && item.back() == ' ') item.remove_suffix(1);
    if (item.empty()) continue;
    const std::size_t equals = item.find('=');
    const std::string_view name = item.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? "true" : item.substr(equals + 1);
    try {
      set_from_text(name, value);
    } catch (const Error& error) {
      complaints.push_back(error.message());
    }
  }
  return complaints;
}

DebugConfig& debug_config() {
  // Leaked: models that are destroyed at exit may still ask.
  static DebugConfig* config = [] {
    auto* made = new DebugConfig;
    if (const char* settings = std::getenv("KILN_DEBUG"))
      for (const std::string& complaint : made->apply(settings))
        std::fprintf(stderr, "kiln: warning: KILN_DEBUG: %s\n", complaint.c_str());
    return made;
  }();
  return *config;
}

}  // namespace kiln::engine
