#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace kiln {

/// The variable's value; nullopt when it is unset or empty.
std::optional<std::string> environment(const char* name);

/// `1 true yes on` or `0 false no off` in any case; nullopt for other text.
std::optional<bool> parse_bool(std::string_view text);

/// A boolean variable. Unset: `fallback`; a value that cannot be read: a warning, and `fallback`.
bool environment_flag(const char* name, bool fallback);

/// An integer variable, decimal or 0x hexadecimal, within [least, most]. Unset: nullopt; a value
/// that cannot be read or lies outside: a warning, and nullopt.
std::optional<std::int64_t> environment_integer(
    const char* name, std::int64_t least = std::numeric_limits<std::int64_t>::min(),
    std::int64_t most = std::numeric_limits<std::int64_t>::max());

}  // namespace kiln
