#include "kiln/gpu/options.h"

#include <cstdio>
#include <fstream>

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::gpu {

DumpTarget::operator bool() const {
  if (const bool* on = std::get_if<bool>(&value_)) return *on;
  if (const auto* path = std::get_if<std::filesystem::path>(&value_)) return !path->empty();
  return true;
}

void DumpTarget::write(const std::string& text, const std::string& module_name) const {
  if (!*this) return;
  if (std::holds_alternative<bool>(value_)) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
    return;
  }
  const auto* function = std::get_if<std::function<std::filesystem::path()>>(&value_);
  std::string path = (function ? (*function)() : std::get<std::filesystem::path>(value_)).string();
  if (path.empty()) return;
  for (std::size_t at = path.find('%'); at != std::string::npos;
       at = path.find('%', at + module_name.size()))
    path.replace(at, 1, module_name);
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file)
    throw RuntimeError(format("The dump of '{}' cannot be written to '{}'.", module_name, path));
}

std::string DumpTarget::key() const {
  if (const bool* on = std::get_if<bool>(&value_)) return *on ? "1" : "0";
  if (const auto* path = std::get_if<std::filesystem::path>(&value_)) return path->string();
  return "f";
}

std::string StreamPriorityRange::to_string() const {
  return format("StreamPriorityRange(least={}, greatest={})", least, greatest);
}

}  // namespace kiln::gpu
