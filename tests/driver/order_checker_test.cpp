// KILN_DEBUG=queue-order: what has no order is found, whatever the queues happened to do, and what
// has one is not reported.

#include "kiln/driver/order_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "kiln/driver/buffer.h"
#include "kiln/driver/device.h"
#include "kiln/driver/event.h"
#include "kiln/driver/queue.h"
#include "kiln/support/call_site.h"
#include "kiln/support/debug_settings.h"
#include "kiln/support/error.h"

namespace kiln::driver {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class OrderChecker : public ::testing::Test {
 protected:
  OrderChecker() { debug_settings().set("queue-order", "true"); }
  ~OrderChecker() override { debug_settings().reset(); }

  /// A function on `queue` that uses `buffer`, as `record_use` says.
  static void use(const DeviceQueue& queue, const Buffer& buffer, bool write) {
    queue.enqueue_cpu_function([] {});
    buffer.record_use(queue, {.write = write});
  }
  template <typename F>
  static bool refuses(F&& call) {
    try {
      call();
    } catch (const RuntimeError& error) {
      EXPECT_THAT(error.what(), HasSubstr("have no order between them"));
      return true;
    }
    return false;
  }

  const DeviceQueue a_{CPU()}, b_{CPU()}, c_{CPU()};
  const Buffer buffer_{DType::int32, {12}, a_};
};

TEST_F(OrderChecker, NamesBothUses) {
  set_call_site_provider([] { return std::string("here.py:3"); });
  use(b_, buffer_, true);
  EXPECT_THAT(
      [&] { buffer_.memset(0); },
      ThrowsMessage<RuntimeError>(AllOf(
          HasSubstr("Two uses of kiln.driver.Buffer(DType.int32, (12,), "),
          HasSubstr("Buffer.memset on " + a_.to_string() + ", called at here.py:3, writes it"),
          HasSubstr("before that Buffer.record_use on " + b_.to_string() +
                    ", called at here.py:3, writes it"),
          HasSubstr("`wait_for`"))));
  set_call_site_provider(nullptr);
  EXPECT_THAT([&] { buffer_.memset(0); },
              ThrowsMessage<RuntimeError>(HasSubstr("in driver_test, writes")));
}

TEST_F(OrderChecker, ReadsNeedNoOrderAmongThemselves) {
  buffer_.memset(1);
  for (const DeviceQueue& queue : {b_, c_}) queue.wait_for(a_);
  use(b_, buffer_, false);
  use(c_, buffer_, false);
  EXPECT_TRUE(refuses([&] { buffer_.memset(2); }));
  a_.wait_for(b_);
  EXPECT_TRUE(refuses([&] { buffer_.memset(2); }));
  a_.wait_for(c_);
  EXPECT_FALSE(refuses([&] { buffer_.memset(2); }));
  EXPECT_TRUE(refuses([&] { use(b_, buffer_, false); }));
}

TEST_F(OrderChecker, PartsThatDoNotMeetNeedNoOrder) {
  const Buffer low = buffer_[{Slice{0, 6}}], high = buffer_[{Slice{6, 12}}];
  use(a_, low, true);
  use(b_, high, true);
  EXPECT_TRUE(refuses([&] { use(c_, buffer_[{Slice{5, 7}}], true); }));
  EXPECT_TRUE(refuses([&] { use(b_, low, false); }));
  EXPECT_FALSE(refuses([&] { use(b_, high, false); }));
  c_.wait_for(a_);
  EXPECT_FALSE(refuses([&] { use(c_, low, true); }));
}

TEST_F(OrderChecker, WorkThatHappenedToBeOverIsNoOrder) {
  buffer_.memset(1);
  while (!a_.record_event().is_ready()) {
  }
  // The host saw that it was over.
  EXPECT_FALSE(refuses([&] { use(b_, buffer_, true); }));
  b_.synchronize();
  EXPECT_FALSE(refuses([&] { use(c_, buffer_, true); }));
  // Now nobody looks, and a moment makes no difference.
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(refuses([&] { use(b_, buffer_, true); }));
}

TEST_F(OrderChecker, WaitsReachThroughOtherQueues) {
  use(a_, buffer_, true);
  b_.wait_for(a_);
  c_.wait_for(b_);
  EXPECT_FALSE(refuses([&] { use(c_, buffer_, true); }));
  EXPECT_TRUE(refuses([&] { use(b_, buffer_, false); }));
}

TEST_F(OrderChecker, AnEventMarksAPlace) {
  use(a_, buffer_, true);
  const DeviceEvent early = a_.record_event();
  use(a_, buffer_, true);
  const DeviceEvent late = a_.record_event();
  b_.wait_for(early);
  EXPECT_TRUE(refuses([&] { use(b_, buffer_, true); }));
  b_.wait_for(late);
  EXPECT_FALSE(refuses([&] { use(b_, buffer_, true); }));
}

TEST_F(OrderChecker, AnEventCarriesWhatItsQueueKnewThen) {
  use(a_, buffer_, true);
  const DeviceEvent before = b_.record_event();
  b_.wait_for(a_);
  const DeviceEvent after = b_.record_event();
  c_.wait_for(before);
  EXPECT_TRUE(refuses([&] { use(c_, buffer_, false); }));
  c_.wait_for(after);
  EXPECT_FALSE(refuses([&] { use(c_, buffer_, false); }));
}

TEST_F(OrderChecker, TheHostOrdersWhatItSaw) {
  use(b_, buffer_, true);
  b_.synchronize();
  EXPECT_FALSE(refuses([&] { buffer_.memset(0); }));
  use(a_, buffer_, true);
  buffer_.wait_for_host_read();
  EXPECT_FALSE(refuses([&] { use(c_, buffer_, true); }));
}

TEST_F(OrderChecker, CopiesAndHostAccessAreOrderedByKiln) {
  const Buffer other(DType::int32, {12}, b_);
  for (int i = 0; i < 3; ++i) {
    other.memset(i);
    buffer_.inplace_copy_from(other);
    buffer_.set({1}, 7);
    other.inplace_copy_from(buffer_);
    EXPECT_EQ(other[{1}].item<int>(), 7);
    EXPECT_EQ(other.copy()[{0}].item<int>(), 0x01010101 * i);
  }
  use(c_, other, true);
  EXPECT_TRUE(refuses([&] { buffer_.inplace_copy_from(other); }));
}

TEST_F(OrderChecker, QueuesThatAreGoneAreForgotten) {
  const Buffer kept(DType::int32, {4}, a_);
  for (int i = 0; i < 2000; ++i) {
    const DeviceQueue first(CPU()), second(CPU());
    const Buffer scratch(DType::int32, {4}, first);
    use(first, scratch, true);
    second.wait_for(first);
    use(second, scratch, true);
    c_.wait_for(second);
    use(c_, kept, false);
    second.synchronize();
  }
  // Some of the last queues may still be ending.
  EXPECT_LT(order_checker::known_queues(), 200u);
  use(c_, kept, true);
}

TEST_F(OrderChecker, AUseOutlivesItsQueue) {
  {
    const DeviceQueue gone(CPU());
    use(gone, buffer_, true);
    b_.wait_for(gone);
  }
  for (int i = 0; i < 500; ++i) {
    const DeviceQueue other(CPU());
    const Buffer scratch(DType::int32, {4}, other);
    use(other, scratch, true);
    other.synchronize();
  }
  EXPECT_TRUE(refuses([&] { use(c_, buffer_, false); }));
  EXPECT_FALSE(refuses([&] { use(b_, buffer_, true); }));
}

TEST_F(OrderChecker, WindowsThatInterleaveShareNothing) {
  use(b_, buffer_[Slice{0, {}, 2}], true);
  EXPECT_FALSE(refuses([&] { use(c_, buffer_[Slice{1, {}, 2}], true); }));
  EXPECT_TRUE(refuses([&] { use(c_, buffer_[Slice{2, {}, 2}], true); }));
  EXPECT_TRUE(refuses([&] { use(a_, buffer_[Slice{0, {}, 3}], true); }));
  EXPECT_TRUE(refuses([&] { use(b_, buffer_[Slice{3, {}, 4}], true); }));
}

TEST_F(OrderChecker, HalvesOfRowsShareNothing) {
  const Buffer rows(DType::int32, {4, 6}, a_);
  use(b_, rows[{Slice{}, Slice{0, 3, {}}}], true);
  EXPECT_FALSE(refuses([&] { use(c_, rows[{Slice{}, Slice{3, 6, {}}}], true); }));
  EXPECT_TRUE(refuses([&] { use(c_, rows[{Slice{}, Slice{2, 6, {}}}], true); }));
}

TEST_F(OrderChecker, TwoBuffersOverOneForeignMemory) {
  std::int32_t memory[12] = {};
  const auto over = [&](std::int32_t* start) {
    return Buffer::wrap(start, DType::int32, {6}, CPU(), [] {});
  };
  const Buffer low = over(memory), again = over(memory + 3), high = over(memory + 6);
  use(a_, low, true);
  EXPECT_FALSE(refuses([&] { use(b_, high, true); }));
  EXPECT_TRUE(refuses([&] { use(b_, again, true); }));
}

TEST_F(OrderChecker, MemoryThatComesAgainIsNew) {
  for (int i = 0; i < 10; ++i) {
    Buffer scratch(DType::int32, {1000}, i % 2 == 0 ? a_ : b_);
    scratch.memset(0);
    use(i % 2 == 0 ? a_ : b_, scratch, true);
  }
}

}  // namespace
}  // namespace kiln::driver
