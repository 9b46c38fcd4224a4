#pragma once

#include "forms.h"

namespace kiln::emulator_test {

/// Shuffles, votes, matches and reductions of a warp.
std::vector<Form> warp_forms();
/// Atomics and reductions on memory, one thread a place.
std::vector<Form> atomic_forms();
/// Loads and stores of all spaces and widths.
std::vector<Form> memory_forms();

}  // namespace kiln::emulator_test
