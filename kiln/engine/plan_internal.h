#pragma once

// The compiler's plan in an artifact, for the tools that show it. Internal.

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>

namespace kiln::engine {

/// An object; an empty one for what is none. Parts that are deeper than the compiler writes are
/// dropped, so that whoever walks the result has stack enough.
nlohmann::json parse_plan(std::span<const std::byte> text);

}  // namespace kiln::engine
