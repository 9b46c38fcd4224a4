#pragma once

#include <cstdint>
#include <optional>

#include "kiln/dtype/dtype.h"
#include "kiln/graph/ir.h"

namespace kiln::compiler {

/// The one value that all elements of a constant have: a double's bits for floats, else an int64.
/// nullopt when elements differ or there are none.
std::optional<std::int64_t> uniform_value(const graph::ir::ConstantData& data, DType dtype);

}  // namespace kiln::compiler
