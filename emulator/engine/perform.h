#pragma once

#include <cstdint>

#include "emulator/engine/operation.h"

namespace kiln::emulator {

/// Does a copy, a fill, a write of a value or a call. False when it met memory that is not there.
bool perform(const Work& work);

/// The parts of it.
bool perform_copy(const CopyWork& copy);
bool perform_fill(const FillWork& fill);

enum class Look : std::uint8_t { yes, no, unreadable };
/// Whether a word has the value that a stream waits for.
Look look_at(const ValueWork& value);

}  // namespace kiln::emulator
