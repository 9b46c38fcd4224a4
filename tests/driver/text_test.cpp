#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "kiln/driver/buffer.h"
#include "kiln/dtype/element.h"

namespace kiln::driver {
namespace {

std::string expected_text(const char* name) {
  std::ifstream file(std::string(KILN_TEST_DATA) + "/array_text/" + name + ".txt");
  EXPECT_TRUE(file) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Compares with NumPy's text of the same array, whose element i is `value(i)`.
template <typename F>
void check(const char* name, DType dtype, const Shape& shape, F value) {
  const Buffer buffer(dtype, shape);
  for (std::int64_t i = 0; i < buffer.num_elements(); ++i)
    store_element(dtype, buffer.data(), i, value(i));
  EXPECT_EQ(buffer.to_string(), "Buffer(" + expected_text(name) + ", dtype=" + dtype.to_string() +
                                    ", shape=" + shape.to_string() +
                                    ", device=Device(type=cpu,id=0))")
      << name;
}

template <typename T>
void check_values(const char* name, DType dtype, const Shape& shape, std::vector<T> values) {
  check(name, dtype, shape, [&](std::int64_t i) { return T(values[static_cast<std::size_t>(i)]); });
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(BufferText, Scalars) {
  check_values<double>("rank0_float", DType::float32, {}, {0.1});
  check_values<double>("rank0_small", DType::float64, {}, {1e-5});
  check_values<double>("rank0_large", DType::float64, {}, {1e16});
  check_values<int>("rank0_int", DType::int8, {}, {-3});
  check_values<bool>("rank0_bool", DType::bool_, {}, {true});
}

TEST(BufferText, Layout) {
  const auto f = [](std::int64_t i) { return static_cast<float>(i); };
  check("vector", DType::float32, {6}, [&](std::int64_t i) { return f(i) / 4; });
  check("matrix", DType::float32, {3, 4}, [&](std::int64_t i) { return (f(i) - 5) / 3; });
  check("cube", DType::int32, {2, 3, 4}, [](std::int64_t i) { return i - 11; });
  check("wrapped", DType::float64, {60}, [](std::int64_t i) { return double(i) * 1.25; });
  check("wrapped_ints", DType::int64, {40}, [](std::int64_t i) { return i * 12345 % 9999; });
  check("long", DType::int32, {5000}, [](std::int64_t i) { return i; });
  check("long_matrix", DType::float32, {40, 100}, [&](std::int64_t i) { return f(i) / 8; });
  check("long_cube", DType::int16, {8, 9, 20}, [](std::int64_t i) { return i; });
  check_values<bool>("bools", DType::bool_, {2, 2}, {true, false, false, false});
  check("empty", DType::float32, {2, 0, 3}, f);
}

TEST(BufferText, Numbers) {
  check_values<double>("scientific", DType::float64, {3}, {1e-5, 1.0, -123456.789});
  check_values<double>("large", DType::float32, {3}, {1e8, 2.5e9, 3.0});
  check_values<double>("tiny_ratio", DType::float32, {2}, {0.001, 1.5});
  check_values<double>("nonfinite", DType::float32, {5}, {1.5, kNan, kInfinity, -kInfinity, -2.25});
  check_values<double>("only_nan", DType::float32, {2}, {kNan, kNan});
  check_values<double>("half", DType::float16, {4}, {0.1, 1.0 / 3, 65504, -2});
  check_values<double>("thirds", DType::float64, {3}, {1.0 / 3, 2.0 / 3, 0.1 + 0.2});
  check_values<double>("exponents", DType::float64, {3}, {1e-300, 1e300, 1.0});
  check_values<std::uint64_t>("unsigned", DType::uint64, {2}, {0, ~std::uint64_t{0}});
  check_values<double>("zeros", DType::float32, {2}, {0.0, -0.0});
}

TEST(BufferText, SmallFloatsAreDecoded) {
  const Buffer buffer = Buffer::zeros({3}, DType::float4_e2m1fn);
  buffer.set({1}, 1.5);
  buffer.set({2}, -6);
  EXPECT_EQ(buffer.to_string(),
            "Buffer([ 0.   1.5 -6. ], dtype=DType.float4_e2m1fn, shape=(3,), "
            "device=Device(type=cpu,id=0))");
  const Buffer bf16 = Buffer::scalar(1.5, DType::bfloat16);
  EXPECT_EQ(bf16.to_string(),
            "Buffer(1.5, dtype=DType.bfloat16, shape=(), device=Device(type=cpu,id=0))");
  EXPECT_EQ(bf16.repr().substr(0, 54), "kiln.driver.Buffer(DType.bfloat16, (), cpu[0]:queue@0x");
  std::stringstream stream;
  stream << bf16;
  EXPECT_EQ(stream.str(), bf16.to_string());
}

TEST(BufferText, StridedBuffersPrintTheirElements) {
  const Buffer buffer = Buffer::copy_of(std::vector<std::int32_t>{1, 2, 3, 4}, {2, 2});
  EXPECT_EQ((buffer[{Slice{{}, {}, -1}, 0}].to_string().substr(0, 13)), "Buffer([3 1],");
}

}  // namespace
}  // namespace kiln::driver
