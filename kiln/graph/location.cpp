#include "kiln/graph/location.h"

#include "kiln/support/debug_settings.h"

namespace kiln::graph {
namespace {

std::atomic<LocationProvider> provider{nullptr};

struct Active {
  bool set = false;
  Location location;
  ir::SourceLocation made;  // once an op has asked, since many ops share a line
};
thread_local Active active;

}  // namespace

void set_location_provider(LocationProvider p) { provider = p; }
bool source_tracebacks() { return kiln::detail::source_tracebacks.load(std::memory_order_relaxed); }
void set_source_tracebacks(bool on) {
  debug_settings().set("source-tracebacks", on ? "true" : "false");
}

LocationScope::LocationScope(const Location& location) : outermost_(!active.set) {
  if (!outermost_) return;
  active.set = true;
  active.location = location;
}

LocationScope::~LocationScope() {
  if (!outermost_) return;
  active.set = false;
  active.made = nullptr;
}

ir::SourceLocation current_location() {
  if (active.made) return active.made;
  ir::SourceLocation location;
  if (LocationProvider ask = provider) location = ask(source_tracebacks());
  if (!location && active.set)
    location = std::make_shared<std::vector<ir::SourceFrame>>(std::vector<ir::SourceFrame>{
        {active.location.file_name(), static_cast<int>(active.location.line()), ""}});
  if (active.set) active.made = location;
  return location;
}

}  // namespace kiln::graph
