#include "kiln/dtype/element.h"

#include <cmath>
#include <cstring>

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln {
namespace {

template <typename T>
T load(const void* base, std::int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(base) + index * std::int64_t{sizeof(T)}, sizeof(T));
  return value;
}

template <typename T>
void store(void* base, std::int64_t index, T value) {
  std::memcpy(static_cast<char*>(base) + index * std::int64_t{sizeof(T)}, &value, sizeof(T));
}

[[noreturn]] void throw_out_of_range(DType dtype, const std::string& value) {
  throw ValueError(
      format("The value {} cannot be stored as {}: it is out of range.", value, dtype.name()));
}

template <typename T>
T to_integer(DType dtype, const Scalar& scalar) {
  using Limits = std::numeric_limits<T>;
  if (scalar.is_wide_integer() && std::isinf(scalar.to<double>()))
    throw ValueError(format(
        "An integer beyond every float cannot be stored as {}: it is out of range.", dtype.name()));
  if (scalar.is_wide_integer())
    throw ValueError(format(
        "An integer beyond 64 bits, about {:.0f}, cannot be stored as {}: it is out of range.",
        scalar.to<double>(), dtype.name()));
  return std::visit(
      [&](auto value) -> T {
        using V = decltype(value);
        if constexpr (std::is_same_v<V, double>) {
          const double whole = std::trunc(value);
          // 2^bits is exact as a double, so the upper bound is compared exclusively.
          const double above = std::ldexp(1.0, Limits::digits);
          if (!(whole < above) || !(whole >= static_cast<double>(Limits::min())))
            throw_out_of_range(dtype, format("{}", value));
          return static_cast<T>(whole);
        } else if constexpr (std::is_same_v<V, bool>) {
          return static_cast<T>(value);
        } else {
          if (!std::in_range<T>(value)) throw_out_of_range(dtype, format("{}", value));
          return static_cast<T>(value);
        }
      },
      static_cast<const std::variant<bool, std::int64_t, std::uint64_t, double>&>(scalar));
}

}  // namespace

Scalar load_element(DType dtype, const void* base, std::int64_t index) {
  switch (dtype.code()) {
    case DType::bool_:
      return load<std::uint8_t>(base, index) != 0;
    case DType::int8:
      return load<std::int8_t>(base, index);
    case DType::int16:
      return load<std::int16_t>(base, index);
    case DType::int32:
      return load<std::int32_t>(base, index);
    case DType::int64:
      return load<std::int64_t>(base, index);
    case DType::uint8:
      return load<std::uint8_t>(base, index);
    case DType::uint16:
      return load<std::uint16_t>(base, index);
    case DType::uint32:
      return load<std::uint32_t>(base, index);
    case DType::uint64:
      return load<std::uint64_t>(base, index);
    case DType::float16:
      return load<float16>(base, index);
    case DType::bfloat16:
      return load<bfloat16>(base, index);
    case DType::float32:
      return load<float>(base, index);
    case DType::float64:
      return load<double>(base, index);
    case DType::float8_e8m0fnu:
      return load<float8_e8m0fnu>(base, index);
    case DType::float8_e4m3fn:
      return load<float8_e4m3fn>(base, index);
    case DType::float8_e4m3fnuz:
      return load<float8_e4m3fnuz>(base, index);
    case DType::float8_e5m2:
      return load<float8_e5m2>(base, index);
    case DType::float8_e5m2fnuz:
      return load<float8_e5m2fnuz>(base, index);
    case DType::float4_e2m1fn: {
      const auto byte = load<std::uint8_t>(base, index >> 1);
      return decode_float(kFloat4E2m1fn, (index & 1) != 0 ? byte >> 4 : byte & 15);
    }
  }
  KILN_CHECK(false, format("element type {}", int{dtype.code()}));
  return {};
}

void store_element(DType dtype, void* base, std::int64_t index, const Scalar& value) {
  // One rounding only: an integer may have more bits than a double.
  const auto number = [&] { return value.rounded_to_odd(); };
  switch (dtype.code()) {
    case DType::bool_:
      return store<std::uint8_t>(base, index, value.to<bool>() ? 1 : 0);
    case DType::int8:
      return store(base, index, to_integer<std::int8_t>(dtype, value));
    case DType::int16:
      return store(base, index, to_integer<std::int16_t>(dtype, value));
    case DType::int32:
      return store(base, index, to_integer<std::int32_t>(dtype, value));
    case DType::int64:
      return store(base, index, to_integer<std::int64_t>(dtype, value));
    case DType::uint8:
      return store(base, index, to_integer<std::uint8_t>(dtype, value));
    case DType::uint16:
      return store(base, index, to_integer<std::uint16_t>(dtype, value));
    case DType::uint32:
      return store(base, index, to_integer<std::uint32_t>(dtype, value));
    case DType::uint64:
      return store(base, index, to_integer<std::uint64_t>(dtype, value));
    case DType::float16:
      return store(base, index, float16(number()));
    case DType::bfloat16:
      return store(base, index, bfloat16::truncated(static_cast<float>(number())));
    case DType::float32:
      return store(base, index, static_cast<float>(number()));
    case DType::float64:
      return store(base, index, value.to<double>());
    case DType::float8_e8m0fnu:
      return store(base, index, float8_e8m0fnu(number()));
    case DType::float8_e4m3fn:
      return store(base, index, float8_e4m3fn(number()));
    case DType::float8_e4m3fnuz:
      return store(base, index, float8_e4m3fnuz(number()));
    case DType::float8_e5m2:
      return store(base, index, float8_e5m2(number()));
    case DType::float8_e5m2fnuz:
      return store(base, index, float8_e5m2fnuz(number()));
    case DType::float4_e2m1fn: {
      const auto code = static_cast<std::uint8_t>(encode_float(kFloat4E2m1fn, number()));
      const auto old = load<std::uint8_t>(base, index >> 1);
      return store<std::uint8_t>(base, index >> 1,
                                 static_cast<std::uint8_t>((index & 1) != 0 ? (old & 15) | code << 4
                                                                            : (old & 0xf0) | code));
    }
  }
  KILN_CHECK(false, format("element type {}", int{dtype.code()}));
}

std::size_t bytes_for(DType dtype, std::int64_t count) {
  const std::int64_t bits = dtype.size_in_bits();
  std::int64_t bytes = 0;
  if (bits < 8)
    bytes = count / 2 + (count & 1);
  else if (__builtin_mul_overflow(count, bits / 8, &bytes))
    throw ValueError(
        format("{} elements of {} take more than 2^63 - 1 bytes.", count, dtype.name()));
  return static_cast<std::size_t>(bytes);
}

}  // namespace kiln
