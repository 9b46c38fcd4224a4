#pragma once

#include <array>
#include <string>

namespace kiln::emulator {

/// Who called the driver: return addresses, the innermost first, those inside the driver left out.
struct CallChain {
  std::array<void*, 6> frames{};

  /// The chain of the calling thread.
  static CallChain here();
  /// "function+0x12 (program) < caller+0x34 (program)"; empty when nothing is known.
  std::string text() const;
};

}  // namespace kiln::emulator
