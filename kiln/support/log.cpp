#include "kiln/support/log.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <mutex>

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln {
namespace {

constexpr std::array<std::string_view, 7> kNames = {"NOTSET",  "TRACE", "DEBUG",   "INFO",
                                                    "WARNING", "ERROR", "CRITICAL"};

using Handler = std::function<void(LogLevel, std::string_view)>;

struct State {
  std::mutex mutex;
  std::shared_ptr<const Handler> handler;
};

State& state() {
  static auto* instance = new State;  // leaked: threads may log while the process ends
  return *instance;
}

}  // namespace

std::atomic<LogLevel> detail::log_level = LogLevel::WARNING;

std::string_view to_string(LogLevel level) { return kNames[static_cast<std::size_t>(level)]; }

LogLevel log_level_from_string(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (std::equal(name.begin(), name.end(), kNames[i].begin(), kNames[i].end(),
                   [](char a, char b) { return std::toupper(static_cast<unsigned char>(a)) == b; }))
      return static_cast<LogLevel>(i);
  throw ValueError(format("'{}' is not a log level; choose one of {}.", name, join(kNames, ", ")));
}

void set_log_level(LogLevel level) { detail::log_level.store(level, std::memory_order_relaxed); }

void log(LogLevel level, std::string_view line) {
  if (!logs(level)) return;
  std::shared_ptr<const Handler> handler;
  {
    std::lock_guard lock(state().mutex);
    handler = state().handler;
  }
  if (handler)
    (*handler)(level, line);
  else
    std::fprintf(stderr, "kiln: %s: %.*s\n", std::string(to_string(level)).c_str(),
                 static_cast<int>(line.size()), line.data());
}

void set_log_handler(Handler handler) {
  std::lock_guard lock(state().mutex);
  state().handler = handler ? std::make_shared<const Handler>(std::move(handler)) : nullptr;
}

}  // namespace kiln
