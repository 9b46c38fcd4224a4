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
};

constexpr std::array<Row, 19> kRows = {{
    {DType::bool_, "bool", "i1"},
    {DType::int8, "int8", "si8"},
    {DType::int16, "int16", "si16"},
    {DType::int32, "int32", "si32"},
    {DType::int64, "int64", "si64"},
    {DType::uint8, "uint8", "ui8"},
    {DType::uint16, "uint16", "ui16"},
    {DType::uint32, "uint32", "ui32"},
    {DType::uint64, "uint64", "ui64"},
    {DType::float16, "float16", "f16"},
    {DType::bfloat16, "bfloat16", "bf16"},
    {DType::float32, "float32", "f32"},
    {DType::float64, "float64", "f64"},
    {DType::float8_e8m0fnu, "float8_e8m0fnu", "f8e8m0fnu"},
    {DType::float8_e4m3fn, "float8_e4m3fn", "f8e4m3fn"},
    {DType::float8_e4m3fnuz, "float8_e4m3fnuz", "f8e4m3fnuz"},
    {DType::float8_e5m2, "float8_e5m2", "f8e5m2"},
    {DType::float8_e5m2fnuz, "float8_e5m2fnuz", "f8e5m2fnuz"},
    {DType::float4_e2m1fn, "float4_e2m1fn", "f4e2m1fn"},
}};

/// Row of each code, 255 where there is none.
constexpr std::array<std::uint8_t, 256> kRowOfCode = [] {
  std::array<std::uint8_t, 256> table{};
  table.fill(255);
  for (std::uint8_t i = 0; i < kRows.size(); ++i) table[kRows[i].code] = i;
  return table;
}();

const Row& row(DType::Code code) {
  const std::uint8_t index = kRowOfCode[code];
  KILN_CHECK(index != 255, format("no element type has code {}", int{code}));
  return kRows[index];
}

}  // namespace

DType DType::from_code(int code) {
  if (code >= 0 && code < 256 && kRowOfCode[code] != 255) return kRows[kRowOfCode[code]].code;
  throw ValueError(
      format("{} is not the code of an element type; DType.code gives those there are, such as {} "
             "for float32.",
             code, static_cast<int>(DType::float32)));
}

DType DType::from_name(std::string_view text_name) {
  for (const Row& r : kRows)
    if (r.text_name == text_name) return r.code;
  throw KeyError(
      format("'{}' is not the name of an element type; names are written as in the IR, "
             "such as 'f32', 'bf16', 'si64' or 'i1'.",
             text_name));
}

std::string_view DType::name() const { return row(code_).name; }
std::string_view DType::text_name() const { return row(code_).text_name; }
std::string DType::to_string() const { return format("DType.{}", name()); }

}  // namespace kiln
