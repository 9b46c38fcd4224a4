#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kiln {

// The one way to build text in kiln's sources. Not included by public headers, so that programs
// that use kiln need no fmt.
using fmt::format;
using fmt::join;

}  // namespace kiln
