#pragma once

#include <string>

#include "kiln/driver/buffer.h"

namespace kiln::tools {

/// Reads a .npy file (versions 1 to 3) into a new CPU buffer. Types that NumPy has and kiln has
/// not, other byte orders and damaged files: ValueError; missing files: FileNotFoundError.
driver::Buffer read_npy(const std::string& path);

/// Writes a dense CPU buffer. bfloat16 is written as uint16, float8 and float4 as their bytes. A
/// file that cannot be written: RuntimeError.
void write_npy(const std::string& path, const driver::Buffer& buffer);

}  // namespace kiln::tools
