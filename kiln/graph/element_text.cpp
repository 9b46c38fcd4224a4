#include "kiln/graph/element_text.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "kiln/dtype/float_formats.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph {
namespace {

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <typename T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

/// Calls `visitor` with a value of the C++ type of `dtype`.
template <typename Visitor>
auto visit_dtype(DType dtype, Visitor&& visitor) {
  switch (dtype.code()) {
    case DType::bool_:
      return visitor(bool{});
    case DType::int8:
      return visitor(std::int8_t{});
    case DType::int16:
      return visitor(std::int16_t{});
    case DType::int32:
      return visitor(std::int32_t{});
    case DType::int64:
      return visitor(std::int64_t{});
    case DType::uint8:
      return visitor(std::uint8_t{});
    case DType::uint16:
      return visitor(std::uint16_t{});
    case DType::uint32:
      return visitor(std::uint32_t{});
    case DType::uint64:
      return visitor(std::uint64_t{});
    case DType::float16:
      return visitor(float16{});
    case DType::bfloat16:
      return visitor(bfloat16{});
    case DType::float32:
      return visitor(float{});
    case DType::float64:
      return visitor(double{});
    case DType::float8_e8m0fnu:
      return visitor(float8_e8m0fnu{});
    case DType::float8_e4m3fn:
      return visitor(float8_e4m3fn{});
    case DType::float8_e4m3fnuz:
      return visitor(float8_e4m3fnuz{});
    case DType::float8_e5m2:
      return visitor(float8_e5m2{});
    case DType::float8_e5m2fnuz:
      return visitor(float8_e5m2fnuz{});
    case DType::float4_e2m1fn:
      break;
  }
  throw_internal_error("whole bytes", __FILE__, __LINE__, "a sub-byte type has no elements here");
}

template <typename T>
std::string with_point(T value) {
  std::string text = format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string nan_text(std::uint64_t bits, int bytes) {
  return format("nan:0x{:0{}x}", bits, 2 * bytes);
}

std::optional<std::uint64_t> parse_nan(std::string_view text) {
  if (text.substr(0, 6) != "nan:0x") return std::nullopt;
  std::uint64_t bits = 0;
  auto [end, error] = std::from_chars(text.data() + 6, text.data() + text.size(), bits, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return bits;
}

template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string real_text(double value) {
  if (std::isnan(value)) return nan_text(std::bit_cast<std::uint64_t>(value), 8);
  return with_point(value);
}

std::optional<double> parse_real(std::string_view text) {
  const auto bits = parse_nan(text);
  if (!bits) return parse_number<double>(text);
  const auto value = std::bit_cast<double>(*bits);
  return std::isnan(value) ? std::optional(value) : std::nullopt;
}

double element_to_double(DType dtype, const std::byte* element) {
  return visit_dtype(dtype, [&](auto sample) {
    using T = decltype(sample);
    return static_cast<double>(load<T>(element));
  });
}

void double_to_element(DType dtype, double value, std::byte* element) {
  KILN_CHECK(dtype.is_float(), "only floats are rounded");
  visit_dtype(dtype, [&](auto sample) {
    using T = decltype(sample);
    if constexpr (kIsFloatFormat<T> || std::is_floating_point_v<T>)
      store(element, static_cast<T>(value));
  });
}

std::string element_text(DType dtype, const std::byte* element) {
  return visit_dtype(dtype, [&](auto sample) -> std::string {
    using T = decltype(sample);
    T value = load<T>(element);
    if constexpr (std::is_same_v<T, bool>) {
      return value ? "true" : "false";
    } else if constexpr (std::is_integral_v<T>) {
      return std::to_string(value);
    } else {
      const double wide = static_cast<double>(value);
      if (std::isnan(wide)) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, element, sizeof(T));
        return nan_text(bits, sizeof(T));
      }
      if constexpr (std::is_same_v<T, double>)
        return with_point(value);
      else
        return with_point(static_cast<float>(value));
    }
  });
}

bool parse_element(DType dtype, std::string_view text, std::byte* element) {
  return visit_dtype(dtype, [&](auto sample) {
    using T = decltype(sample);
    if constexpr (std::is_same_v<T, bool>) {
      if (text != "true" && text != "false") return false;
      store(element, text == "true");
    } else if constexpr (std::is_integral_v<T>) {
      auto value = parse_number<T>(text);
      if (!value) return false;
      store(element, *value);
    } else {
      if (auto bits = parse_nan(text)) {
        // Bits that the type lacks, or that are a number's, would be read as something else.
        if (sizeof(T) < sizeof(*bits) && *bits >> (8 * sizeof(T) % 64) != 0) return false;
        std::memcpy(element, &*bits, sizeof(T));
        return std::isnan(static_cast<double>(load<T>(element)));
      }
      using Number = std::conditional_t<std::is_same_v<T, float>, float, double>;
      auto value = parse_number<Number>(text);
      if (!value) return false;
      store(element, static_cast<T>(*value));
    }
    return true;
  });
}

}  // namespace kiln::graph
