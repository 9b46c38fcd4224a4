#include "kiln/engine/async_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace kiln::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::ThrowsMessage;

TEST(AsyncValue, HoldsAValue) {
  const AsyncValue<int> value;
  EXPECT_FALSE(value.done());
  EXPECT_THROW((void)value.result(), RuntimeError);
  EXPECT_THROW((void)value.exception(), RuntimeError);
  std::thread other([value] { value.set_result(7); });
  value.wait();
  other.join();
  EXPECT_TRUE(value.done());
  EXPECT_FALSE(value.is_error());
  EXPECT_EQ(value.result(), 7);
  EXPECT_EQ(value.exception(), nullptr);
  EXPECT_THROW(value.set_result(8), RuntimeError);
  EXPECT_EQ(value.result(), 7);
}

TEST(AsyncValue, HoldsAnError) {
  const AsyncValue<std::string> value;
  value.set_exception(std::make_exception_ptr(KeyError("gone")));
  EXPECT_TRUE(value.is_error());
  EXPECT_THROW((void)value.result(), KeyError);
  EXPECT_NE(value.exception(), nullptr);
}

TEST(AsyncValue, CallsBack) {
  const AsyncValue<int> value;
  std::vector<int> seen;
  value.add_done_callback([&](const AsyncValue<int>& done) { seen.push_back(done.result()); });
  value.add_done_callback([&](const AsyncValue<int>&) { throw KeyError("a reader's own"); });
  value.add_done_callback([&](const AsyncValue<int>& done) { seen.push_back(-done.result()); });
  EXPECT_TRUE(seen.empty());
  value.set_result(3);
  value.add_done_callback([&](const AsyncValue<int>& done) { seen.push_back(10 * done.result()); });
  EXPECT_THAT(seen, ElementsAre(3, -3, 30));
}

TEST(AsyncValue, IsFollowed) {
  const AsyncValue<int> value;
  const auto text = value.and_then([](int x) { return std::to_string(x); });
  const auto length = text.and_then([](const std::string& s) { return s.size(); });
  const auto failed = text.and_then([](const std::string&) -> int { throw KeyError("no"); });
  const auto after = failed.and_then([](int x) { return x; });
  EXPECT_THAT(
      [&] { text.set_result("mine"); },
      ThrowsMessage<RuntimeError>("The result of kiln's own work cannot be set from outside."));
  value.set_result(1234);
  EXPECT_EQ(text.result(), "1234");
  EXPECT_EQ(length.result(), 4u);
  EXPECT_THROW((void)failed.result(), KeyError);
  EXPECT_THROW((void)after.result(), KeyError);
}

}  // namespace
}  // namespace kiln::engine
