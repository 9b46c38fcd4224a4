#include "kiln/gpu/source_lines.h"

#include <cctype>
#include <string_view>

#include "kiln/support/error.h"
#include "kiln/support/file.h"

namespace kiln::gpu::detail {
namespace {

/// Drops white space and comments in front.
std::string_view skip_blank(std::string_view text) {
  for (;;) {
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())))
      text.remove_prefix(1);
    if (text.starts_with("//")) {
      text.remove_prefix(std::min(text.find('\n'), text.size()));
    } else if (text.starts_with("/*")) {
      const std::size_t end = text.find("*/", 2);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
    } else {
      return text;
    }
  }
}

/// Where `text` starts with the characters of `body`, blanks and comments aside: how much of it
/// that is. 0: it does not.
std::size_t match(std::string_view text, std::string_view body) {
  const std::string_view whole = text;
  body = skip_blank(body);
  text = skip_blank(text);
  while (!body.empty()) {
    if (text.empty() || text.front() != body.front()) return 0;
    text.remove_prefix(1);
    body.remove_prefix(1);
    if (body.empty()) break;
    body = skip_blank(body);
    text = skip_blank(text);
  }
  return whole.size() - text.size();
}

}  // namespace

SourceBody body_with_lines(const KernelDefinition& definition) {
  SourceBody fallback{definition.body, definition.line};
  std::string file;
  try {
    file = read_file(definition.file);
  } catch (const Error&) {
    return fallback;
  }
  // A macro's line is that of its name, or of its end; the body may begin up to some lines away.
  constexpr int kBefore = 200;
  std::size_t at = 0;
  int line = 1;
  const int first = std::max(1, definition.line - kBefore);
  while (line < first && at != std::string::npos) {
    at = file.find('\n', at);
    if (at == std::string::npos) return fallback;
    ++at;
    ++line;
  }
  SourceBody best = fallback;
  bool found = false;
  for (std::size_t i = at; i < file.size(); ++i) {
    if (file[i] == '\n') ++line;
    if (line > definition.line + kBefore) break;
    if (file[i] != '{') continue;
    const std::size_t length = match(std::string_view(file).substr(i), definition.body);
    if (length == 0) continue;
    // The last one that begins no later than the macro ends.
    if (found && line > definition.line) break;
    best = {file.substr(i, length), line};
    found = true;
    if (line >= definition.line) break;
  }
  return best;
}

}  // namespace kiln::gpu::detail
