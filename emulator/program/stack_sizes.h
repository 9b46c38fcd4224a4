#pragma once

#include <string_view>

namespace kiln::emulator {

struct Translation;

/// Reads from an object how much stack its functions use, and sets `stack_bytes` of each kernel to
/// the sum over all functions that it may call. Throws LoadError when that is more than a thread
/// can have.
void measure_stacks(std::string_view object, Translation& translation);

}  // namespace kiln::emulator
