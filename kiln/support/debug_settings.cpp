#include "kiln/support/debug_settings.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <optional>

#include "kiln/support/environment.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/stack_trace.h"

namespace kiln {

namespace detail {
constinit std::atomic<bool> source_tracebacks{false};
constinit std::atomic<bool> device_sync_mode{false};
constinit std::atomic<bool> queue_order{false};
constinit std::atomic<bool> stack_trace_on_error{false};
constinit std::atomic<std::uint32_t> settings_changed{0};
}  // namespace detail

namespace {

enum class Type { flag, accelerator_flag, text, log_level, assert_level, print_style };

struct Property {
  std::string_view name;
  Type type;
  std::string_view default_value;
  std::string_view sensible;  // the value under `sensible`, when it has one
};

constexpr Property kProperties[] = {
    {"nan-check", Type::flag, "false", "true"},
    {"uninitialized-read-check", Type::accelerator_flag, "false", ""},
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

const Property& find(std::string_view name) {
  if (name == "sensible-mode") name = "sensible";
  for (const Property& property : kProperties)
    if (property.name == name) return property;
  throw KeyError(format("There is no debug setting '{}'; there are {}.", name,
                        join(DebugSettings::names(), ", ")));
}

std::string with_case(std::string_view text, int (*convert)(int)) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(convert(static_cast<unsigned char>(c)));
  return out;
}

struct Choices {
  std::initializer_list<std::string_view> values;
  bool has(std::string_view text) const {
    return std::find(values.begin(), values.end(), text) != values.end();
  }
};

constexpr Choices kLogLevels{
    {"", "notset", "trace", "debug", "info", "warning", "error", "critical"}};
constexpr Choices kAssertLevels{{"", "none", "warn", "safe", "all"}};
constexpr Choices kPrintStyles{{"COMPACT", "FULL", "BINARY", "BINARY_MAX_CHECKPOINT", "NONE"}};

/// The value in the form that is kept, or nothing for a value that the property does not take.
std::optional<std::string> normalised(const Property& property, std::string_view value) {
  std::string text = with_case(value, [](int c) { return std::tolower(c); });
  switch (property.type) {
    case Type::flag:
    case Type::accelerator_flag:
      if (const std::optional<bool> on = parse_bool(text)) return *on ? "true" : "false";
      return std::nullopt;
    case Type::log_level:
      return kLogLevels.has(text) ? std::optional(text) : std::nullopt;
    case Type::assert_level:
      return kAssertLevels.has(text) ? std::optional(text) : std::nullopt;
    case Type::print_style:
      text = with_case(value, [](int c) { return c == '-' ? '_' : std::toupper(c); });
      return kPrintStyles.has(text) ? std::optional(text) : std::nullopt;
    case Type::text:
      return std::string(value);
  }
  return std::nullopt;
}

void trim(std::string_view& text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
}

void follow(const DebugSettings& settings) {
  detail::source_tracebacks = settings.flag("source-tracebacks");
  detail::device_sync_mode = settings.flag("device-sync-mode");
  detail::queue_order = settings.flag("queue-order");
  detail::stack_trace_on_error = settings.flag("stack-trace-on-error");
  detail::settings_changed.fetch_add(1, std::memory_order_relaxed);
  trace_crashes(settings.flag("stack-trace-on-crash"));
}

// Read when the library is loaded, so that the flags above hold from the first call on.
[[maybe_unused]] const DebugSettings& loaded = debug_settings();

}  // namespace

std::string DebugSettings::get(std::string_view name) const {
  const Property& property = find(name);
  const std::lock_guard lock(mutex_);
  if (const auto set = values_.find(property.name); set != values_.end()) return set->second;
  if (!property.sensible.empty())
    if (const auto mode = values_.find("sensible"); mode != values_.end() && mode->second == "true")
      return std::string(property.sensible);
  return std::string(property.default_value);
}

void DebugSettings::set(std::string_view name, std::string value) {
  const Property& property = find(name);
  if (property.type == Type::accelerator_flag && value == "true")
    throw NotImplementedError(
        format("The debug setting '{}' watches accelerators, and this kiln runs on the CPU only; "
               "leave it off.",
               property.name));
  {
    const std::lock_guard lock(mutex_);
    values_.insert_or_assign(std::string(property.name), std::move(value));
  }
  if (changed_) changed_(*this);
}

void DebugSettings::set_from_text(std::string_view name, std::string_view value) {
  const Property& property = find(name);
  std::optional<std::string> text = normalised(property, value);
  if (!text)
    throw ValueError(format("The debug setting '{}' cannot be '{}'.", property.name, value));
  set(property.name, std::move(*text));
}

std::vector<std::string> DebugSettings::apply(std::string_view settings) {
  std::vector<std::string> complaints;
  while (!settings.empty()) {
    const std::size_t comma = settings.find(',');
    std::string_view item = settings.substr(0, comma);
    settings = comma == std::string_view::npos ? "" : settings.substr(comma + 1);
    trim(item);
    if (item.empty()) continue;
    const std::size_t equals = item.find('=');
    std::string_view name = item.substr(0, equals);
    std::string_view value = equals == std::string_view::npos ? "true" : item.substr(equals + 1);
    trim(name);
    trim(value);
    try {
      if (equals == std::string_view::npos && find(name).type == Type::text)
        throw ValueError(format("The debug setting '{}' needs a value, as in {}=TEXT.",
                                find(name).name, find(name).name));
      set_from_text(name, value);
    } catch (const Error& error) {
      complaints.push_back(error.message());
    }
  }
  return complaints;
}

void DebugSettings::reset() {
  {
    const std::lock_guard lock(mutex_);
    values_.clear();
  }
  if (changed_) changed_(*this);
}

std::vector<std::string> DebugSettings::names() {
  std::vector<std::string> names;
  for (const Property& property : kProperties) names.emplace_back(property.name);
  return names;
}

DebugSettings& debug_settings() {
  // Leaked: models that are destroyed at exit may still ask.
  static DebugSettings* settings = [] {
    auto* made = new DebugSettings(follow);
    if (const char* text = std::getenv("KILN_DEBUG"))
      for (const std::string& complaint : made->apply(text))
        std::fprintf(stderr, "kiln: warning: KILN_DEBUG: %s\n", complaint.c_str());
    return made;
  }();
  return *settings;
}

}  // namespace kiln
