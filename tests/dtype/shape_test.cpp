#include "kiln/dtype/shape.h"

#include <gtest/gtest.h>

#include "kiln/driver/buffer.h"
#include "kiln/dtype/element.h"

namespace kiln {
namespace {

TEST(Shape, KeepsAnyLength) {
  Shape small{2, 3};
  EXPECT_EQ(small.to_string(), "(2, 3)");
  EXPECT_EQ(Shape().to_string(), "()");
  EXPECT_EQ(Shape{5}.to_string(), "(5,)");
  Shape large;
  for (int i = 0; i < 20; ++i) large.push_back(i);
  Shape copy = large;
  EXPECT_EQ(copy, large);
  copy.resize(3);
  EXPECT_EQ(copy, (Shape{0, 1, 2}));
  copy = std::move(large);
  EXPECT_EQ(copy.size(), 20u);
  EXPECT_EQ(copy[19], 19);
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(num_elements(Shape{}), 1);
  EXPECT_EQ(num_elements(Shape{2, 3, 4}), 24);
  EXPECT_EQ(num_elements(Shape{std::int64_t{1} << 62, 4, 0}), 0);
  EXPECT_THROW(num_elements(Shape{2, -1}), ValueError);
  EXPECT_THROW(num_elements(Shape{std::int64_t{1} << 62, 2}), ValueError);
}

TEST(Shape, Strides) {
  EXPECT_EQ(row_major_strides(Shape{2, 3, 4}), (Shape{12, 4, 1}));
  EXPECT_EQ(row_major_strides(Shape{2, 0, 4}), (Shape{4, 4, 1}));
  EXPECT_TRUE(is_row_major(Shape{2, 1, 4}, Shape{4, 99, 1}));
  EXPECT_FALSE(is_row_major(Shape{2, 4}, Shape{5, 1}));
  EXPECT_TRUE(is_row_major(Shape{0, 4}, Shape{5, 7}));
}

TEST(Element, StoresAndLoads) {
  double memory = 0;
  for (DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64, DType::int8,
                      DType::uint64, DType::float8_e4m3fn, DType::float8_e5m2}) {
    store_element(dtype, &memory, 0, 1.5);
    EXPECT_EQ(load_element(dtype, &memory, 0).to<double>(), dtype.is_float() ? 1.5 : 1.0)
        << dtype.to_string();
  }
}

}  // namespace
}  // namespace kiln
