#include "kiln/graph/location.h"

#include <fstream>

#include "kiln/support/debug_settings.h"

namespace kiln::graph {
namespace {

std::atomic<LocationProvider> provider{nullptr};

/// The line of a source file, or a text that says that there is none.
std::string source_line(const std::string& file, int number) {
  std::ifstream stream(file);
  std::string line;
  for (int i = 0; i < number; ++i)
    if (!std::getline(stream, line)) return "(source line not available)";
  const std::size_t first = line.find_first_not_of(" \t");
  return first == std::string::npos ? "(source line not available)" : line.substr(first);
}

/// A full traceback has a line of source for every frame, which also tells it from a lone place.
ir::SourceLocation with_source_lines(std::vector<ir::SourceFrame> frames) {
  for (ir::SourceFrame& frame : frames)
    if (frame.text.empty()) frame.text = source_line(frame.file, frame.line);
  return std::make_shared<const std::vector<ir::SourceFrame>>(std::move(frames));
}

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

LocationScope::LocationScope(const ir::SourceLocation& made) : outermost_(!active.set && made) {
  if (!outermost_) return;
  active.set = true;
  active.made = made;
}

LocationScope::~LocationScope() {
  if (!outermost_) return;
  active.set = false;
  active.made = nullptr;
}

UserCodeScope::UserCodeScope()
    : set_(active.set), location_(active.location), made_(std::move(active.made)) {
  active.set = false;
  active.made = nullptr;
}

UserCodeScope::~UserCodeScope() {
  active.set = set_;
  active.location = location_;
  active.made = std::move(made_);
}

ir::SourceLocation current_location() {
  if (active.made) return active.made;
  ir::SourceLocation location;
  if (LocationProvider ask = provider) location = ask(source_tracebacks());
  if (!location && active.set)
    location = std::make_shared<std::vector<ir::SourceFrame>>(std::vector<ir::SourceFrame>{
        {active.location.file_name(), static_cast<int>(active.location.line()), ""}});
  if (location && source_tracebacks()) location = with_source_lines(*location);
  if (active.set) active.made = location;
  return location;
}

}  // namespace kiln::graph
