#pragma once

#include <string_view>

#include "kiln/graph/type.h"

namespace kiln::graph {

/// The type that `Type::to_text` writes so. Other text, which may come from anywhere: ValueError.
Type parse_type(std::string_view text);

}  // namespace kiln::graph
