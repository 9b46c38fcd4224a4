#include "kiln/support/timeline.h"

#include <gtest/gtest.h>

#include <thread>

#include "kiln/support/error.h"
#include "kiln/support/interrupt.h"

namespace kiln {
namespace {

std::exception_ptr error(const char* text) { return std::make_exception_ptr(ValueError(text)); }

std::string text_of(std::exception_ptr error) {
  if (!error) return "none";
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return e.what();
  }
}

TEST(Timeline, Counts) {
  Timeline timeline;
  EXPECT_TRUE(timeline.reached(0));
  EXPECT_FALSE(timeline.reached(1));
  timeline.advance(2);
  EXPECT_TRUE(timeline.reached(2));
  timeline.wait(2);
}

TEST(Timeline, WakesHostsAndRunsFunctions) {
  Timeline timeline;
  std::atomic<int> ran = 0;
  timeline.when_reached(1, [&] { ran += 1; });
  timeline.when_reached(2, [&] { ran += 10; });
  std::thread host([&] {
    timeline.wait(1);
    EXPECT_GE(timeline.completed(), 1u);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  timeline.advance(1);
  host.join();
  EXPECT_EQ(ran, 1);
  timeline.advance(3);
  EXPECT_EQ(ran, 11);
  timeline.when_reached(2, [&] { ran += 100; });
  EXPECT_EQ(ran, 111);
  EXPECT_FALSE(timeline.wait_until(4, std::chrono::steady_clock::now()));
}

TEST(Timeline, FailsFromAPlaceUntilRecovered) {
  Timeline timeline;
  EXPECT_TRUE(timeline.begin(1));
  timeline.advance(1);
  EXPECT_TRUE(timeline.begin(2));
  timeline.fail(2, error("first"));
  timeline.advance(2);
  EXPECT_FALSE(timeline.begin(3));
  timeline.fail(3, error("second"));
  timeline.advance(3);
  EXPECT_EQ(text_of(timeline.error_at(1)), "none");
  EXPECT_EQ(text_of(timeline.error_at(2)), "first");
  EXPECT_EQ(text_of(timeline.error_at(3)), "first");
  EXPECT_EQ(text_of(timeline.recover()), "first");
  EXPECT_EQ(text_of(timeline.recover()), "none");
  EXPECT_TRUE(timeline.begin(4));
  timeline.advance(4);
  EXPECT_EQ(text_of(timeline.error_at(4)), "none");
  EXPECT_EQ(text_of(timeline.error_at(3)), "first");
}

TEST(Timeline, AWaitEndsWhenTheInterruptCheckThrows) {
  Timeline timeline;
  set_interrupt_check([] { throw RuntimeError("wanted elsewhere"); });
  EXPECT_THROW(timeline.wait(1), RuntimeError);
  set_interrupt_check(nullptr);
  std::thread host([&] { timeline.wait(1); });
  timeline.advance(1);
  host.join();
}

}  // namespace
}  // namespace kiln
