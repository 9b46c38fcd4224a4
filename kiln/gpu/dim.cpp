#include "kiln/gpu/dim.h"

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::gpu {

std::int64_t Dim::operator[](std::int64_t i) const {
  if (i < 0 || i > 2)
    throw IndexError(format("Dim: the index {} is outside [0, 3): a Dim has x, y and z.", i));
  return values_[i];
}

std::string Dim::to_string() const {
  if (given_ == 3 || z() != 1) return format("(x={}, y={}, z={})", x(), y(), z());
  if (given_ == 2 || y() != 1) return format("(x={}, y={})", x(), y());
  return format("(x={})", x());
}

}  // namespace kiln::gpu
