#include "kiln/engine/program_places.h"

#include <charconv>

#include "kiln/support/format.h"

namespace kiln::engine {
namespace {

// The file name that stands for a number; the compiler writes it as "<op>:17".
constexpr std::string_view kFile = "<op>";

}  // namespace

std::string place_text(const std::vector<graph::ir::SourceFrame>& frames) {
  if (frames.empty()) return "";
  if (frames.front().text.empty()) return format("{}:{}", frames.front().file, frames.front().line);
  std::string text = "Source Traceback:\n";
  for (const graph::ir::SourceFrame& frame : frames)
    text += format("  {}:{}\n    {}\n", frame.file, frame.line, frame.text);
  return text + "\n";
}

ProgramPlaces::ProgramPlaces(const graph::ir::Module& module)
    : numbered_(graph::ir::clone(module)) {
  for (std::size_t i = 0; i < module.graphs.size(); ++i)
    if (module.graphs[i]->body) number(*module.graphs[i]->body, *numbered_->graphs[i]->body);
}

void ProgramPlaces::number(const graph::ir::Block& block, graph::ir::Block& copy) {
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    const graph::ir::Op& op = *block.ops[i];
    if (op.location != nullptr && !op.location->empty()) {
      has_tracebacks_ = has_tracebacks_ || !op.location->front().text.empty();
      copy.ops[i]->location = std::make_shared<const std::vector<graph::ir::SourceFrame>>(
          1, graph::ir::SourceFrame{std::string(kFile), static_cast<int>(places_.size()), ""});
      places_.push_back(op.location);
    }
    for (std::size_t region = 0; region < op.regions.size(); ++region)
      number(*op.regions[region], *copy.ops[i]->regions[region]);
  }
}

std::string ProgramPlaces::restore(std::string text) const {
  const std::string mark = std::string(kFile) + ":";
  for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos;) {
    std::size_t number = 0;
    const char* begin = text.data() + at + mark.size();
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
    if (error != std::errc() || number >= places_.size()) {
      at += mark.size();
      continue;
    }
    std::string place = place_text(*places_[number]);
    auto length = static_cast<std::size_t>(end - (text.data() + at));
    // A traceback in place of "(file:line)." gets lines of its own.
    if (place.ends_with("\n\n") && at >= 2 && text.compare(at - 2, 2, " (") == 0 &&
        text.compare(at + length, 2, ").") == 0) {
      at -= 2;
      length += 4;
      place = ".\n" + place.substr(0, place.size() - 2);
    }
    text.replace(at, length, place);
    at += place.size();
  }
  return text;
}

void ProgramPlaces::restore(std::vector<runtime::ProgramLocation>& locations) const {
  for (runtime::ProgramLocation& location : locations)
    location.text = restore(std::move(location.text));
}

bool has_numbered_places(std::string_view text) {
  return text.find(std::string(kFile) + ":") != std::string_view::npos;
}

std::string failure_with_places(const std::string& text, const graph::ir::Module& module) {
  if (!has_numbered_places(text)) return text;
  const ProgramPlaces places(module);
  if (!places.has_tracebacks()) return places.restore(text);
  // A full traceback takes the place of the line that names one.
  const std::size_t mark = text.find(std::string(kFile) + ":");
  const std::size_t begin = text.rfind('\n', mark) + 1, end = text.find('\n', mark);
  const std::size_t last = text.find_first_of(");", mark);
  std::string block = places.restore(text.substr(mark, last - mark));
  if (block.ends_with("\n\n")) block.pop_back();
  return text.substr(0, begin) + block + text.substr(end == std::string::npos ? end : end + 1);
}

}  // namespace kiln::engine
