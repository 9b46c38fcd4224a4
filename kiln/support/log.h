#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

namespace kiln {

/// How much a log line matters; as in Python's logging.
enum class LogLevel : std::uint8_t { NOTSET, TRACE, DEBUG, INFO, WARNING, ERROR, CRITICAL };

/// The name of a level, such as "INFO".
std::string_view to_string(LogLevel level);
/// The level of this name in any case. Unknown name: ValueError.
LogLevel log_level_from_string(std::string_view name);

namespace detail {
extern std::atomic<LogLevel> log_level;
}

/// Lines below `level` are dropped; WARNING at first.
void set_log_level(LogLevel level);
/// Whether lines of `level` are kept; asked before a line is put together.
inline bool logs(LogLevel level) {
  return level >= detail::log_level.load(std::memory_order_relaxed);
}
/// Writes one line to the log handler, which prints to standard error at first.
void log(LogLevel level, std::string_view line);
/// Replaces what happens to lines; an empty handler restores the default.
void set_log_handler(std::function<void(LogLevel, std::string_view)> handler);

}  // namespace kiln
