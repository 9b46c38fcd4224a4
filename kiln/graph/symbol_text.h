#pragma once

#include <string>
#include <string_view>

namespace kiln::graph {

/// Characters that stand in a graph's name without quotes.
inline bool is_symbol_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-' || c == '$';
}

/// A graph's name in the IR text: "@linear", "@\"two words\"".
std::string symbol_text(std::string_view name);

}  // namespace kiln::graph
