#pragma once

#include <string_view>

namespace kiln::engine {

/// The page of explain.html, into which the build makes this text; its data is "{}".
extern const std::string_view kExplainPage;

}  // namespace kiln::engine
