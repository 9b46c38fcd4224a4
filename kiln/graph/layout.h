#pragma once

#include <string_view>

#include "kiln/graph/type.h"

namespace kiln::graph {

/// "RSCF", "NHWC", …
std::string_view to_string(FilterLayout layout);
std::string_view to_string(ConvInputLayout layout);
/// Unknown name: ValueError.
FilterLayout filter_layout_from_string(std::string_view text);
ConvInputLayout conv_input_layout_from_string(std::string_view text);

}  // namespace kiln::graph
