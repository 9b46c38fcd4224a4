#pragma once

#include <string>
#include <string_view>

namespace kiln::graph {

/// `text` in double quotes, with the escapes of the IR text: \" \\ \n \t \r and \xNN for other
/// control characters.
std::string quoted(std::string_view text);

}  // namespace kiln::graph
