#pragma once

namespace kiln::emulator {

// Stacks. A suspended stack is the address of its top, where the registers that a function must
// keep are stored. All threads of a block wait at the same call, so the processor predicts the
// return from a switch although it lands on another stack.

extern "C" {
/// Stores where this stack goes on in `*save` and goes on at `load`.
void kiln_switch_stack(void** save, void* load);
/// Goes on at `load` and forgets this stack.
[[noreturn]] void kiln_abandon_stack(void* load);
/// Calls `function(a, b, c)` on another stack, whose top (the address behind it) is a multiple of
/// 16. `*save` is where an abandoned call goes on: it returns from here.
void kiln_call_on_stack(void** save, void* top, void* function, void* a, void* b, void* c);
}

/// Prepares a stack so that a switch to it calls `function(a, b)`, which must not return.
void* prepare_stack(void* top, void (*function)(void*, void*), void* a, void* b);

}  // namespace kiln::emulator
