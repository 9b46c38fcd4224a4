#include "kiln/graph/promotion.h"

#include <cmath>
#include <cstring>

#include "kiln/dtype/element.h"
#include "kiln/graph/element_text.h"
#include "kiln/graph/graph_state.h"
#include "kiln/graph/ops/constant.h"
#include "kiln/graph/ops/shape.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph {
namespace {

/// bool < unsigned < signed < float.
int category(DType d) {
  if (d == DType::bool_) return 0;
  if (d.is_unsigned_integral()) return 1;
  return d.is_signed_integral() ? 2 : 3;
}

int width(DType d) { return d == DType::bool_ ? 1 : d.size_in_bits(); }

/// What a binary format holds exactly.
struct FloatRange {
  int precision;     // bits of the significand, the hidden one included
  int max_exponent;  // of the largest finite value
  int min_exponent;  // of the smallest value above 0
  bool has_zero_and_sign = true;
  bool has_infinity = true;
  bool has_nan = true;
};

FloatRange float_range(DType d) {
  switch (d.code()) {
    case DType::float64:
      return {53, 1023, -1074};
    case DType::float32:
      return {24, 127, -149};
    case DType::float16:
      return {11, 15, -24};
    case DType::bfloat16:
      return {8, 127, -133};
    case DType::float8_e4m3fn:
      return {4, 8, -9, true, false};
    case DType::float8_e4m3fnuz:
      return {4, 7, -10, true, false};
    case DType::float8_e5m2:
      return {3, 15, -16};
    case DType::float8_e5m2fnuz:
      return {3, 15, -17, true, false};
    case DType::float8_e8m0fnu:
      return {1, 127, -127, false, false};
    case DType::float4_e2m1fn:
      return {2, 2, -1, true, false, false};
    default:
      KILN_CHECK(false, "not a float");
  }
  return {};
}

/// Whether `to` holds every value of `from`.
bool is_safe(DType from, DType to) {
  if (from == to) return true;
  const int a = category(from), b = category(to);
  if (b < 3) {
    if (a == 3) return false;
    if (a == 0) return true;
    if (a == b) return width(from) <= width(to);
    return a == 1 && b == 2 && width(from) < width(to);
  }
  const FloatRange t = float_range(to);
  if (a == 0) return t.has_zero_and_sign;
  if (a < 3) {
    // The integers of n bits need n bits of significand, or n - 1 and the sign.
    const int bits = a == 2 ? width(from) - 1 : width(from);
    return t.has_zero_and_sign && bits <= t.precision && bits <= t.max_exponent + 1;
  }
  const FloatRange f = float_range(from);
  return f.precision <= t.precision && f.max_exponent <= t.max_exponent &&
         f.min_exponent >= t.min_exponent && (t.has_zero_and_sign || !f.has_zero_and_sign) &&
         (t.has_infinity || !f.has_infinity) && (t.has_nan || !f.has_nan);
}

/// The integers that a number may be to become a float, [low, high].
struct IntegerRange {
  std::int64_t low, high;
};

IntegerRange exact_range(DType d) {
  constexpr std::int64_t kOne = 1;
  switch (d.code()) {
    case DType::bool_:
      return {0, 1};
    case DType::float16:
      return {-2048, 2048};
    case DType::bfloat16:
      return {-256, 256};
    case DType::float32:
      return {-(kOne << 24), kOne << 24};
    case DType::float64:
      return {-(kOne << 53), kOne << 53};
    case DType::float8_e4m3fn:
      return {-448, 448};
    case DType::float8_e4m3fnuz:
      return {-240, 240};
    case DType::float8_e5m2:
    case DType::float8_e5m2fnuz:
      return {-57344, 57344};
    case DType::float8_e8m0fnu:
      return {1, INT64_MAX};  // up to 2^127, which no 64 bits exceed
    case DType::float4_e2m1fn:
      return {-6, 6};
    default:
      return {0, -1};
  }
}

}  // namespace

bool holds_integer(DType dtype, const Scalar& value) {
  if (value.is_float()) return false;
  // The only type whose exact integers exceed 64 bits has the powers of two up to 2^127.
  if (value.is_wide_integer())
    return dtype == DType::float8_e8m0fnu && value.to<double>() >= 0 &&
           value.to<double>() <= 0x1p127;
  const bool is_unsigned = std::holds_alternative<std::uint64_t>(value);
  const auto u = is_unsigned ? std::get<std::uint64_t>(value) : 0;
  const auto i = is_unsigned ? 0 : value.to<std::int64_t>();
  if (!dtype.is_integral()) {
    const IntegerRange range = exact_range(dtype);
    if (is_unsigned)
      return dtype == DType::float8_e8m0fnu || u <= static_cast<std::uint64_t>(range.high);
    return i >= range.low && i <= range.high;
  }
  const int bits = dtype.size_in_bits();
  if (dtype.is_unsigned_integral()) {
    const std::uint64_t high = bits == 64 ? UINT64_MAX : (std::uint64_t{1} << bits) - 1;
    return is_unsigned ? u <= high : i >= 0 && static_cast<std::uint64_t>(i) <= high;
  }
  const std::int64_t high = bits == 64 ? INT64_MAX : (std::int64_t{1} << (bits - 1)) - 1;
  if (is_unsigned) return u <= static_cast<std::uint64_t>(high);
  return i >= -high - 1 && i <= high;
}

void write_integer(DType dtype, const Scalar& value, std::byte* to) {
  if (dtype.is_float()) {
    double_to_element(dtype, value.to<double>(), to);
  } else if (dtype == DType::bool_) {
    *to = static_cast<std::byte>(value.to<std::int64_t>() != 0);
  } else {
    const std::uint64_t bits = value.to<std::uint64_t>();
    std::memcpy(to, &bits, static_cast<std::size_t>(dtype.size_in_bytes()));
  }
}

Scalar whole_part(double value) {
  const double whole = std::trunc(value);
  if (whole >= -0x1p63 && whole < 0x1p63) return static_cast<std::int64_t>(whole);
  if (whole >= 0 && whole < 0x1p64) return static_cast<std::uint64_t>(whole);
  return value;
}

bool holds_weak(const Scalar& value, DType dtype) {
  return value.is_float() ? dtype.is_float() : holds_integer(dtype, value);
}

void check_weak(const Scalar& value, DType dtype) {
  if (value.is_float() && !dtype.is_float())
    throw ValueError(
        format("Unsafe cast: Can't promote python float to dtype({}).", dtype.to_string()));
  if (!value.is_float() && !holds_integer(dtype, value))
    throw ValueError(
        format("Unsafe cast: Can't promote python int with value ({}) to dtype({}). It "
               "would lose precision.",
               integer_text(value), dtype.to_string()));
}

std::string integer_text(const Scalar& value) {
  if (value.is_wide_integer()) return format("{:.0f}", value.to<double>());
  return std::holds_alternative<std::uint64_t>(value) ? std::to_string(value.to<std::uint64_t>())
                                                      : std::to_string(value.to<std::int64_t>());
}

namespace {

TensorValue scalar_constant(const Scalar& value, DType dtype, DeviceRef device,
                            NumberSource* source = nullptr) {
  if (dtype == DType::float4_e2m1fn)
    throw TypeError(format("Cannot create a constant of type '{}' since it is a sub-byte type.",
                           dtype.to_string()));
  check_weak(value, dtype);
  if (source) return source->tensor(dtype, device);
  std::vector<std::byte> bytes(static_cast<std::size_t>(dtype.size_in_bytes()));
  if (value.is_float())
    double_to_element(dtype, value.to<double>(), bytes.data());
  else
    write_integer(dtype, value, bytes.data());
  return ops::detail::constant_of({}, dtype, std::move(bytes), device);
}

TensorValue array_constant(const Array& array, DType dtype, DeviceRef device) {
  if (dtype == DType::float4_e2m1fn && array.dtype != dtype)
    throw TypeError(format("Cannot create a constant of type '{}' since it is a sub-byte type.",
                           dtype.to_string()));
  if (array.dtype == dtype)
    return ops::detail::constant_of(array.shape, dtype, array.data->bytes, device);
  if (array.dtype.is_float() && !dtype.is_float())
    throw ValueError(format("Unsafe cast: Refusing to implicitly promote float array to dtype({}).",
                            dtype.to_string()));
  const std::int64_t count = array.num_elements();
  const auto size = static_cast<std::size_t>(dtype.size_in_bytes());
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size);
  for (std::int64_t i = 0; i < count; ++i) {
    const Scalar value = load_element(array.dtype, array.data->bytes.data(), i);
    std::byte* to = bytes.data() + static_cast<std::size_t>(i) * size;
    if (value.is_float()) {
      double_to_element(dtype, value.to<double>(), to);
      continue;
    }
    if (!holds_integer(dtype, value))
      throw ValueError(
          format("Unsafe cast: Refusing to implicitly promote external array with precision loss "
                 "for DType "
                 "{}. Element {} is {}; convert the array first or use ops.constant.",
                 dtype.to_string(), i, integer_text(value)));
    write_integer(dtype, value, to);
  }
  return ops::detail::constant_of(array.shape, dtype, std::move(bytes), device);
}

}  // namespace

DType promoted_dtype(std::span<const DType> dtypes) {
  DType top = dtypes[0];
  int widest = 0;
  for (DType d : dtypes) {
    if (category(d) > category(top)) top = d;
    widest = std::max(widest, width(d));
  }
  // The candidate: the top category with the largest width. An input that has both is taken; where
  // none has, the name of the type that would is for the message only.
  std::optional<DType> candidate;
  for (DType d : dtypes)
    if (category(d) == category(top) && width(d) == widest && !candidate) candidate = d;
  if (!candidate) {
    static constexpr DType::Code kCodes[4][4] = {
        {DType::bool_, DType::bool_, DType::bool_, DType::bool_},
        {DType::uint8, DType::uint16, DType::uint32, DType::uint64},
        {DType::int8, DType::int16, DType::int32, DType::int64},
        {DType::float8_e5m2, DType::float16, DType::float32, DType::float64}};
    const int index = widest <= 8 ? 0 : widest == 16 ? 1 : widest == 32 ? 2 : 3;
    candidate = DType(kCodes[category(top)][index]);
  }
  for (DType d : dtypes)
    if (!is_safe(d, *candidate))
      throw ValueError(format(
          "Failed to resolve valid dtype: Unsafe cast from {} to {}. Insert an explicit cast op "
          "if this conversion is wanted.",
          d.text_name(), candidate->text_name()));
  return *candidate;
}

TensorValue promote_weak(const TensorValueLike& value, DType dtype, DeviceRef device) {
  if (const auto* scalar = std::get_if<Scalar>(&value.variant()))
    return scalar_constant(*scalar, dtype, device, value.number_source());
  if (const auto* array = std::get_if<Array>(&value.variant()))
    return array_constant(*array, dtype, device);
  const auto* dim = std::get_if<Dim>(&value.variant());
  KILN_CHECK(dim && dim->is_static(), "only weak operands are promoted");
  return scalar_constant(Scalar(dim->value()), dtype, device);
}

std::vector<TensorValue> promote(std::span<const TensorValueLike* const> operands) {
  std::vector<TensorValue> values(operands.size());
  std::vector<DType> dtypes;
  DeviceRef device;
  // Dims become ops of the current graph, so what weights say about there being none comes first.
  for (const TensorValueLike* operand : operands)
    if (operand->tensor() != nullptr) (void)detail::strong_tensor(*operand);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i]->is_weak()) continue;
    values[i] = detail::strong_tensor(*operands[i]);
    if (dtypes.empty()) device = values[i].device();
    dtypes.push_back(values[i].dtype());
  }
  if (dtypes.empty())
    throw TypeError(
        "Binary ops require at least one kiln object as input. Use ops.constant to convert a "
        "number or "
        "an array to a TensorValue with a specific dtype.");
  const DType dtype = promoted_dtype(dtypes);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!values[i])
      values[i] = promote_weak(*operands[i], dtype, device);
    else if (values[i].dtype() != dtype)
      values[i] = values[i].cast(dtype, operands[i]->location());
  }
  return values;
}

std::pair<TensorValue, TensorValue> promote(const TensorValueLike& lhs,
                                            const TensorValueLike& rhs) {
  const TensorValueLike* operands[] = {&lhs, &rhs};
  std::vector<TensorValue> values = promote(operands);
  return {std::move(values[0]), std::move(values[1])};
}

TensorValue strong(const TensorValueLike& value, std::string_view what) {
  if (!std::holds_alternative<Array>(value.variant()) &&
      !std::holds_alternative<Scalar>(value.variant()))
    return detail::strong_tensor(value);
  const std::string reason = what.empty() ? "Unary ops do not support non-kiln objects as input"
                                          : format("{} must be a value of the graph", what);
  throw TypeError(
      format("{}. Got {}; use ops.constant to convert it to a TensorValue with a "
             "specific dtype.",
             reason, value.repr()));
}

}  // namespace kiln::graph
