// What accelerators do beside what every device does (conformance_test.cpp), run on each one that
// there is; KILN_CUDA_DRIVER may say that the driver is the emulator.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

#include "kiln/driver.h"
#include "kiln/support/error.h"

namespace kiln::driver {
namespace {

std::vector<int> ids() {
  std::vector<int> all;
  for (int id = 0; id < accelerator_count(); ++id) all.push_back(id);
  return all;
}

class Accelerators : public testing::TestWithParam<int> {
 protected:
  Device device() const { return Accelerator(GetParam()); }
  /// Another one where there are several.
  Device other() const { return Accelerator((GetParam() + 1) % accelerator_count()); }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Accelerators);
INSTANTIATE_TEST_SUITE_P(Driver, Accelerators, testing::ValuesIn(ids()),
                         [](const auto& info) { return "gpu" + std::to_string(info.param); });

Buffer counted(std::int64_t count, const Device& device) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i);
  return Buffer::copy_of(values, {count}, device);
}

std::int32_t last_of(const Buffer& buffer) {
  return buffer[{buffer.num_elements() - 1}].item<std::int32_t>();
}

TEST_P(Accelerators, NameThemselves) {
  EXPECT_EQ(device().api(), "cuda");
  EXPECT_EQ(device().label(), "gpu");
  EXPECT_EQ(device().id(), GetParam());
  EXPECT_THAT(device().architecture_name(), testing::MatchesRegex("sm_[0-9]+"));
  EXPECT_THAT(device().default_queue().to_string(),
              testing::MatchesRegex("cuda\\[[0-9]+\\]:queue@0x[0-9a-f]+"));
  EXPECT_NE(device().default_queue().native_stream_handle(), 0u);
}

TEST_P(Accelerators, CopiesGoBetweenThem) {
  const Buffer here = counted(100000, device());
  const Buffer there = here.copy(other());
  EXPECT_EQ(there.device(), other());
  EXPECT_EQ(last_of(there), 99999);
  here.memset(0);
  EXPECT_EQ(last_of(there), 99999);
  here.inplace_copy_from(there);
  EXPECT_EQ(last_of(here), 99999);
}

TEST_P(Accelerators, WorkWaitsForTheHost) {
  const DeviceQueue host(CPU());
  std::promise<void> gate;
  const Buffer source(DType::int32, {1000}, host);
  host.enqueue_cpu_function([&, opened = gate.get_future().share()] {
    opened.wait();
    static_cast<std::int32_t*>(source.data())[999] = 7;
  });
  const Buffer there = Buffer::zeros({1000}, DType::int32, device());
  there.inplace_copy_from(source);  // does not block
  const DeviceQueue second(device());
  const Buffer after(DType::int32, {1000}, second);
  second.wait_for(device());
  after.inplace_copy_from(there);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(second.record_event().is_ready());
  gate.set_value();
  EXPECT_EQ(last_of(after), 7);
}

TEST_P(Accelerators, TheHostWaitsForWork) {
  const CompletionFlag flag(device());
  const DeviceQueue queue(device());
  const Buffer there(DType::uint8, {64}, queue);
  queue.wait_for_host_value(flag, 3);
  there.memset(9);
  const DeviceQueue host(CPU());
  host.wait_for(queue);
  std::atomic<bool> ran{false};
  host.enqueue_cpu_function([&] { ran = true; });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(ran);
  flag.signal(3);
  host.synchronize();
  EXPECT_TRUE(ran);
  EXPECT_EQ(there[{63}].item<int>(), 9);
}

TEST_P(Accelerators, AFailureOfTheHostReachesThem) {
  const DeviceQueue host(CPU()), queue(device()), behind(other());
  std::promise<void> gate;
  host.enqueue_cpu_function([opened = gate.get_future().share()] {
    opened.wait();
    throw IndexError("the host failed");
  });
  const Buffer there(DType::uint8, {4}, queue);
  queue.wait_for(host);
  there.memset(1);
  behind.wait_for(queue);
  gate.set_value();
  EXPECT_THROW(queue.synchronize(), IndexError);
  queue.synchronize();
  EXPECT_THROW(behind.synchronize(), IndexError);
  EXPECT_THROW(there[{0}].item(), IndexError);
  there.memset(2);
  EXPECT_EQ(there[{3}].item<int>(), 2);
  device().synchronize();  // nothing of it is left
  CPU().synchronize();
}

TEST_P(Accelerators, StagingMemoryIsTheHostsToo) {
  const Buffer staging = Buffer::zeros({1000}, DType::int32, device(), Usage::STAGING);
  EXPECT_TRUE(staging.pinned());
  EXPECT_EQ(staging.device(), device());
  staging.stream().synchronize();
  staging.set({999}, 5);
  EXPECT_EQ(static_cast<const std::int32_t*>(staging.data())[999], 5);
  const Buffer there = staging.to(device());
  EXPECT_FALSE(there.pinned());
  EXPECT_EQ(last_of(there), 5);
  // A host write waits for the copies that read.
  for (int i = 0; i < 20; ++i) {
    staging.set({999}, i);
    there.inplace_copy_from(staging);
    staging.set({999}, -1);
    EXPECT_EQ(last_of(there), i);
  }
  // Filled by the other device.
  staging.inplace_copy_from(counted(1000, other()));
  EXPECT_EQ(last_of(staging), 999);
}

TEST_P(Accelerators, StampsHoldTheHostUp) {
  const Buffer staging = Buffer::zeros({8}, DType::int32, device(), Usage::STAGING);
  staging.stream().synchronize();
  const DeviceQueue queue(device());
  const CompletionFlag flag(device());
  queue.wait_for_host_value(flag, 1);
  const auto stalled = HostHazardCompletion::record_on(queue);
  const Buffer part = staging[Slice{2, 4}];
  // Readers do not hold readers up.
  part.stamp_read(stalled);
  EXPECT_EQ(staging[{0}].item<int>(), 0);
  auto writer = std::async(std::launch::async, [&] { staging.set({0}, 3); });
  EXPECT_EQ(writer.wait_for(std::chrono::milliseconds(30)), std::future_status::timeout);
  flag.signal(1);
  writer.get();
  EXPECT_EQ(staging[{0}].item<int>(), 3);
  // Writers do.
  flag.reset();
  queue.wait_for_host_value(flag, 1);
  staging.stamp_write(HostHazardCompletion::record_on(queue));
  auto reader = std::async(std::launch::async, [&] { return part[{0}].item<int>(); });
  EXPECT_EQ(reader.wait_for(std::chrono::milliseconds(30)), std::future_status::timeout);
  flag.signal(1);
  EXPECT_EQ(reader.get(), 0);
  // Work that was refused.
  staging.stamp_write(HostHazardCompletion::poisoned(queue, "the graph failed"));
  try {
    (void)part[{0}].item();
    ADD_FAILURE();
  } catch (const HostHazardError& error) {
    EXPECT_EQ(error.message(), "the graph failed");
  }
  staging.stamp_write(HostHazardCompletion::record_on(queue));
  EXPECT_EQ(part[{0}].item<int>(), 0);
  // Memory that is not tracked takes no stamps.
  const Buffer untracked =
      Buffer::zeros({8}, DType::int32, device(), Usage::STAGING | Usage::UNTRACKED);
  untracked.stamp_write(HostHazardCompletion::poisoned(queue, "never"));
  untracked.stream().synchronize();
  EXPECT_EQ(untracked[{0}].item<int>(), 0);
}

TEST_P(Accelerators, MemoryIsUsedAgainOnlyBehindItsUses) {
  const DeviceQueue queue(device());
  const CompletionFlag flag(device());
  const Buffer result(DType::int32, {1 << 16}, queue);
  {
    const Buffer source = counted(1 << 16, device());
    queue.wait_for(device());
    queue.wait_for_host_value(flag, 1);
    result.inplace_copy_from(source);
  }
  // Whatever this takes is not what the copy still reads.
  std::vector<Buffer> more;
  for (int i = 0; i < 20; ++i) {
    more.emplace_back(DType::int32, Shape{1 << 16}, device());
    more.back().memset(0xee);
  }
  flag.signal(1);
  EXPECT_EQ(last_of(result), (1 << 16) - 1);
}

TEST_P(Accelerators, ManyQueuesComeAndGo) {
  for (int i = 0; i < 300; ++i) {
    const DeviceQueue queue(device());
    const Buffer buffer(DType::uint8, {16}, queue);
    buffer.memset(i % 256);
    if (i % 10 == 0) {
      EXPECT_EQ(buffer[{15}].item<int>(), i % 256);
    }
  }
}

TEST_P(Accelerators, ThreadsShareThem) {
  std::vector<std::future<void>> threads;
  for (int t = 0; t < 4; ++t)
    threads.push_back(std::async(std::launch::async, [&, t] {
      const DeviceQueue queue(device());
      for (int i = 0; i < 100; ++i) {
        const Buffer buffer(DType::uint8, {1000 * (t + 1)}, queue);
        buffer.memset((i + t) % 256);
        ASSERT_EQ(buffer[{999}].item<int>(), (i + t) % 256);
      }
    }));
  for (auto& thread : threads) thread.get();
}

TEST_P(Accelerators, LaunchesAreTraced) {
  LaunchTrace trace;
  const Buffer there = Buffer::zeros({100}, DType::uint8, device());
  const Buffer copy = there.copy();
  copy.inplace_copy_from(Buffer::zeros({100}, DType::uint8));
  device().synchronize();
  const std::vector<LaunchTraceEntry> entries = trace.entries();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].kind, OperationKind::MEMSET);
  EXPECT_EQ(entries[0].memset_byte_size, 100u);
  EXPECT_EQ(entries[1].memcpy_kind, MemcpyKind::DTOD);
  EXPECT_EQ(entries[2].memcpy_kind, MemcpyKind::HTOD);
  EXPECT_EQ(entries[2].memcpy_byte_size, 100u);
}

TEST_P(Accelerators, MoreThanThereIsIsRefused) {
  const auto most = static_cast<std::int64_t>(device().max_single_alloc_size());
  EXPECT_THAT([&] { Buffer(DType::uint8, {most + 1}, device()); },
              testing::ThrowsMessage<ValueError>(
                  testing::HasSubstr("Memory manager cannot satisfy allocation (device memory)")));
}

TEST_P(Accelerators, TheNumbersBeyondThemAreRefused) {
  EXPECT_THROW(Accelerator(accelerator_count()), ValueError);
  EXPECT_EQ(scan_available_devices().size(), static_cast<std::size_t>(accelerator_count()));
  if (accelerator_count() > 1) {
    enable_all_peer_access();
    EXPECT_TRUE(device().can_access(other()));
  }
}

}  // namespace
}  // namespace kiln::driver
