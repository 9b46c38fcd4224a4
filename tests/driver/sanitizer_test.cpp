// In builds with AddressSanitizer: the pool of buffers hides nothing from it.

#include "kiln/support/sanitizer.h"

#ifdef KILN_ADDRESS_SANITIZER

#include <gtest/gtest.h>

#include "kiln/driver/buffer.h"

namespace kiln::driver {
namespace {

void write(void* memory, std::int64_t offset) { static_cast<volatile char*>(memory)[offset] = 1; }

TEST(AddressSanitizer, SeesTheEndsOfBuffers) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // Within a size class, at its end, and beyond the size from which memory is mapped.
  for (std::int64_t size : {1, 100, 128, 1100, 300000, 5000001}) {
    const Buffer buffer(DType::int8, {size});
    write(buffer.data(), 0);
    write(buffer.data(), size - 1);
    EXPECT_DEATH(write(buffer.data(), size), "AddressSanitizer: ") << size;
    EXPECT_DEATH(write(buffer.data(), -1), "AddressSanitizer: ") << size;
  }
}

TEST(AddressSanitizer, SeesUsesAfterRelease) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  void* memory = Buffer(DType::int8, {1000}).data();
  EXPECT_DEATH(write(memory, 5), "AddressSanitizer: heap-use-after-free");
}

}  // namespace
}  // namespace kiln::driver

#endif
