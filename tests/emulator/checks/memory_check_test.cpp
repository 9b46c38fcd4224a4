#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "driver.h"

// A process of its own: the driver reads KILN_EMULATOR_CHECK once.

namespace kiln::emulator_test {
namespace {

constexpr Result kIllegalAddress = 700;

const bool kChecked = setenv("KILN_EMULATOR_CHECK", "memory", 1) == 0;

// out_of_bounds(int* array, long long offset): array[offset] = 1.
const std::string kStore = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry out_of_bounds(.param .u64 array, .param .u64 offset) {
  .reg .b64 %rd<4>;
  .reg .b32 %r1;
  ld.param.u64 %rd1, [array];
  ld.param.u64 %rd2, [offset];
  shl.b64 %rd3, %rd2, 2;
  add.s64 %rd3, %rd3, %rd1;
  mov.u32 %r1, 1;
  st.global.u32 [%rd3], %r1;
  ret;
})";

/// What a store of 4 bytes at element `offset` of an array of `count` elements ends with.
Result store_at(std::size_t count, long long offset) {
  use_device(0);
  Result result = 0;
  {
    const Module module(kStore);
    const Array<int> array(count);
    launch(module.function("out_of_bounds"), {{1}, {1}}, array, offset);
    result = driver().synchronize_context();
  }
  if (result != 0) reset_device(0);
  return result;
}

TEST(MemoryCheck, StoresWithinAnArrayAreRight) {
  ASSERT_TRUE(kChecked);
  for (const std::size_t count : {1u, 3u, 100u, 1000u, 5000u}) {
    EXPECT_EQ(store_at(count, 0), 0) << count;
    EXPECT_EQ(store_at(count, static_cast<long long>(count) - 1), 0) << count;
  }
}

TEST(MemoryCheck, TheFirstElementBehindAnArrayIsFound) {
  ASSERT_TRUE(kChecked);
  for (const std::size_t count : {1u, 3u, 100u, 1000u, 5000u}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(store_at(count, static_cast<long long>(count)), kIllegalAddress) << count;
    const std::string report = testing::internal::GetCapturedStderr();
    EXPECT_NE(report.find("out_of_bounds"), std::string::npos) << report;
  }
}

TEST(MemoryCheck, TheElementBeforeAnArrayIsFound) {
  ASSERT_TRUE(kChecked);
  for (const std::size_t count : {1u, 100u, 5000u}) {
    EXPECT_EQ(store_at(count, -1), kIllegalAddress) << count;
  }
}

TEST(MemoryCheck, FreedMemoryIsFound) {
  ASSERT_TRUE(kChecked);
  use_device(0);
  {
    const Module module(kStore);
    Address address = 0;
    {
      const Array<int> array(100);
      address = array.address();
    }
    launch(module.function("out_of_bounds"), {{1}, {1}}, address, 5ll);
    EXPECT_EQ(driver().synchronize_context(), kIllegalAddress);
  }
  reset_device(0);
}

}  // namespace
}  // namespace kiln::emulator_test
