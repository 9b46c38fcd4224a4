#pragma once

#include <cstddef>

namespace kiln::gpu::detail {

// A suspended stack is the address of its top, where the registers that a function must keep are
// stored.

extern "C" {
/// Stores where this stack goes on in `*save` and goes on at `load`.
void kiln_gpu_switch_stack(void** save, void* load);
}

/// Prepares a stack so that a switch to it calls `function(argument)`, which must not return.
/// `top` is the address behind the stack, a multiple of 16.
void* prepare_stack(void* top, void (*function)(void*), void* argument);

}  // namespace kiln::gpu::detail
