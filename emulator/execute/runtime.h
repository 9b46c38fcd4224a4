#pragma once

#include <span>

namespace kiln::emulator {

/// A function that generated code calls.
struct RuntimeSymbol {
  const char* name;
  void* address;
};

/// All of them.
std::span<const RuntimeSymbol> runtime_symbols();

}  // namespace kiln::emulator
