#include "kiln/driver/inline_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <functional>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "kiln/driver/device.h"
#include "kiln/driver/queue.h"
#include "kiln/support/debug_settings.h"

namespace kiln::driver {
namespace {

constexpr std::int64_t kBytes = 1 << 21;
constexpr int kRounds = 60;

/// Runs the jobs at the same time, each on a thread of its own.
void at_once(const std::vector<std::function<void()>>& jobs) {
  std::barrier start(static_cast<std::ptrdiff_t>(jobs.size()));
  std::vector<std::thread> threads;
  for (const auto& job : jobs)
    threads.emplace_back([&] {
      start.arrive_and_wait();
      job();
    });
  for (std::thread& thread : threads) thread.join();
}

bool holds_one_value(const Buffer& buffer) {
  buffer.wait_for_host_read();
  const auto* bytes = static_cast<const unsigned char*>(buffer.data());
  return std::all_of(bytes, bytes + buffer.byte_size(),
                     [&](unsigned char byte) { return byte == bytes[0]; });
}

TEST(InlineWork, FillsOfTwoThreadsFollowEachOther) {
  const Buffer buffer = Buffer::zeros({kBytes}, DType::uint8);
  for (int round = 0; round < kRounds; ++round) {
    at_once({[&] { buffer.memset(1); }, [&] { buffer.memset(2); }});
    ASSERT_TRUE(holds_one_value(buffer)) << "round " << round;
  }
}

TEST(InlineWork, AFillFollowsACopyOfAnotherThread) {
  const Buffer buffer = Buffer::zeros({kBytes}, DType::uint8);
  const DeviceQueue queue(CPU());
  const Buffer elsewhere(DType::uint8, {kBytes}, queue);
  for (int round = 0; round < kRounds; ++round) {
    Buffer copied;
    at_once({[&] { buffer.memset(1 + round % 2); }, [&] { copied = buffer.copy(); },
             [&] { elsewhere.inplace_copy_from(buffer); }});
    ASSERT_TRUE(holds_one_value(copied)) << "round " << round;
    ASSERT_TRUE(holds_one_value(elsewhere)) << "round " << round;
  }
}

TEST(InlineWork, CopiesBetweenTwoQueuesInBothDirectionsEnd) {
  const DeviceQueue queue(CPU());
  const Buffer here = Buffer::zeros({64}, DType::uint8);
  const Buffer there(DType::uint8, {64}, queue);
  there.memset(1);
  at_once({[&] {
             for (int i = 0; i < 2000; ++i) here.inplace_copy_from(there);
           },
           [&] {
             for (int i = 0; i < 2000; ++i) there.inplace_copy_from(here);
           }});
  EXPECT_TRUE(holds_one_value(here));
  EXPECT_TRUE(holds_one_value(there));
}

/// Whether `wait`, on another thread, returns only once a claim of the queue is over.
template <typename Wait>
bool waits_for_claim(const DeviceQueue& queue, Wait wait) {
  std::atomic<bool> over = false, started = false, saw = false;
  std::optional<InlineClaim> claim;
  claim.emplace().take(*queue.backend());
  EXPECT_TRUE(*claim);
  std::thread waiter([&] {
    started = true;
    wait();
    saw = over.load();
  });
  while (!started) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) std::this_thread::yield();
  over = true;
  claim.reset();
  waiter.join();
  return saw;
}

TEST(InlineWork, WhoeverWaitsForTheQueueWaitsForClaims) {
  const DeviceQueue queue(CPU());
  const Buffer buffer(DType::uint8, {8}, queue);
  buffer.memset(0);
  EXPECT_TRUE(waits_for_claim(queue, [&] { queue.synchronize(); }));
  EXPECT_TRUE(waits_for_claim(queue, [&] { queue.record_event().synchronize(); }));
  EXPECT_TRUE(waits_for_claim(queue, [&] { buffer.wait_for_host_read(); }));
  EXPECT_TRUE(waits_for_claim(queue, [&] { buffer.set({0}, std::int64_t{1}); }));
  EXPECT_TRUE(waits_for_claim(queue, [&] {
    std::atomic<bool> ran = false;
    queue.enqueue_cpu_function([&] { ran = true; });
    while (!ran) std::this_thread::yield();
  }));
}

TEST(InlineWork, AClaimEndsWhenItsWorkThrows) {
  const DeviceQueue queue(CPU());
  try {
    InlineClaim claim;
    claim.take(*queue.backend());
    throw std::runtime_error("not the queue's failure");
  } catch (const std::runtime_error&) {
  }
  EXPECT_TRUE(queue.backend()->idle());
  EXPECT_NO_THROW(queue.synchronize());
}

TEST(InlineWork, AClaimOfTwoQueuesTakesBothOrNone) {
  const DeviceQueue first(CPU()), second(CPU());
  InlineClaim held;
  held.take(*second.backend());
  InlineClaim both;
  both.take(*first.backend(), *second.backend());
  EXPECT_FALSE(both);
  EXPECT_TRUE(first.backend()->idle());
}

TEST(InlineWork, NothingStartsWhileACallIsOnTheQueue) {
  const DeviceQueue queue(CPU());
  const Buffer input(DType::uint8, {8}, queue);
  input.memset(0);
  const std::vector<Buffer> inputs = {input};
  QueueBackend& own = *CPU().default_queue().backend();
  CPU().synchronize();
  SharedEntry entry(own, inputs), another(own, inputs);
  ASSERT_TRUE(entry.try_enter());
  ASSERT_TRUE(another.try_enter());
  input.memset(1);  // has a place, but does not start
  for (int i = 0; i < 100; ++i) std::this_thread::yield();
  EXPECT_EQ(*static_cast<const unsigned char*>(input.data()), 0);
  EXPECT_FALSE(queue.backend()->idle());
  EXPECT_FALSE(entry.is_free(input, false));
  entry.leave();
  another.leave();
  EXPECT_EQ(input[0].item<int>(), 1);
  InlineClaim claim;
  claim.take(own);
  EXPECT_TRUE(claim);
  EXPECT_FALSE(entry.try_enter());
}

TEST(InlineWork, ACallTakesItsTurnOnABusyQueue) {
  const DeviceQueue queue(CPU());
  std::atomic<bool> open = false, later = false;
  queue.enqueue_cpu_function([&] { open.wait(false); });
  std::thread caller([&] {
    SharedEntry entry(*queue.backend(), {});
    EXPECT_TRUE(entry.enter_in_turn(true));
    queue.enqueue_cpu_function([&] { later = true; });
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    EXPECT_FALSE(later);
  });
  open = true;
  open.notify_all();
  caller.join();
  queue.synchronize();
  EXPECT_TRUE(later);
}

TEST(InlineWork, ATurnHoldsOnTheQueuesOfTheInputs) {
  const DeviceQueue queue(CPU()), other(CPU());
  const std::vector<Buffer> inputs = {Buffer(DType::uint8, {8}, other)};
  const Buffer& input = inputs[0];
  input.memset(1);
  std::atomic<bool> open = false;
  other.enqueue_cpu_function([&] { open.wait(false); });
  input.memset(2);
  std::thread opener([&] {
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    open = true;
    open.notify_all();
  });
  SharedEntry entry(*queue.backend(), inputs);
  ASSERT_TRUE(entry.enter_in_turn(true));
  input.memset(3);
  for (int i = 0; i < 100; ++i) std::this_thread::yield();
  EXPECT_EQ(*static_cast<const unsigned char*>(input.data()), 2);
  EXPECT_TRUE(entry.is_free(input, false));  // of what comes before the call
  entry.leave();
  opener.join();
  EXPECT_EQ(input[0].item<int>(), 3);
}

TEST(InlineWork, ATurnWhereEachEnqueueWaits) {
  const DeviceQueue queue(CPU()), other(CPU());
  const std::vector<Buffer> inputs = {Buffer(DType::uint8, {8}, other)};
  debug_settings().set("device-sync-mode", "true");
  {
    SharedEntry entry(*queue.backend(), inputs);
    EXPECT_TRUE(entry.enter_in_turn(true));
  }
  debug_settings().reset();
  EXPECT_TRUE(queue.backend()->idle());
}

TEST(InlineWork, ATurnOnAQueueThatFailsIsNotGiven) {
  const DeviceQueue queue(CPU());
  queue.enqueue_cpu_function([] { throw std::runtime_error("held"); });
  SharedEntry entry(*queue.backend(), {});
  EXPECT_FALSE(entry.enter_in_turn(true));
  EXPECT_THROW(queue.synchronize(), std::runtime_error);
}

}  // namespace
}  // namespace kiln::driver
