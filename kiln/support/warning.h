#pragma once

#include <functional>
#include <string_view>

namespace kiln {

/// Replaces what happens to warnings; an empty handler restores the default, which prints to
/// standard error. The handler may be called from any thread and may throw to the code that warned.
void set_warning_handler(std::function<void(std::string_view)> handler);

/// Hands full sentences to the warning handler.
void warn(std::string_view text);

}  // namespace kiln
