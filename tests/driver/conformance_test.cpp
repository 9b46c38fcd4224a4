// What every device of the driver must do, run on each of them. A device lists what it lacks, with
// the reason; tests that need that are skipped there with the reason as text, and what is lacked
// must be refused with a sentence. A new backend adds a row to `test_devices`.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kiln/driver/backend.h"
#include "kiln/driver/buffer.h"
#include "kiln/driver/device.h"
#include "kiln/driver/event.h"
#include "kiln/driver/failure_injection.h"
#include "kiln/driver/queue.h"
#include "kiln/driver/virtual_device.h"
#include "kiln/support/error.h"

namespace kiln::driver {
namespace {

using Bytes = std::vector<std::uint8_t>;

enum class Feature {
  memory,          // buffers
  queues,          // queues, waits and events
  timing,          // events with times
  host_functions,  // functions of the program's on the queue's worker
};

struct TestDevice {
  std::string name;
  std::function<Device()> open;
  /// What it lacks, and why.
  std::map<Feature, std::string> lacks;
};

void PrintTo(const TestDevice& device, std::ostream* out) { *out << device.name; }

const std::vector<TestDevice>& test_devices() {
  static const std::string virtual_device = "a virtual device can only be named and compiled for";
  static std::vector<TestDevice> all{
      {"cpu", [] { return CPU(); }, {}},
      {"virtual",
       [] {
         set_virtual_device_count(2);
         return Accelerator(1);
       },
       {{Feature::memory, virtual_device},
        {Feature::queues, virtual_device},
        {Feature::timing, virtual_device},
        {Feature::host_functions, virtual_device}}},
  };
  // Those that the driver has, which KILN_CUDA_DRIVER may say is the emulator.
  static const bool added = [] {
    for (int id = 0; id < accelerator_count(); ++id)
      all.push_back(
          {"gpu" + std::to_string(id),
           [id] { return Accelerator(id); },
           {{Feature::host_functions, "functions of the host run on queues of the CPU"}}});
    return true;
  }();
  (void)added;
  return all;
}

class Conformance : public testing::TestWithParam<TestDevice> {
 protected:
  ~Conformance() override { set_virtual_device_count(0); }
  const Device& device() const { return device_; }

 private:
  Device device_ = GetParam().open();
};

/// The devices that lack none of these; that they refuse what they lack is a fact about each.
std::vector<TestDevice> devices_with(const std::vector<Feature>& features) {
  std::vector<TestDevice> found;
  for (const TestDevice& device : test_devices())
    if (std::none_of(features.begin(), features.end(),
                     [&](Feature feature) { return device.lacks.contains(feature); }))
      found.push_back(device);
  return found;
}

using Facts = Conformance;
using Memory = Conformance;
using Queues = Conformance;
using Timing = Conformance;
using Functions = Conformance;

const auto kName = [](const auto& info) { return info.param.name; };
const auto kMemory = devices_with({Feature::memory, Feature::queues});
const auto kTiming = devices_with({Feature::queues, Feature::timing});
const auto kFunctions = devices_with({Feature::memory, Feature::queues, Feature::host_functions});
INSTANTIATE_TEST_SUITE_P(Driver, Facts, testing::ValuesIn(test_devices()), kName);
INSTANTIATE_TEST_SUITE_P(Driver, Memory, testing::ValuesIn(kMemory), kName);
INSTANTIATE_TEST_SUITE_P(Driver, Queues, testing::ValuesIn(kMemory), kName);
INSTANTIATE_TEST_SUITE_P(Driver, Timing, testing::ValuesIn(kTiming), kName);
INSTANTIATE_TEST_SUITE_P(Driver, Functions, testing::ValuesIn(kFunctions), kName);

template <typename T>
std::vector<T> values_of(const Buffer& buffer) {
  const Buffer host = buffer.copy(CPU());
  host.wait_for_host_read();
  const auto* begin = static_cast<const T*>(host.data());
  return {begin, begin + host.num_elements()};
}

Buffer counted(const Device& device, const Shape& shape) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(num_elements(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i);
  return Buffer::copy_of(values, shape, device);
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const RuntimeError& error) {
    return error.message();
  }
  return "";
}

// Facts

TEST_P(Facts, AgreeWithEachOther) {
  EXPECT_EQ(device().label() == "cpu", device().is_host());
  EXPECT_EQ(device().api() == "cpu", device().is_host());
  EXPECT_GE(device().id(), 0);
  EXPECT_EQ(device().to_string(), "Device(type=" + std::string(device().label()) +
                                      ",id=" + std::to_string(device().id()) + ")");
  EXPECT_FALSE(device().model_name().empty());
  if (!device().is_host()) {
    EXPECT_FALSE(device().architecture_name().empty());
  }
  EXPECT_FALSE(device().can_access(device()));
  EXPECT_FALSE(device().can_access(CPU()));
  EXPECT_FALSE(CPU().can_access(device()));
}

TEST_P(Facts, ADeviceIsOneObject) {
  const Device again = GetParam().open();
  EXPECT_EQ(device(), again);
  EXPECT_EQ(std::hash<Device>()(device()), std::hash<Device>()(again));
  EXPECT_EQ(device() == CPU(), device().is_host());
}

TEST_P(Facts, AboutMemory) {
  const std::map<std::string, std::int64_t> stats = device().stats();
  EXPECT_GE(stats.at("free_memory"), 0);
  EXPECT_LE(stats.at("free_memory"), stats.at("total_memory"));
  EXPECT_EQ(stats.contains("graph_mem_reserved"), !device().is_host());
  EXPECT_EQ(stats.contains("graph_mem_used"), !device().is_host());
  EXPECT_GT(device().max_single_alloc_size(), 0u);
  device().trim();
}

TEST_P(Facts, WhatIsLackedIsRefused) {
  const std::map<Feature, std::vector<std::function<void()>>> uses{
      {Feature::memory,
       {[&] { Buffer(DType::int8, {1}, device()); },
        [&] { Buffer::zeros({1}, DType::int8, device()); },
        [&] { Buffer::scalar(1, DType::int8, device()); },
        [&] { counted(CPU(), {2}).copy(device()); }, [&] { counted(CPU(), {2}).to(device()); }}},
      {Feature::queues,
       {[&] { DeviceQueue queue(device()); }, [&] { device().default_queue(); },
        [&] { device().synchronize(); }, [&] { DeviceEvent event(device()); },
        [&] { CPU().default_queue().wait_for(device()); }}},
      {Feature::timing, {[&] { DeviceEvent event(device(), true); }}},
      {Feature::host_functions, {[&] { device().default_queue().enqueue_cpu_function([] {}); }}},
  };
  for (const auto& [feature, reason] : GetParam().lacks) {
    EXPECT_FALSE(reason.empty());
    for (std::size_t i = 0; i < uses.at(feature).size(); ++i)
      EXPECT_THAT(message_of(uses.at(feature)[i]), testing::Not(testing::IsEmpty()))
          << "feature " << static_cast<int>(feature) << ", use " << i;
  }
}

// Memory

TEST_P(Memory, EveryElementType) {
  int types = 0;
  for (int code = 0; code < 256; ++code) {
    std::optional<DType> dtype;
    try {
      dtype = DType::from_code(code);
    } catch (const ValueError&) {
      continue;
    }
    ++types;
    const Buffer one = Buffer::scalar(1, *dtype, device());
    EXPECT_EQ(one.item<double>(), 1.0) << dtype->name();
    const Buffer pair = Buffer::zeros({2, 2}, *dtype, device());
    const double stored = *dtype == DType::bool_ ? 1.0 : 2.0;
    pair.set({1, 0}, stored);
    EXPECT_EQ((pair[{1, 0}].item<double>()), stored) << dtype->name();
    EXPECT_EQ((pair[{Slice{1}, Slice{}}].copy()[{0, 0}].item<double>()), stored) << dtype->name();
    EXPECT_TRUE(pair.aligned(device().is_host() ? 64 : 256));
  }
  EXPECT_EQ(types, 19);
}

TEST_P(Memory, NoElements) {
  const Buffer none = Buffer::zeros({3, 0}, DType::float32, device());
  none.memset(1);
  none.inplace_copy_from(none.copy());
  EXPECT_EQ(none.num_elements(), 0);
  EXPECT_TRUE(none.is_contiguous());
}

TEST_P(Memory, CopiesBetweenItAndTheHost) {
  const Buffer there = counted(device(), {2, 3});
  EXPECT_EQ(there.device(), device());
  EXPECT_EQ(values_of<std::int32_t>(there), (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5}));
  const Buffer back = Buffer::zeros({6}, DType::int32);
  back.inplace_copy_from(there);
  EXPECT_EQ(values_of<std::int32_t>(back), (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(there.to(device()), there);
  EXPECT_EQ(there.copy(device()).device(), device());
}

TEST_P(Memory, WindowsAreCopiedInTheirOwnOrder) {
  const Buffer all = counted(device(), {4, 6});
  std::vector<std::int32_t> expected;
  for (int row = 3; row >= 0; row -= 2)
    for (int column = 1; column < 6; column += 2) expected.push_back(6 * row + column);
  EXPECT_EQ(values_of<std::int32_t>(all[{Slice{{}, {}, -2}, Slice{1, {}, 2}}].copy()), expected);
}

TEST_P(Memory, OverlappingWindowsActAsIfReadFirst) {
  for (const bool forward : {false, true}) {
    const Buffer all = counted(device(), {64});
    const Buffer low = all[{Slice{0, 60}}], high = all[{Slice{4, 64}}];
    (forward ? high : low).inplace_copy_from(forward ? low : high);
    std::vector<std::int32_t> expected(64);
    for (int i = 0; i < 64; ++i)
      expected[static_cast<std::size_t>(i)] = forward ? (i < 4 ? i : i - 4) : (i < 60 ? i + 4 : i);
    EXPECT_EQ(values_of<std::int32_t>(all), expected);
  }
}

TEST_P(Memory, AFillWritesItsWindowAndNothingElse) {
  const Buffer all = Buffer::zeros({16}, DType::uint8, device());
  all[{Slice{3, 11}}].memset(7);
  Bytes expected(16, 0);
  std::fill(expected.begin() + 3, expected.begin() + 11, std::uint8_t{7});
  EXPECT_EQ(values_of<std::uint8_t>(all), expected);
  EXPECT_THROW((all[{Slice{{}, {}, 2}}].memset(0)), ValueError);
  EXPECT_THROW(all.memset(256), ValueError);
}

TEST_P(Memory, ViewsShareBytes) {
  const Buffer bytes = Buffer::zeros({5}, DType::uint8, device());
  const Buffer pair = bytes[{Slice{1, 3}}].view(DType::int16);  // at an odd address
  pair.set({0}, 257);
  EXPECT_EQ(values_of<std::uint8_t>(bytes), (Bytes{0, 1, 1, 0, 0}));
}

TEST_P(Memory, IsGivenOutAgain) {
  for (int i = 0; i < 2000; ++i) {
    const Buffer buffer = Buffer::zeros({1 << 16}, DType::uint8, device());
    EXPECT_EQ(buffer[{i % (1 << 16)}].item<int>(), 0);
  }
}

// Queues

TEST_P(Queues, WorkRunsInOrder) {
  const DeviceQueue queue(device());
  EXPECT_EQ(queue.device(), device());
  EXPECT_NE(queue, device().default_queue());
  const Buffer cell(DType::uint8, {4}, queue), log(DType::uint8, {10, 4}, queue);
  Bytes expected;
  for (int i = 0; i < 10; ++i) {
    cell.memset(i);
    log[{i, Slice{}}].inplace_copy_from(cell);
    for (int k = 0; k < 4; ++k) expected.push_back(static_cast<std::uint8_t>(i));
  }
  EXPECT_EQ(values_of<std::uint8_t>(log), expected);
}

TEST_P(Queues, AWaitOrdersQueues) {
  const DeviceQueue first(device()), second(device());
  const Buffer a(DType::uint8, {1 << 20}, first);
  for (int i = 1; i <= 20; ++i) {
    a.memset(i);
    const DeviceEvent event = first.record_event();
    second.wait_for(event);
    const Buffer view = a.to(device(), {.after = event});
    EXPECT_EQ(view.stream(), device().default_queue());
    EXPECT_EQ(view[{(1 << 20) - 1}].item<int>(), i);
    first.wait_for(device());
  }
}

TEST_P(Queues, AnEventMarksAPlace) {
  const DeviceQueue queue(device());
  const DeviceEvent event(device());
  EXPECT_TRUE(event.is_ready());
  event.synchronize();
  const Buffer buffer(DType::uint8, {1 << 16}, queue);
  buffer.memset(3);
  queue.record_event(event);
  event.synchronize();
  EXPECT_TRUE(event.is_ready());
  queue.synchronize();
}

TEST_P(Timing, TimeRunsForward) {
  const DeviceQueue queue(device());
  const DeviceEvent start(device(), true), end(device(), true), without(device());
  queue.record_event(start);
  queue.record_event(end);
  queue.record_event(without);
  queue.synchronize();
  EXPECT_GE(start.elapsed_time(end), 0.0);
  EXPECT_THROW(start.elapsed_time(without), RuntimeError);
  EXPECT_THROW(start.elapsed_time(DeviceEvent(device(), true)), RuntimeError);
}

// Functions

TEST_P(Functions, AFailureSkipsWhatComesAfterItAndIsDeliveredOnce) {
  const DeviceQueue queue(device()), other(device());
  const Buffer buffer = Buffer::zeros({4}, DType::uint8, device());
  queue.enqueue_cpu_function([] { throw IndexError("the first failure"); });
  queue.enqueue_cpu_function([] { throw ValueError("the second failure"); });
  const Buffer bound(DType::uint8, {4}, queue);
  bound.memset(1);
  other.wait_for(queue);
  EXPECT_THROW(queue.synchronize(), IndexError);
  queue.synchronize();
  EXPECT_THROW(other.synchronize(), IndexError);
  other.synchronize();
  EXPECT_THROW(bound[{0}].item(), IndexError);
  bound.memset(2);
  EXPECT_EQ(values_of<std::uint8_t>(bound), (Bytes{2, 2, 2, 2}));
}

/// Calls of the driver in which every kind of allocation and of enqueueing occurs, most of them
/// while the queue is held up.
class Program {
 public:
  explicit Program(const Device& device) : device_(device), queue_(device) {}
  ~Program() { open(); }

  std::vector<std::int32_t> run() {
    queue_.enqueue_cpu_function(
        [gate = gate_.get_future().share(), use = marker_] { gate.wait(); });
    const Buffer source = counted(device_, {4});
    const Buffer first(DType::int32, {4}, queue_);
    first.memset(1);
    queue_.wait_for(device_);
    first.inplace_copy_from(source);
    const Buffer second = first.copy();
    const Buffer back = second[{Slice{{}, {}, -1}}].copy();
    const Buffer strided = Buffer::zeros({2}, DType::int32, device_);
    strided.inplace_copy_from(back[{Slice{0, 2}}]);
    const Buffer view = back.to(device_, {.after = queue_.record_event()});
    const Buffer sum(DType::int32, {4}, queue_);
    // It keeps the buffers, since a later step that fails gives up this function's.
    queue_.enqueue_cpu_function([use = marker_, sum, back, strided] {
      auto* to = static_cast<std::int32_t*>(sum.data());
      const auto* a = static_cast<const std::int32_t*>(back.data());
      const auto* b = static_cast<const std::int32_t*>(strided.data());
      for (int i = 0; i < 4; ++i) to[i] = a[i] + (i < 2 ? b[i] : 0);
    });
    std::vector<std::int32_t> foreign{10, 20, 30, 40};
    {
      const Buffer wrapped = Buffer::wrap(foreign.data(), DType::int32, {4}, device_,
                                          [use = marker_, deleted = deleted_] { ++*deleted; });
      ++wrapped_;
      sum.record_use(queue_);
      const Buffer other = Buffer::from_dlpack(wrapped.to_dlpack());
      EXPECT_EQ(other[{3}].item<int>(), 40);
    }
    open();
    queue_.synchronize();
    device_.synchronize();
    return values_of<std::int32_t>(sum);
  }
  /// Lets everything end, whatever failed.
  void settle() {
    open();
    queue_.synchronize();
    device_.synchronize();
    // Whoever completes the last use gives memory back, a moment after that counts as over.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (marker_.use_count() > 1 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    EXPECT_EQ(marker_.use_count(), 1);
    EXPECT_EQ(*deleted_, wrapped_);
  }

 private:
  void open() {
    if (!std::exchange(opened_, true)) gate_.set_value();
  }

  Device device_;
  DeviceQueue queue_;
  std::promise<void> gate_;
  bool opened_ = false;
  int wrapped_ = 0;
  std::shared_ptr<std::atomic<int>> deleted_ = std::make_shared<std::atomic<int>>(0);
  /// Held by what the program has not released.
  std::shared_ptr<int> marker_ = std::make_shared<int>(0);
};

TEST_P(Functions, EveryFailingStepIsAnErrorAndLeavesNothingBehind) {
  const std::vector<std::int32_t> expected{6, 4, 1, 0};  // 3 2 1 0 plus 3 2
  bool passed = false;
  int steps = 0;
  while (!passed && ++steps < 1000) {
    Program program(device());
    std::string failure;
    failure_injection::arm(steps);
    try {
      EXPECT_EQ(program.run(), expected);
    } catch (const Error& error) {
      failure = error.what();
    }
    passed = !failure_injection::disarm();
    EXPECT_EQ(failure.empty(), passed) << "step " << steps << ": " << failure;
    if (!passed) {
      EXPECT_THAT(failure, testing::HasSubstr("A test made this ")) << "step " << steps;
    }
    SCOPED_TRACE("step " + std::to_string(steps));
    program.settle();
    Program again(device());
    EXPECT_EQ(again.run(), expected) << "after step " << steps;
    again.settle();
  }
  EXPECT_TRUE(passed);
  EXPECT_GT(steps, 20);
}

}  // namespace
}  // namespace kiln::driver
