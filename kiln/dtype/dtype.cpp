#include "kiln/dtype/dtype.h"

#include <array>

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln {
namespace {

struct Row {
  DType::Code code;
  std::string_view name;
  std::string_view text_name;
  int bits;
  int alignment;
};

constexpr std::array<Row, 19> kRows = {{
    {DType::bool_, "bool", "i1", 8, 1},
    {DType::int8, "int8", "si8", 8, 1},
    {DType::int16, "int16", "si16", 16, 2},
    {DType::int32, "int32", "si32", 32, 4},
    {DType::int64, "int64", "si64", 64, 8},
    {DType::uint8, "uint8", "ui8", 8, 1},
    {DType::uint16, "uint16", "ui16", 16, 2},
    {DType::uint32, "uint32", "ui32", 32, 4},
    {DType::uint64, "uint64", "ui64", 64, 8},
    {DType::float16, "float16", "f16", 16, 2},
    {DType::bfloat16, "bfloat16", "bf16", 16, 2},
    {DType::float32, "float32", "f32", 32, 4},
    {DType::float64, "float64", "f64", 64, 8},
    {DType::float8_e8m0fnu, "float8_e8m0fnu", "f8e8m0fnu", 8, 1},
    {DType::float8_e4m3fn, "float8_e4m3fn", "f8e4m3fn", 8, 1},
    {DType::float8_e4m3fnuz, "float8_e4m3fnuz", "f8e4m3fnuz", 8, 1},
    {DType::float8_e5m2, "float8_e5m2", "f8e5m2", 8, 1},
    {DType::float8_e5m2fnuz, "float8_e5m2fnuz", "f8e5m2fnuz", 8, 1},
    {DType::float4_e2m1fn, "float4_e2m1fn", "f4e2m1fn", 4, 1},
}};

const Row& row(DType::Code code) {
  for (const Row& r : kRows)
    if (r.code == code) return r;
  KILN_CHECK(false, format("no element type has code {}", int{code}));
  return kRows[0];
}

}  // namespace

DType DType::from_code(int code) {
  for (const Row& r : kRows)
    if (int{r.code} == code) return r.code;
  throw ValueError(format("{} is not the code of an element type; see kiln/dtype/dtype.h.", code));
}

DType DType::from_name(std::string_view text_name) {
  for (const Row& r : kRows)
    if (r.text_name == text_name) return r.code;
  throw KeyError(format("'{}' is not the name of an element type; names are written as in the IR, "
                        "such as 'f32', 'bf16', 'si64' or 'i1'.",
                        text_name));
}

std::string_view DType::name() const { return row(code_).name; }
std::string_view DType::text_name() const { return row(code_).text_name; }
std::string DType::to_string() const { return format("DType.{}", name()); }
int DType::size_in_bits() const { return row(code_).bits; }
int DType::size_in_bytes() const { return (row(code_).bits + 7) / 8; }
int DType::alignment() const { return row(code_).alignment; }
bool DType::is_integral() const { return code_ >= uint8 && code_ <= int64; }
bool DType::is_signed_integral() const { return is_integral() && (code_ & 1) != 0; }
bool DType::is_unsigned_integral() const { return is_integral() && (code_ & 1) == 0; }
bool DType::is_float() const { return code_ >= float4_e2m1fn && code_ <= float64; }
bool DType::is_float8() const { return code_ >= float8_e8m0fnu && code_ <= float8_e5m2fnuz; }
bool DType::is_half() const { return code_ == float16 || code_ == bfloat16; }

}  // namespace kiln
