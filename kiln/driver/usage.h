#pragma once

#include <cstdint>

namespace kiln::driver {

/// What memory is meant for; a set of flags.
enum class Usage : std::uint8_t {
  DEFAULT = 0,
  /// Host memory meant for transfers: page-locked memory of an accelerator, plain memory on the
  /// CPU.
  STAGING = 1,
  /// No automatic waits; has an effect only together with STAGING.
  UNTRACKED = 2,
};

constexpr Usage operator|(Usage a, Usage b) {
  return static_cast<Usage>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
/// Whether all flags of `flag` are set in `usage`.
constexpr bool has(Usage usage, Usage flag) {
  return (static_cast<std::uint8_t>(usage) & static_cast<std::uint8_t>(flag)) ==
         static_cast<std::uint8_t>(flag);
}

}  // namespace kiln::driver
