#include "kiln/driver/host_hazard.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

namespace kiln::driver {
namespace {

template <typename F>
std::string hazard_of(F&& function) {
  try {
    function();
  } catch (const HostHazardError& error) {
    return error.what();
  }
  return "none";
}

TEST(HostHazard, WaitsForTheQueue) {
  const DeviceQueue queue(CPU());
  std::atomic<bool> open = false;
  queue.enqueue_cpu_function([&] {
    while (!open) std::this_thread::yield();
  });
  const HostHazardCompletion token = HostHazardCompletion::record_on(queue);
  EXPECT_FALSE(token.is_ready());
  open = true;
  token.wait();
  EXPECT_TRUE(token.is_ready());
  const HostHazardCompletion copy = token;
  EXPECT_EQ(copy, token);
  EXPECT_NE(HostHazardCompletion::record_on(queue), token);
}

TEST(HostHazard, Poison) {
  const DeviceQueue queue(CPU());
  const HostHazardCompletion refused = HostHazardCompletion::poisoned(queue, "refused");
  EXPECT_TRUE(refused.is_ready());
  EXPECT_EQ(hazard_of([&] { refused.wait(); }), "refused");
  const HostHazardCompletion finished = HostHazardCompletion::record_on(queue);
  finished.wait();
  finished.poison("later");
  finished.poison("too late");
  EXPECT_EQ(hazard_of([&] { finished.wait(); }), "later");
}

TEST(HostHazard, FailedWorkPoisons) {
  const DeviceQueue queue(CPU());
  queue.enqueue_cpu_function([] { throw std::logic_error("producer failed"); });
  const HostHazardCompletion token = HostHazardCompletion::record_on(queue);
  EXPECT_EQ(hazard_of([&] { token.wait(); }), "producer failed");
  EXPECT_THROW(queue.synchronize(), std::logic_error);
}

}  // namespace
}  // namespace kiln::driver
