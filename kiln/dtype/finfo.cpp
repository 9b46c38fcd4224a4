#include "kiln/dtype/finfo.h"

#include <cmath>
#include <limits>

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln {

FloatInfo finfo(DType dtype) {
  const auto info = [&](double eps, double max, double min, double tiny) {
    return FloatInfo{dtype, dtype.size_in_bits(), eps, max, min, tiny, tiny};
  };
  const auto power = [](int exponent) { return std::ldexp(1.0, exponent); };
  const auto of = [&]<typename T>(T) {
    using Limits = std::numeric_limits<T>;
    return info(Limits::epsilon(), Limits::max(), Limits::lowest(), Limits::min());
  };
  const auto symmetric = [&](double eps, double max, double tiny) {
    return info(eps, max, -max, tiny);
  };
  switch (dtype.code()) {
    case DType::float64:
      return of(double{});
    case DType::float32:
      return of(float{});
    case DType::float16:
      return symmetric(power(-10), 65504, power(-14));
    case DType::bfloat16:
      return symmetric(power(-7), (2 - power(-7)) * power(127), power(-126));
    case DType::float8_e4m3fn:
      return symmetric(0.125, 448, power(-6));
    case DType::float8_e4m3fnuz:
      return symmetric(0.125, 240, power(-7));
    case DType::float8_e5m2:
      return symmetric(0.25, 57344, power(-14));
    case DType::float8_e5m2fnuz:
      return symmetric(0.25, 57344, power(-15));
    case DType::float8_e8m0fnu:
      return info(1, power(127), power(-127), power(-127));
    case DType::float4_e2m1fn:
      return symmetric(0.5, 6, 1);
    default:
      break;
  }
  throw TypeError(format("finfo only supports floating-point types, got {}", dtype.name()));
}

std::string FloatInfo::to_string() const {
  return format("finfo(dtype={}, bits={}, eps={}, max={}, min={}, tiny={})", dtype.name(), bits,
                eps, max, min, tiny);
}

}  // namespace kiln
