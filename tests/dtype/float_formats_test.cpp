#include "kiln/dtype/float_formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "kiln/dtype/dtype.h"
#include "kiln/dtype/element.h"
#include "kiln/dtype/finfo.h"
#include "kiln/support/error.h"

namespace kiln {
namespace {

/// The columns of a table of tests/data/float_formats, by name.
std::map<std::string, std::vector<std::string>> read_table(const char* name) {
  std::ifstream file(std::string(KILN_TEST_DATA) + "/float_formats/" + name);
  std::map<std::string, std::vector<std::string>> table;
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> cells;
    std::stringstream stream(line);
    for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
    if (names.empty()) {
      names = cells;
      continue;
    }
    for (std::size_t i = 0; i < cells.size(); ++i) table[names[i]].push_back(cells[i]);
  }
  EXPECT_FALSE(table.empty());
  return table;
}

const std::map<std::string, FloatFormat> kFormats = {
    {"float16", kFloat16},
    {"bfloat16", kBfloat16},
    {"float8_e4m3fn", kFloat8E4m3fn},
    {"float8_e4m3fnuz", kFloat8E4m3fnuz},
    {"float8_e5m2", kFloat8E5m2},
    {"float8_e5m2fnuz", kFloat8E5m2fnuz},
    {"float4_e2m1fn", kFloat4E2m1fn},
};

bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b)
                       : std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

TEST(FloatFormats, DecodesEveryCode) {
  auto table = read_table("decodings.csv");
  for (const auto& [name, format] : kFormats) {
    if (format.bits() == 16) continue;
    for (std::uint32_t code = 0; code < 1u << format.bits(); ++code)
      EXPECT_TRUE(same(decode_float(format, code), std::strtod(table[name][code].c_str(), nullptr)))
          << name << " " << code;
  }
  for (int code = 0; code < 256; ++code)
    EXPECT_TRUE(same(float8_e8m0fnu::from_bits(static_cast<std::uint8_t>(code)),
                     std::strtod(table["float8_e8m0fnu"][code].c_str(), nullptr)))
        << code;
}

TEST(FloatFormats, DecodesEverySixteenBitCode) {
  for (std::uint32_t code = 0; code < 65536; ++code) {
    // The definition: sign, exponent, fraction.
    const int exponent = code >> 10 & 31;
    const int fraction = code & 1023;
    double expected = exponent == 31  ? (fraction ? NAN : INFINITY)
                      : exponent == 0 ? std::ldexp(fraction, -24)
                                      : std::ldexp(1024 + fraction, exponent - 25);
    if (code >> 15) expected = -expected;
    ASSERT_TRUE(same(decode_float(kFloat16, code), expected)) << code;
    // A bfloat16 is the upper half of a float32.
    ASSERT_TRUE(same(decode_float(kBfloat16, code), std::bit_cast<float>(code << 16))) << code;
  }
}

TEST(FloatFormats, EncodesAsOtherLibraries) {
  auto table = read_table("encodings.csv");
  for (std::size_t row = 0; row < table["float32"].size(); ++row) {
    const auto bits = static_cast<std::uint32_t>(std::stoul(table["float32"][row], nullptr, 16));
    const double value = std::bit_cast<float>(bits);
    for (const auto& [name, format] : kFormats) {
      const auto expected = static_cast<std::uint32_t>(std::stoul(table[name][row], nullptr, 16));
      const std::uint32_t code = encode_float(format, value);
      const bool nan = std::isnan(decode_float(format, expected));
      if (name == "float4_e2m1fn" && std::isnan(value)) continue;  // has no NaN to give
      if (nan)
        EXPECT_TRUE(std::isnan(decode_float(format, code))) << name << " " << value;
      else
        EXPECT_EQ(code, expected) << name << " " << value;
    }
  }
}

TEST(FloatFormats, RoundsToNearestEvenBetweenAllNeighbours) {
  for (const auto& [name, format] : kFormats)
    for (std::uint32_t code = 0; code < static_cast<std::uint32_t>(format.largest); ++code) {
      const double low = decode_float(format, code);
      const double high = decode_float(format, code + 1);
      const double middle = (low + high) / 2;  // exact
      ASSERT_EQ(encode_float(format, low), code) << name;
      ASSERT_EQ(encode_float(format, middle), code + (code & 1)) << name << " " << middle;
      ASSERT_EQ(encode_float(format, std::nextafter(middle, 0.0)), code) << name;
      ASSERT_EQ(encode_float(format, std::nextafter(middle, 1e300)), code + 1) << name;
      if (code > 0) {
        const std::uint32_t sign = 1u << (format.bits() - 1);
        ASSERT_EQ(encode_float(format, -middle), (code + (code & 1)) | sign) << name;
      }
    }
}

TEST(FloatFormats, EndsOfTheFormats) {
  EXPECT_EQ(float16(65519.0).bits, 0x7bff);
  EXPECT_EQ(float16(65520.0).bits, 0x7c00);
  EXPECT_EQ(float16(-1e300).bits, 0xfc00);
  EXPECT_EQ(float8_e4m3fn(464.0).bits, 0x7e);
  EXPECT_TRUE(std::isnan(float8_e4m3fn(465.0)));
  EXPECT_TRUE(std::isnan(float8_e4m3fn(INFINITY)));
  EXPECT_TRUE(std::isnan(float8_e4m3fnuz(-INFINITY)));
  EXPECT_EQ(float8_e5m2(INFINITY).bits, 0x7c);
  EXPECT_EQ(float8_e4m3fnuz(-0.0).bits, 0);
  EXPECT_EQ(encode_float(kFloat4E2m1fn, INFINITY), 7u);
  EXPECT_EQ(encode_float(kFloat4E2m1fn, -1e9), 15u);
  EXPECT_EQ(encode_float(kFloat16, std::ldexp(1.0, -25)), 0u);
  EXPECT_EQ(encode_float(kFloat16, std::nextafter(std::ldexp(1.0, -25), 1.0)), 1u);
  EXPECT_EQ(encode_float(kFloat16, 5e-324), 0u);
  // In one step: by way of float32 this would be a tie and go down.
  EXPECT_EQ(float16(1 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40)).bits, 0x3c01);
  static_assert(float16(1.5f).bits == 0x3e00);
}

TEST(FloatFormats, PowersOfTwo) {
  const auto code = [](double value) { return int{float8_e8m0fnu(value).bits}; };
  EXPECT_EQ(code(1.0), 127);
  EXPECT_EQ(code(1.49), 127);
  EXPECT_EQ(code(1.5), 128);  // a tie: 127 is odd
  EXPECT_EQ(code(3.0), 128);  // a tie: 128 is even
  EXPECT_EQ(code(0.0), 0);
  EXPECT_EQ(code(-4.0), 0);
  EXPECT_EQ(code(std::ldexp(1.0, -127)), 0);
  EXPECT_EQ(code(std::ldexp(1.6, -128)), 0);
  EXPECT_EQ(code(std::ldexp(1.0, 127)), 254);
  EXPECT_EQ(code(std::ldexp(1.0, 128)), 255);
  EXPECT_EQ(code(NAN), 255);
}

TEST(Element, BfloatStoresCutTheLowHalf) {
  std::uint16_t bits = 0;
  for (const auto& [value, expected] :
       std::vector<std::pair<std::uint32_t, int>>{{0x3f80ffff, 0x3f80},
                                                  {0xbf80ffff, 0xbf80},
                                                  {0x7f7fffff, 0x7f7f},
                                                  {0x7f800000, 0x7f80}}) {
    store_element(DType::bfloat16, &bits, 0, std::bit_cast<float>(value));
    EXPECT_EQ(bits, expected);
  }
  store_element(DType::bfloat16, &bits, 0, std::bit_cast<float>(0x7f800001u));
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(std::uint32_t{bits} << 16)));
}

TEST(Element, IntegersRefuseWhatTheyCannotHold) {
  std::uint64_t memory = 0;
  store_element(DType::uint64, &memory, 0, 18446744073709549568.0);
  EXPECT_EQ(memory, 18446744073709549568u);
  EXPECT_THROW(store_element(DType::uint64, &memory, 0, 18446744073709551616.0), ValueError);
  EXPECT_THROW(store_element(DType::uint8, &memory, 0, -1), ValueError);
  store_element(DType::uint8, &memory, 0, -0.9);
  EXPECT_EQ(load_element(DType::uint8, &memory, 0).to<int>(), 0);
  store_element(DType::int64, &memory, 0, -9223372036854775808.0);
  EXPECT_THROW(store_element(DType::int64, &memory, 0, ~std::uint64_t{0}), ValueError);
  EXPECT_THROW(store_element(DType::int32, &memory, 0, INFINITY), ValueError);
  store_element(DType::bool_, &memory, 0, 0.1);
  EXPECT_EQ(load_element(DType::bool_, &memory, 0), Scalar(true));
}

TEST(Finfo, Values) {
  for (const auto& [name, format] : kFormats) {
    const FloatInfo info = [&, &name = name] {
      for (int code = 64; code <= 82; ++code) {
        try {
          if (DType::from_code(code).name() == name) return finfo(DType::from_code(code));
        } catch (const ValueError&) {
          continue;
        }
      }
      throw std::logic_error(name);
    }();
    EXPECT_EQ(info.bits, format.bits());
    EXPECT_EQ(info.max, decode_float(format, static_cast<std::uint32_t>(format.largest))) << name;
    EXPECT_EQ(info.tiny, decode_float(format, 1u << format.mantissa_bits)) << name;
    EXPECT_EQ(info.eps, std::ldexp(1.0, -format.mantissa_bits)) << name;
    EXPECT_EQ(info.smallest_normal, info.tiny);
    EXPECT_EQ(info.min, -info.max);
  }
  EXPECT_EQ(finfo(DType::float8_e8m0fnu).min, std::ldexp(1.0, -127));
  EXPECT_EQ(finfo(DType::float32).to_string().substr(0, 34), "finfo(dtype=float32, bits=32, eps=");
  try {
    finfo(DType::int32);
    FAIL();
  } catch (const TypeError& error) {
    EXPECT_STREQ(error.what(), "finfo only supports floating-point types, got int32");
  }
}

}  // namespace
}  // namespace kiln
