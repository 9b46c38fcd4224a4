#pragma once

#include <string>

#include "kiln/dtype/dtype.h"

namespace kiln {

/// The numeric limits of a floating-point type.
struct FloatInfo {
  DType dtype;
  int bits;
  /// The gap between 1 and the next value.
  double eps;
  double max;
  double min;
  /// The smallest positive normal value.
  double tiny;
  double smallest_normal;

  /// "finfo(dtype=float32, bits=32, eps=…, max=…, min=…, tiny=…)".
  std::string to_string() const;
};

/// Not a float: TypeError.
FloatInfo finfo(DType dtype);

}  // namespace kiln
