// The caching manager over a source that counts: a stretch of addresses of which nothing is read.

#include "kiln/driver/cuda/memory_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "kiln/support/error.h"

namespace kiln::driver::cuda {
namespace {

constexpr std::size_t kMega = std::size_t{1} << 20;

/// Addresses from 4 GiB on, as much as `total` bytes at a time.
struct FakeSource {
  std::size_t total;
  std::size_t held = 0;
  int calls = 0;
  std::uintptr_t next = std::uintptr_t{1} << 32;
  std::map<void*, std::size_t> blocks = {};

  MemoryManager::Source source() {
    return {.pool = "device memory",
            .device = "Device(type=gpu,id=0)",
            .allocate = [this](std::size_t bytes) -> void* {
              ++calls;
              if (held + bytes > total) return nullptr;
              void* memory = reinterpret_cast<void*>(next);
              next += (bytes + 4095) / 4096 * 4096;
              held += bytes;
              blocks[memory] = bytes;
              return memory;
            },
            .release =
                [this](void* memory) {
                  ++calls;
                  held -= blocks.at(memory);
                  blocks.erase(memory);
                },
            .available = [this] { return total - held; },
            .settle = {}};
  }
};

MemorySettings settings(std::size_t cap, std::size_t chunk) {
  MemorySettings all;
  all.cap = cap;
  all.chunk = chunk;
  all.self_check = true;
  return all;
}

TEST(MemoryManager, SteadyWorkCallsNoDriver) {
  FakeSource fake{100 * kMega};
  MemoryManager manager(fake.source(), settings(100 * kMega, 2 * kMega));
  void* first = manager.allocate(1000);
  void* second = manager.allocate(3 * kMega);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 256, 0u);
  manager.release(first, 1000);
  manager.release(second, 3 * kMega);
  const int calls = fake.calls;
  for (int i = 0; i < 1000; ++i) {
    void* a = manager.allocate(1000);
    void* b = manager.allocate(3 * kMega);
    EXPECT_NE(a, b);
    manager.release(a, 1000);
    manager.release(b, 3 * kMega);
  }
  EXPECT_EQ(fake.calls, calls);
  EXPECT_EQ(manager.trim(), 5 * kMega);
  EXPECT_EQ(fake.held, 0u);
}

TEST(MemoryManager, TheWholeCapCanBeHadAnyNumberOfTimes) {
  FakeSource fake{100 * kMega};
  const std::size_t cap = 100 * kMega - 100;            // no multiple of anything
  MemorySettings unchecked = settings(cap, 2 * kMega);  // which is quadratic
  unchecked.self_check = false;
  MemoryManager manager(fake.source(), unchecked);
  for (int i = 0; i < 20; ++i) {
    void* all = manager.allocate(cap);
    EXPECT_THROW(manager.allocate(1), ValueError);
    manager.release(all, cap);
    std::vector<void*> small;
    for (std::size_t k = 0; k < 99 * kMega / 4096; ++k) small.push_back(manager.allocate(4096));
    for (void* block : small) manager.release(block, 4096);
  }
}

TEST(MemoryManager, BlocksNeverOverlap) {
  FakeSource fake{64 * kMega};
  MemoryManager manager(fake.source(), settings(64 * kMega, 4 * kMega));
  std::mt19937 random(7);
  std::map<std::uintptr_t, std::size_t> live;
  int refused = 0;
  for (int step = 0; step < 20000; ++step) {
    if (live.empty() || random() % 100 < 52) {
      const std::size_t bytes = 1 + random() % (random() % 20 == 0 ? 8 * kMega : 20000);
      void* memory = nullptr;
      try {
        memory = manager.allocate(bytes);
      } catch (const ValueError&) {
        ++refused;
        continue;
      }
      const auto begin = reinterpret_cast<std::uintptr_t>(memory);
      const auto after = live.lower_bound(begin);
      if (after != live.end()) {
        ASSERT_LE(begin + bytes, after->first);
      }
      if (after != live.begin()) {
        ASSERT_LE(std::prev(after)->first + std::prev(after)->second, begin);
      }
      const auto chunk = std::prev(fake.blocks.upper_bound(memory));
      ASSERT_LE(begin + bytes, reinterpret_cast<std::uintptr_t>(chunk->first) + chunk->second);
      live[begin] = bytes;
    } else {
      const auto one = std::next(live.begin(), static_cast<long>(random() % live.size()));
      manager.release(reinterpret_cast<void*>(one->first), one->second);
      live.erase(one);
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(MemoryManager, SaysWhatItHasWhenThereIsNotEnough) {
  FakeSource fake{38 * kMega};
  MemoryManager manager(fake.source(), settings(100 * kMega, 2 * kMega));
  EXPECT_THAT(
      [&] { manager.allocate(101 * kMega); },
      testing::ThrowsMessage<ValueError>(testing::MatchesRegex(
          "Memory manager cannot satisfy allocation \\(device memory\\): the request is "
          "above the cap on \\[Device\\(type=gpu,id=0\\)\\]@0x[0-9a-f]+ \\(request: 101MB ; "
          "free: 0B ; free_blocks: 0 ; available: 38MB ; chunk_size: 2MB ; chunk_count: 0 ; "
          "cache_size: 0B ; max_cache_size: 100MB\\)")));
  EXPECT_THAT([&] { manager.allocate(50 * kMega); },
              testing::ThrowsMessage<ValueError>(testing::HasSubstr("no free range is large")));
}

TEST(MemoryManager, WaitsForMemoryThatIsOnItsWayBack) {
  FakeSource fake{10 * kMega};
  MemoryManager* manager = nullptr;
  void* late = nullptr;
  MemoryManager::Source source = fake.source();
  source.settle = [&] { manager->release(late, 8 * kMega); };
  MemoryManager all(source, settings(10 * kMega, 2 * kMega));
  manager = &all;
  late = all.allocate(8 * kMega);
  EXPECT_NE(all.allocate(9 * kMega), nullptr);
}

TEST(MemoryManager, WithoutCachingEveryCallIsTheDrivers) {
  FakeSource fake{10 * kMega};
  MemorySettings off = settings(0, 0);
  off.caching = false;
  MemoryManager manager(fake.source(), off);
  for (int i = 1; i <= 3; ++i) {
    void* memory = manager.allocate(100);
    manager.release(memory, 100);
    EXPECT_EQ(fake.calls, 2 * i);
  }
  EXPECT_THROW(manager.allocate(11 * kMega), ValueError);
}

TEST(MemoryManager, ReadsTheEnvironment) {
  const auto with = [](const char* name, const char* value) {
    setenv(name, value, 1);
    const MemorySettings read = MemorySettings::for_device(1000 * kMega);
    unsetenv(name);
    return read;
  };
  const MemorySettings plain = MemorySettings::for_device(1000 * kMega);
  EXPECT_EQ(plain.cap, 950 * kMega);
  EXPECT_EQ(plain.chunk, 19 * kMega);
  EXPECT_TRUE(plain.caching);
  EXPECT_FALSE(plain.poison.has_value());
  EXPECT_EQ(with("KILN_DEVICE_CONTEXT_MEMORY_MANAGER_SIZE", "0x100000").cap, kMega);
  EXPECT_EQ(with("KILN_DEVICE_CONTEXT_MEMORY_MANAGER_SIZE_PERCENT", "10").cap, 100 * kMega);
  EXPECT_FALSE(with("KILN_DEVICE_CONTEXT_MEMORY_MANAGER_SIZE_PERCENT", "0").caching);
  EXPECT_EQ(with("KILN_DEVICE_CONTEXT_MEMORY_MANAGER_CHUNK_PERCENT", "50").chunk, 475 * kMega);
  EXPECT_EQ(with("KILN_DEVICE_CONTEXT_MEMORY_MANAGER_POISON_PATTERN", "0xA5").poison, 0xA5);
}

}  // namespace
}  // namespace kiln::driver::cuda
