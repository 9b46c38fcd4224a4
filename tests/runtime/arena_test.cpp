#include <gtest/gtest.h>

#include <cstring>

#include "kiln/runtime/call.h"

namespace kiln::runtime {
namespace {

/// Takes memory and fills it.
std::byte* take(Arena& arena, std::int64_t bytes, int value) {
  auto* memory = static_cast<std::byte*>(arena.allocate(bytes));
  std::memset(memory, value, static_cast<std::size_t>(bytes));
  return memory;
}

bool holds(const std::byte* memory, std::int64_t bytes, int value) {
  for (std::int64_t i = 0; i < bytes; ++i)
    if (memory[i] != std::byte(value)) return false;
  return true;
}

TEST(Arena, WhatWasTakenAfterAMarkComesBack) {
  Arena arena;
  for (int call = 0; call < 3; ++call) {
    const std::byte* before = take(arena, 1000, 1);
    const std::int64_t mark = arena.mark();
    const std::byte* first = take(arena, 2000, 2);
    for (int i = 0; i < 10; ++i) {
      arena.release(mark);
      const std::byte* again = take(arena, 2000, 3);
      if (call > 0) EXPECT_EQ(again, first);
      EXPECT_TRUE(holds(before, 1000, 1));
    }
    arena.reset();
  }
}

TEST(Arena, IterationsThatGrowKeepToTheLargest) {
  Arena arena;
  const std::byte* before = take(arena, 5000, 1);
  const std::int64_t outer = arena.mark();
  for (int i = 0; i < 30; ++i) {
    const std::byte* middle = take(arena, 3000 * (i + 1), 2);
    const std::int64_t inner = arena.mark();
    for (int j = 0; j < 30; ++j) {
      const std::byte* a = take(arena, 10'000 * (j + 1), 3);
      const std::byte* b = take(arena, 7'000 * (30 - j), 4);
      const std::byte* c = take(arena, 100'000, 5);
      EXPECT_TRUE(holds(a, 10'000 * (j + 1), 3) && holds(b, 7'000 * (30 - j), 4) &&
                  holds(c, 100'000, 5));
      arena.release(inner);
    }
    EXPECT_TRUE(holds(middle, 3000 * (i + 1), 2));
    arena.release(outer);
  }
  EXPECT_TRUE(holds(before, 5000, 1));
  // One iteration takes at most 700 KB.
  EXPECT_LT(arena.capacity(), 2'000'000u);
  arena.reset();
  EXPECT_LT(arena.capacity(), 4'000'000u);
}

TEST(Arena, IterationsOfManyLargePiecesDoNotAddUp) {
  Arena arena;
  const std::int64_t mark = arena.mark();
  constexpr std::int64_t kPiece = 40 << 20;  // more than blocks grow by at a time
  for (int i = 0; i < 20; ++i) {
    for (int piece = 0; piece < 3; ++piece) *static_cast<char*>(arena.allocate(kPiece)) = 1;
    arena.release(mark);
  }
  arena.reset();
  EXPECT_LE(arena.capacity(), std::size_t{5 * kPiece});
}

}  // namespace
}  // namespace kiln::runtime
