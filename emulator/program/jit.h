#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/execute/state.h"

namespace kiln::emulator {

struct Translation;
struct LoadOptions;

/// Optimises and compiles a translated module for this processor; the bytes of an object file.
/// Throws LoadError with what LLVM reports.
std::string compile(Translation& translation, const LoadOptions& options);

/// Object code in memory, ready to run; gone with the object.
class LoadedCode {
 public:
  virtual ~LoadedCode() = default;
  /// Links an object from `compile` against the runtime. Throws LoadError.
  static std::unique_ptr<LoadedCode> load(std::string_view object);
  /// The address of a symbol; null when the object has none of that name.
  virtual void* find(const std::string& symbol) const = 0;
};

/// What decides about generated code besides the text: processor, features, versions.
const std::string& code_identity();

}  // namespace kiln::emulator
