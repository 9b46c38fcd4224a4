#pragma once

#include <cstdint>

#include "kiln/dtype/dtype.h"
#include "kiln/dtype/float_formats.h"
#include "kiln/support/error.h"

namespace kiln::runtime {

/// Calls `function` with an element of the type, which is one of those for arithmetic.
template <typename Function>
void with_type(DType dtype, const Function& function) {
  switch (dtype.code()) {
    case DType::uint8:
      return function(std::uint8_t{});
    case DType::uint16:
      return function(std::uint16_t{});
    case DType::uint32:
      return function(std::uint32_t{});
    case DType::uint64:
      return function(std::uint64_t{});
    case DType::int8:
      return function(std::int8_t{});
    case DType::int16:
      return function(std::int16_t{});
    case DType::int32:
      return function(std::int32_t{});
    case DType::int64:
      return function(std::int64_t{});
    case DType::float16:
      return function(float16{});
    case DType::bfloat16:
      return function(bfloat16{});
    case DType::float32:
      return function(float{});
    case DType::float64:
      return function(double{});
    default:
      throw_internal_error("an arithmetic type", __FILE__, __LINE__,
                           "elements of " + dtype.to_string() + " are no numbers here");
  }
}

}  // namespace kiln::runtime
