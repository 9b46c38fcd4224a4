#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace kiln {

struct float16;
struct bfloat16;
struct float8_e8m0fnu;
struct float8_e4m3fn;
struct float8_e4m3fnuz;
struct float8_e5m2;
struct float8_e5m2fnuz;

/// The type of one tensor element. The codes are stored in files and cross the C interface.
class DType {
 public:
  enum Code : std::uint8_t {
    bool_ = 1,
    float4_e2m1fn = 64,
    float8_e8m0fnu = 73,
    float8_e4m3fn = 75,
    float8_e4m3fnuz = 76,
    float8_e5m2 = 77,
    float8_e5m2fnuz = 78,
    float16 = 79,
    bfloat16 = 80,
    float32 = 81,
    float64 = 82,
    uint8 = 134,
    int8 = 135,
    uint16 = 136,
    int16 = 137,
    uint32 = 138,
    int32 = 139,
    uint64 = 140,
    int64 = 141,
  };

  constexpr DType(Code code) : code_(code) {}  // NOLINT: DType::float32 is a DType

  /// The member with this code. Unknown code: ValueError.
  static DType from_code(int code);
  /// The member with this text name, such as "f32" or "si64". Unknown name: KeyError.
  static DType from_name(std::string_view text_name);
  /// The element type of a C++ type of the table in `dtype.cpp`; others do not compile.
  template <typename T>
  static constexpr DType of();

  constexpr Code code() const { return code_; }
  /// The member's name, such as "float32"; `bool_` is "bool".
  std::string_view name() const;
  /// The text name used in IR and files, such as "f32".
  std::string_view text_name() const;
  /// "DType.float32".
  std::string to_string() const;

  constexpr int size_in_bits() const {
    switch (code_) {
      case float4_e2m1fn:
        return 4;
      case int16:
      case uint16:
      case float16:
      case bfloat16:
        return 16;
      case int32:
      case uint32:
      case float32:
        return 32;
      case int64:
      case uint64:
      case float64:
        return 64;
      default:
        return 8;
    }
  }
  /// Bits rounded up to whole bytes: 1 for float4_e2m1fn.
  constexpr int size_in_bytes() const { return (size_in_bits() + 7) / 8; }
  /// Alignment of one element in bytes.
  constexpr int align() const { return size_in_bytes(); }
  /// The eight integer members; bool is not one.
  constexpr bool is_integral() const { return code_ >= uint8 && code_ <= int64; }
  constexpr bool is_signed_integral() const { return is_integral() && (code_ & 1) != 0; }
  constexpr bool is_unsigned_integral() const { return is_integral() && (code_ & 1) == 0; }
  /// All ten floating members.
  constexpr bool is_float() const { return code_ >= float4_e2m1fn && code_ <= float64; }
  /// The five float8 members.
  constexpr bool is_float8() const { return code_ >= float8_e8m0fnu && code_ <= float8_e5m2fnuz; }
  /// float16 and bfloat16.
  constexpr bool is_half() const { return code_ == float16 || code_ == bfloat16; }

  friend constexpr bool operator==(DType a, DType b) { return a.code_ == b.code_; }
  friend constexpr auto operator<=>(DType a, DType b) { return a.code_ <=> b.code_; }

 private:
  Code code_;
};

namespace detail {
template <typename T>
struct DTypeOf;
template <DType::Code C>
struct DTypeIs {
  static constexpr DType value = C;
};
template <>
struct DTypeOf<bool> : DTypeIs<DType::bool_> {};
template <>
struct DTypeOf<std::int8_t> : DTypeIs<DType::int8> {};
template <>
struct DTypeOf<std::int16_t> : DTypeIs<DType::int16> {};
template <>
struct DTypeOf<std::int32_t> : DTypeIs<DType::int32> {};
template <>
struct DTypeOf<std::int64_t> : DTypeIs<DType::int64> {};
template <>
struct DTypeOf<std::uint8_t> : DTypeIs<DType::uint8> {};
template <>
struct DTypeOf<std::uint16_t> : DTypeIs<DType::uint16> {};
template <>
struct DTypeOf<std::uint32_t> : DTypeIs<DType::uint32> {};
template <>
struct DTypeOf<std::uint64_t> : DTypeIs<DType::uint64> {};
template <>
struct DTypeOf<kiln::float16> : DTypeIs<DType::float16> {};
template <>
struct DTypeOf<kiln::bfloat16> : DTypeIs<DType::bfloat16> {};
template <>
struct DTypeOf<float> : DTypeIs<DType::float32> {};
template <>
struct DTypeOf<double> : DTypeIs<DType::float64> {};
template <>
struct DTypeOf<kiln::float8_e8m0fnu> : DTypeIs<DType::float8_e8m0fnu> {};
template <>
struct DTypeOf<kiln::float8_e4m3fn> : DTypeIs<DType::float8_e4m3fn> {};
template <>
struct DTypeOf<kiln::float8_e4m3fnuz> : DTypeIs<DType::float8_e4m3fnuz> {};
template <>
struct DTypeOf<kiln::float8_e5m2> : DTypeIs<DType::float8_e5m2> {};
template <>
struct DTypeOf<kiln::float8_e5m2fnuz> : DTypeIs<DType::float8_e5m2fnuz> {};
}  // namespace detail

template <typename T>
constexpr DType DType::of() {
  return detail::DTypeOf<T>::value;
}

}  // namespace kiln

template <>
struct std::hash<kiln::DType> {
  std::size_t operator()(kiln::DType d) const noexcept { return d.code(); }
};
