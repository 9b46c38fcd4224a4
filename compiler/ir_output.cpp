#include "compiler/ir_output.h"

#include <cctype>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "kiln/support/error.h"
#include "kiln/support/file.h"
#include "kiln/support/format.h"

namespace kiln::compiler {
namespace {

constexpr std::size_t kLongestStage = 100;

}  // namespace

IrOutput::IrOutput(std::string folder) : folder_(std::move(folder)) {
  if (folder_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error)
    throw RuntimeError(
        format("The folder '{}' that the debug setting ir-output-dir names cannot be made: {}. "
               "Name a folder that can be written.",
               folder_, error.message()));
}

int IrOutput::reserve(int count) const {
  static std::mutex mutex;
  static std::map<std::string, int> next;
  const std::lock_guard lock(mutex);
  return std::exchange(next[folder_], next[folder_] + count);
}

void IrOutput::write(int number, std::string_view stage, std::string_view extension,
                     std::string_view text) const {
  if (!enabled()) return;
  std::string name;
  for (char c : stage.substr(0, kLongestStage))
    name += std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' ? c : '_';
  const std::string path = format("{}/{:03}_{}.{}", folder_, number, name, extension);
  try {
    write_file(path, text);
  } catch (const Error& error) {
    throw RuntimeError(
        format("The debug setting ir-output-dir asks for the stages of a compile, but {}",
               error.message()));
  }
}

}  // namespace kiln::compiler
