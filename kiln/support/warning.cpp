#include "kiln/support/warning.h"

#include <cstdio>
#include <memory>
#include <mutex>

namespace kiln {
namespace {

struct State {
  std::mutex mutex;
  std::shared_ptr<const std::function<void(std::string_view)>> handler;
};

State& state() {
  static auto* instance = new State;  // leaked: threads may warn while the process ends
  return *instance;
}

}  // namespace

void set_warning_handler(std::function<void(std::string_view)> handler) {
  std::lock_guard lock(state().mutex);
  state().handler =
      handler ? std::make_shared<const std::function<void(std::string_view)>>(std::move(handler))
              : nullptr;
}

void warn(std::string_view text) {
  std::shared_ptr<const std::function<void(std::string_view)>> handler;
  {
    std::lock_guard lock(state().mutex);
    handler = state().handler;
  }
  // Called without the lock, so that a handler may warn or replace itself.
  if (handler)
    (*handler)(text);
  else
    std::fprintf(stderr, "kiln: warning: %.*s\n", static_cast<int>(text.size()), text.data());
}

}  // namespace kiln
