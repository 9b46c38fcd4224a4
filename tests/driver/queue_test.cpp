#include "kiln/driver/queue.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "kiln/driver/buffer.h"
#include "kiln/driver/host_hazard.h"
#include "kiln/support/sanitizer.h"

namespace kiln::driver {
namespace {

/// Holds a queue up until it is opened.
class Gate {
 public:
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

struct Boom : std::logic_error {
  using std::logic_error::logic_error;
};

template <typename F>
std::string failure_of(F&& function) {
  try {
    function();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

TEST(Queue, RunsInOrder) {
  const DeviceQueue queue(CPU());
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) queue.enqueue_cpu_function([&, i] { order.push_back(i); });
  queue.synchronize();
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[i], i);
  EXPECT_EQ(queue.native_stream_handle(), 0u);
  EXPECT_EQ(queue.to_string().substr(0, 13), "cpu[0]:queue@");
  EXPECT_NE(queue, DeviceQueue(CPU()));
}

TEST(Queue, UserFunctionsNeverRunInsideTheCall) {
  const DeviceQueue queue(CPU());
  std::thread::id ran_on;
  queue.enqueue_cpu_function([&] { ran_on = std::this_thread::get_id(); });
  queue.synchronize();
  EXPECT_NE(ran_on, std::this_thread::get_id());
  EXPECT_NE(ran_on, std::thread::id());
}

TEST(Queue, CopiesWaitForEarlierWork) {
  const DeviceQueue queue(CPU());
  const Buffer source = Buffer::copy_of(std::vector<int>{1, 2, 3}, {3});
  const Buffer target(DType::int32, {3}, queue);
  target.memset(0);
  Gate gate;
  queue.enqueue_cpu_function([&] { gate.wait(); });
  target.inplace_copy_from(source);
  EXPECT_EQ(static_cast<int*>(target.data())[0], 0);
  // The source's queue comes after the copy, so its buffer may be written only then.
  const Buffer later = source.copy();
  gate.open();
  EXPECT_EQ(target[{2}].item<int>(), 3);
  EXPECT_EQ(later[{1}].item<int>(), 2);
}

TEST(Queue, HostReadsWaitForTheirOwnBufferOnly) {
  const DeviceQueue busy(CPU());
  const Buffer other = Buffer::scalar(5, DType::int32);
  Gate gate;
  busy.enqueue_cpu_function([&] { gate.wait(); });
  EXPECT_EQ(other.item<int>(), 5);
  other.record_use(busy, {.write = false});
  EXPECT_EQ(other.item<int>(), 5);  // a reader does not hold up a read
  std::atomic<bool> written = false;
  std::thread writer([&] {
    other.set({}, 6);
    written = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(written);
  gate.open();
  writer.join();
  EXPECT_EQ(other.item<int>(), 6);
}

TEST(Queue, UserFunctionsCountAsWritesOfTheirQueue) {
  const DeviceQueue queue(CPU());
  const Buffer buffer(DType::int32, {1}, queue);
  buffer.memset(0);
  queue.enqueue_cpu_function([data = static_cast<int*>(buffer.data())] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    *data = 7;
  });
  EXPECT_EQ(buffer.item<int>(), 7);
}

TEST(Queue, MemoryComesBackAfterTheLastUse) {
  const DeviceQueue queue(CPU());
  Gate gate;
  std::atomic<bool> deleted = false;
  int memory[4] = {1, 2, 3, 4};
  {
    Buffer buffer = Buffer::wrap(memory, DType::int32, {4}, CPU(), [&] { deleted = true; });
    queue.enqueue_cpu_function([&] { gate.wait(); });
    buffer.record_use(queue);
  }
  EXPECT_FALSE(deleted);
  gate.open();
  queue.synchronize();
  for (int i = 0; i < 1000 && !deleted; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(deleted);
}

TEST(Queue, WaitsAcrossQueues) {
  const DeviceQueue first(CPU());
  const DeviceQueue second(CPU());
  Gate gate;
  std::atomic<int> step = 0;
  first.enqueue_cpu_function([&] {
    gate.wait();
    step = 1;
  });
  const DeviceEvent event = first.record_event();
  EXPECT_FALSE(event.is_ready());
  second.wait_for(event);
  int seen = -1;
  second.enqueue_cpu_function([&] { seen = step; });
  gate.open();
  second.synchronize();
  EXPECT_EQ(seen, 1);
  event.synchronize();
  EXPECT_TRUE(event.is_ready());
  EXPECT_TRUE(DeviceEvent(CPU()).is_ready());
  EXPECT_EQ(event.to_string().substr(0, 13), "cpu[0]:event@");
}

TEST(Queue, FailureSkipsAndIsDeliveredOnce) {
  const DeviceQueue queue(CPU());
  bool ran = false;
  queue.enqueue_cpu_function([] { throw Boom("first"); });
  queue.enqueue_cpu_function([&] { ran = true; });
  queue.enqueue_cpu_function([] { throw Boom("second"); });
  const DeviceEvent event = queue.record_event();
  EXPECT_THROW(event.synchronize(), Boom);
  try {
    queue.synchronize();
    FAIL() << "nothing was thrown";
  } catch (const Boom& error) {
    EXPECT_STREQ(error.what(), "first");
  }
  EXPECT_FALSE(ran);
  queue.synchronize();
  EXPECT_TRUE(queue.record_event().is_ready());
  queue.enqueue_cpu_function([&] { ran = true; });
  queue.synchronize();
  EXPECT_TRUE(ran);
}

TEST(Queue, FailureReachesQueuesThatWait) {
  const DeviceQueue first(CPU());
  const DeviceQueue second(CPU());
  Gate gate;
  first.enqueue_cpu_function([&] {
    gate.wait();
    throw Boom("broken");
  });
  second.wait_for(first);
  bool ran = false;
  second.enqueue_cpu_function([&] { ran = true; });
  gate.open();
  EXPECT_EQ(failure_of([&] { second.synchronize(); }), "broken");
  EXPECT_EQ(failure_of([&] { first.synchronize(); }), "broken");
  EXPECT_FALSE(ran);
  EXPECT_EQ(failure_of([&] { second.synchronize(); }), "none");
}

TEST(Queue, FailedWritesPoisonTheirBufferUntilRewritten) {
  const DeviceQueue queue(CPU());
  const Buffer source = Buffer::copy_of(std::vector<int>{1, 2}, {2});
  const Buffer target(DType::int32, {2}, queue);
  queue.enqueue_cpu_function([] { throw Boom("lost"); });
  target.inplace_copy_from(source);
  EXPECT_EQ(failure_of([&] { queue.synchronize(); }), "lost");
  EXPECT_EQ(failure_of([&] { target[{0}].item(); }), "lost");
  EXPECT_EQ(failure_of([&] { target[{0}].item(); }), "lost");
  // The default queue had to wait for the copy out of its buffer, so it has failed too.
  EXPECT_EQ(failure_of([&] { CPU().synchronize(); }), "lost");
  EXPECT_EQ(failure_of([&] { CPU().synchronize(); }), "none");
  // A copy that reads it fails its own queue.
  const DeviceQueue reader(CPU());
  const Buffer copy(DType::int32, {2}, reader);
  copy.inplace_copy_from(target);
  EXPECT_EQ(failure_of([&] { reader.synchronize(); }), "lost");
  EXPECT_EQ(failure_of([&] { queue.synchronize(); }), "lost");
  target.memset(0);
  EXPECT_EQ(target[{0}].item<int>(), 0);
}

TEST(Queue, RefusesCallsFromInsideWork) {
  const DeviceQueue queue(CPU());
  queue.enqueue_cpu_function([] { Buffer(DType::int8, {1}); });
  const std::string text = failure_of([&] { queue.synchronize(); });
  EXPECT_NE(text.find("Buffer was called from inside"), std::string::npos) << text;
  EXPECT_NE(text.find(queue.to_string()), std::string::npos) << text;
  queue.enqueue_cpu_function([&] { queue.synchronize(); });
  EXPECT_NE(failure_of([&] { queue.synchronize(); }).find("DeviceQueue.synchronize"),
            std::string::npos);
}

TEST(Queue, HoldsABoundedNumberOfItems) {
  const DeviceQueue queue(CPU());
  Gate gate;
  std::atomic<int> ran = 0;
  std::atomic<int> enqueued = 0;
  queue.enqueue_cpu_function([&] { gate.wait(); });
  std::thread producer([&] {
    for (int i = 0; i < 70000; ++i) {
      queue.enqueue_cpu_function([&] { ++ran; });
      ++enqueued;
    }
  });
  int last = -1;
  while (last != enqueued) {
    last = enqueued;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_GE(enqueued, 65535);
  EXPECT_LE(enqueued, 65537);
  gate.open();
  producer.join();
  queue.synchronize();
  EXPECT_EQ(ran, 70000);
}

TEST(Queue, WorkOutlivesItsHandle) {
  std::atomic<bool> ran = false;
  Gate gate;
  {
    const DeviceQueue queue(CPU());
    queue.enqueue_cpu_function([&] {
      gate.wait();
      ran = true;
    });
  }
  gate.open();
  for (int i = 0; i < 1000 && !ran; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(ran);
}

TEST(Queue, WaitsForPresentWorkAndDelivers) {
  const DeviceQueue queue(CPU());
  std::atomic<bool> ran = false;
  queue.wait_for_present_work("test");
  queue.enqueue_cpu_function([&] { ran = true; });
  queue.wait_for_present_work("test");
  EXPECT_TRUE(ran);
  queue.enqueue_cpu_function([] { throw Boom("held"); });
  EXPECT_EQ(failure_of([&] { queue.wait_for_present_work("test"); }), "held");
  EXPECT_EQ(failure_of([&] { queue.wait_for_present_work("test"); }), "none");
}

TEST(Event, Times) {
  const DeviceQueue queue(CPU());
  const DeviceEvent start(CPU(), true);
  const DeviceEvent end(CPU(), true);
  EXPECT_THROW(start.elapsed_time(end), RuntimeError);
  queue.record_event(start);
  queue.enqueue_cpu_function([] { std::this_thread::sleep_for(std::chrono::milliseconds(3)); });
  queue.record_event(end);
  end.synchronize();
  EXPECT_GE(start.elapsed_time(end), 3.0);
  EXPECT_THROW(start.elapsed_time(queue.record_event()), RuntimeError);
}

TEST(Process, ChildrenOfForkAreRefused) {
#ifdef KILN_THREAD_SANITIZER
  // The sanitizer does not follow a child of a process with several threads.
#else
  const Buffer used = Buffer::scalar(1, DType::int32);
  const Device cpu = CPU();
  const DeviceQueue queue = cpu.default_queue();
  const DeviceEvent event = queue.record_event();
  const HostHazardCompletion token = HostHazardCompletion::record_on(queue);
  queue.enqueue_cpu_function([] {});
  cpu.synchronize();
  const std::vector<std::function<void()> > calls{
      [&] { Buffer(DType::int8, {4}); },
      [&] { used.item(); },
      [&] { used.set({0}, 2); },
      [&] { used.wait_for_host_read(); },
      [&] { used.wait_for_host_write(); },
      [&] { used.to(cpu); },
      [&] { used.copy(); },
      [&] { used.copy(cpu); },
      [&] { used.memset(0); },
      [&] { used.inplace_copy_from(used); },
      [&] { used.record_use(queue); },
      [&] { (void)used.to_string(); },
      [&] { (void)used.to_dlpack(); },
      [&] { batch_inplace_copy({}, {}); },
      [&] { copy_pinned_to_destinations(used, {}); },
      [&] { cpu.stats(); },
      [&] { cpu.max_single_alloc_size(); },
      [&] { cpu.default_queue(); },
      [&] { cpu.synchronize(); },
      [&] { cpu.trim(); },
      [&] { cpu.can_access(cpu); },
      [&] { DeviceQueue another(cpu); },
      [&] { DeviceEvent another(cpu); },
      [&] { queue.synchronize(); },
      [&] { queue.record_event(); },
      [&] { queue.wait_for(queue); },
      [&] { queue.wait_for(cpu); },
      [&] { queue.wait_for(event); },
      [&] { queue.enqueue_cpu_function([] {}); },
      [&] { event.synchronize(); },
      [&] { event.is_ready(); },
      [&] { HostHazardCompletion::record_on(queue); },
      [&] { token.wait(); },
      [&] { token.is_ready(); },
  };
  const pid_t child = fork();
  if (child == 0) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      try {
        calls[i]();
      } catch (const RuntimeError& error) {
        if (std::string(error.what()) ==
            "kiln was in use before fork(); start the child with spawn or exec")
          continue;
      }
      _exit(static_cast<int>(i) + 1);
    }
    {
      const Buffer dropped = used;
    }
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "number of the call that was not refused";
#endif
}

TEST(Process, EndsWithWorkPending) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EXIT(
      {
        const DeviceQueue queue(CPU());
        queue.enqueue_cpu_function([] { std::this_thread::sleep_for(std::chrono::hours(1)); });
        queue.enqueue_foreign_function([] { std::abort(); });
        std::exit(7);
      },
      testing::ExitedWithCode(7), "");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

}  // namespace
}  // namespace kiln::driver
