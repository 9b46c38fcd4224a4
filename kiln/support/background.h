#pragma once

#include <functional>

namespace kiln {

/// Runs `work`, which must not throw, on a thread of its own.
void run_in_background(std::function<void()> work);

/// Whether background work shall give up, because the process ends.
bool background_ends() noexcept;

/// Tells background work to give up and waits until it has. Runs by itself when the process ends; a
/// binding calls it while its interpreter lives, without the lock of the interpreter.
void end_background() noexcept;

/// Registers `end_background` for the end of the process. What is registered later runs earlier, so
/// whoever loads a library that background work uses calls it once more.
void end_background_at_exit();

}  // namespace kiln
