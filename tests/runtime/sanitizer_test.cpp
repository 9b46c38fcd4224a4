// In builds with AddressSanitizer: the working memory of calls hides nothing from it.

#include "kiln/support/sanitizer.h"

#ifdef KILN_ADDRESS_SANITIZER

#include <gtest/gtest.h>

#include "kiln/runtime/call.h"

namespace kiln::runtime {
namespace {

void write(void* memory, std::int64_t offset) { static_cast<volatile char*>(memory)[offset] = 1; }

TEST(AddressSanitizer, SeesTheEndsOfWorkingMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Arena arena;
  for (std::int64_t size : {1, 64, 100, 3900}) {
    void* first = arena.allocate(size);
    void* second = arena.allocate(size);
    write(first, size - 1);
    write(second, 0);
    EXPECT_DEATH(write(first, size), "AddressSanitizer: ") << size;
    EXPECT_DEATH(write(second, -1), "AddressSanitizer: ") << size;
  }
}

TEST(AddressSanitizer, SeesWorkingMemoryThatWasTakenBack) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Arena arena;
  void* memory = arena.allocate(100);
  arena.reset();
  EXPECT_DEATH(write(memory, 5), "AddressSanitizer: ");
  EXPECT_EQ(arena.allocate(100), memory);
  write(memory, 5);
}

}  // namespace
}  // namespace kiln::runtime

#endif
