#include "kiln/dtype/dtype.h"

#include <gtest/gtest.h>

#include "kiln/support/error.h"

namespace kiln {
namespace {

TEST(DType, CodesAndNames) {
  EXPECT_EQ(DType::from_code(81), DType::float32);
  EXPECT_EQ(DType::from_name("bf16"), DType::bfloat16);
  EXPECT_EQ(DType(DType::float4_e2m1fn).size_in_bytes(), 1);
  EXPECT_EQ(DType(DType::bool_).to_string(), "DType.bool");
  EXPECT_EQ(DType::of<std::int64_t>(), DType::int64);
  EXPECT_THROW(DType::from_code(2), ValueError);
  EXPECT_THROW(DType::from_name("float32"), KeyError);
}

}  // namespace
}  // namespace kiln
