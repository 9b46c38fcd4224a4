#pragma once

#include <memory>
#include <string_view>

#include "emulator/ptx/syntax.h"

namespace kiln::emulator::ptx {

/// Reads a whole text of PTX. Throws LoadError for what is no PTX, and for directives that are not
/// known. Whether instructions and names make sense is for the translation to say.
std::unique_ptr<const Module> parse(std::string_view text);

}  // namespace kiln::emulator::ptx
