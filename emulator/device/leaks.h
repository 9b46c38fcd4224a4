#pragma once

namespace kiln::emulator {

struct Driver;

/// Reports memory that the program never gave back when the process ends, and makes its status 66
/// if it was 0 (KILN_EMULATOR_CHECK=leak).
void report_leaks_at_exit(Driver& driver);

}  // namespace kiln::emulator
