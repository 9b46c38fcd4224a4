#pragma once

namespace kiln {

/// How often a thread that waits or runs a long program looks whether it is wanted elsewhere.
inline constexpr int kInterruptMilliseconds = 50;

/// Called on threads that wait for work or run a program with loops, about every 50 ms; may throw,
/// which ends the wait or the program. Null: nothing. One for the process.
void set_interrupt_check(void (*check)());
/// Calls the check when this thread has not done so for 50 ms.
void check_interrupt();

}  // namespace kiln
