#include "kiln/graph/location.h"

#include <cstdlib>
#include <string_view>

namespace kiln::graph {
namespace {

std::atomic<LocationProvider> provider{nullptr};

bool listed_in_environment() {
  const char* value = std::getenv("KILN_DEBUG");
  std::string_view list = value ? value : "";
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == "source-tracebacks") return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

std::atomic<bool>& tracebacks() {
  static std::atomic<bool> on{listed_in_environment()};
  return on;
}

struct Active {
  bool set = false;
  Location location;
  ir::SourceLocation made;  // once an op has asked, since many ops share a line
};
thread_local Active active;

}  // namespace

void set_location_provider(LocationProvider p) { provider = p; }
bool source_tracebacks() { return tracebacks(); }
void set_source_tracebacks(bool on) { tracebacks() = on; }

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
