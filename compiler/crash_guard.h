#pragma once

#include <functional>
#include <string>

namespace kiln::compiler {

/// Runs `work` so that a fatal error, an exit or a crash inside LLVM or LLD comes back here instead
/// of ending the process. Returns whether `work` ran to its end; if not, `message` tells why, and
/// what `work` held is leaked. May be nested and called on several threads at once. `work` must not
/// throw.
bool run_guarded(const std::function<void()>& work, std::string& message);

}  // namespace kiln::compiler
