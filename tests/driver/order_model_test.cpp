// Random programs of copies, fills, functions, waits, releases and host accesses over several
// queues, some of them held up, compared with a model that does one step after the other.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kiln/driver/buffer.h"
#include "kiln/driver/device.h"
#include "kiln/driver/event.h"
#include "kiln/driver/queue.h"
#include "kiln/support/debug_settings.h"

namespace kiln::driver {
namespace {

constexpr std::int64_t kElements = 6;
using Values = std::array<std::int64_t, kElements>;

/// Number of random programs; KILN_TEST_PROGRAMS raises it.
int programs() {
  const char* text = std::getenv("KILN_TEST_PROGRAMS");
  return text != nullptr ? std::atoi(text) : 400;
}

/// A buffer and what it must hold.
struct Cell {
  Buffer buffer;
  std::size_t queue = 0;  // that it is bound to
  Values expected{};
};

/// One world of queues and buffers; threads take turns in it.
class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {
    queues_.push_back(CPU().default_queue());
    for (std::size_t i = 1 + pick(3); i > 0; --i) queues_.emplace_back(CPU());
    for (std::size_t i = 3 + pick(4); i > 0; --i) cells_.push_back(fresh());
  }
  ~World() { open_gates(); }

  void step() {
    const std::lock_guard lock(mutex_);
    switch (pick(14)) {
      case 0:
        return fill(any_cell());
      case 1:
      case 2:
        return copy(any_cell(), any_cell());
      case 3:
        return copy_part(any_cell(), any_cell());
      case 4:
      case 5:
      case 6:
        return function(pick(queues_.size()), any_cell(), any_cell());
      case 7:
        return hold_up(pick(queues_.size()));
      case 8:
        return wait(pick(queues_.size()), pick(queues_.size()));
      case 9:
        return host_write(any_cell());
      case 10:
        return host_read(any_cell());
      case 11: {  // the last handle goes while work is pending
        Cell& cell = any_cell();
        cell = fresh();
        return;
      }
      case 12:
        return copy_of_its_own(any_cell());
      default:
        return open_gates();
    }
  }

  void finish() {
    open_gates();
    for (Cell& cell : cells_) host_read(cell);
    for (const DeviceQueue& queue : queues_) queue.synchronize();
  }

 private:
  std::size_t pick(std::size_t count) { return random_() % count; }
  Cell& any_cell() { return cells_[pick(cells_.size())]; }
  static std::int64_t* data(const Cell& cell) {
    return static_cast<std::int64_t*>(cell.buffer.data());
  }

  Cell fresh() {
    Cell cell;
    cell.queue = pick(queues_.size());
    cell.buffer = Buffer(DType::int64, {kElements}, queues_[cell.queue]);
    fill(cell);
    return cell;
  }

  void fill(Cell& cell) {
    const auto byte = static_cast<int>(pick(256));
    cell.buffer.memset(byte);
    cell.expected.fill(
        static_cast<std::int64_t>(0x0101010101010101ULL * static_cast<unsigned>(byte)));
  }

  static void copy(Cell& to, const Cell& from) {
    to.buffer.inplace_copy_from(from.buffer);
    to.expected = from.expected;
  }

  void copy_part(Cell& to, const Cell& from) {
    const auto a = static_cast<std::int64_t>(pick(3)), b = static_cast<std::int64_t>(pick(3));
    if (&to == &from && a != b) return;  // overlapping parts have no order among their elements
    to.buffer[Slice{a, kElements, 2}][Slice{0, 1, {}}].inplace_copy_from(
        from.buffer[Slice{b, kElements, 2}][Slice{0, 1, {}}]);
    to.expected[static_cast<std::size_t>(a)] = from.expected[static_cast<std::size_t>(b)];
  }

  void copy_of_its_own(Cell& cell) {
    Cell copied{cell.buffer.copy(), cell.queue, cell.expected};
    cell = std::move(copied);
  }

  /// to = 3 * to + from, through raw addresses: the caller orders that and says what is used.
  void function(std::size_t number, Cell& to, Cell& from) {
    const DeviceQueue& queue = queues_[number];
    for (const Cell* cell : {&to, &from}) order(queue, queues_[cell->queue]);
    queue.enqueue_cpu_function([to = data(to), from = data(from)] {
      for (std::int64_t i = 0; i < kElements; ++i)
        to[i] = static_cast<std::int64_t>(3 * static_cast<std::uint64_t>(to[i]) +
                                          static_cast<std::uint64_t>(from[i]));
    });
    to.buffer.record_use(queue);
    from.buffer.record_use(queue, {.write = false});
    for (const Cell* cell : {&to, &from}) order(queues_[cell->queue], queue);
    const Values given = from.expected;
    for (std::size_t i = 0; i < given.size(); ++i)
      to.expected[i] = static_cast<std::int64_t>(3 * static_cast<std::uint64_t>(to.expected[i]) +
                                                 static_cast<std::uint64_t>(given[i]));
  }

  void order(const DeviceQueue& later, const DeviceQueue& earlier) {
    if (pick(2) == 0)
      later.wait_for(earlier);
    else
      later.wait_for(earlier.record_event());
  }

  /// Work behind this starts when the host opens the gate, after any number of calls.
  void hold_up(std::size_t number) {
    auto gate = std::make_shared<std::atomic<bool>>(false);
    gates_.push_back(gate);
    queues_[number].enqueue_cpu_function([gate] { gate->wait(false); });
  }
  void open_gates() {
    for (const auto& gate : gates_) {
      gate->store(true);
      gate->notify_all();
    }
    gates_.clear();
  }

  void wait(std::size_t later, std::size_t earlier) { order(queues_[later], queues_[earlier]); }

  void host_write(Cell& cell) {
    open_gates();
    const auto at = static_cast<std::int64_t>(pick(kElements));
    const auto value = static_cast<std::int64_t>(random_());
    cell.buffer.set({at}, Scalar(value));
    cell.expected[static_cast<std::size_t>(at)] = value;
  }

  void host_read(Cell& cell) {
    open_gates();
    cell.buffer.wait_for_host_read();
    for (std::size_t i = 0; i < cell.expected.size(); ++i)
      ASSERT_EQ(data(cell)[i], cell.expected[i]) << "element " << i;
  }

  std::mutex mutex_;
  std::mt19937_64 random_;
  std::vector<DeviceQueue> queues_;
  std::vector<Cell> cells_;
  std::vector<std::shared_ptr<std::atomic<bool>>> gates_;
};

TEST(OrderModel, ProgramsOfOneThread) {
  for (int i = 0; i < programs(); ++i) {
    SCOPED_TRACE("program " + std::to_string(i));
    World world(static_cast<std::uint64_t>(i));
    for (int step = 0; step < 40; ++step) world.step();
    world.finish();
    if (HasFatalFailure()) return;
  }
}

TEST(OrderModel, ProgramsOfSeveralThreads) {
  for (int i = 0; i < programs() / 4; ++i) {
    SCOPED_TRACE("program " + std::to_string(i));
    World world(1'000'000 + static_cast<std::uint64_t>(i));
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&] {
        for (int step = 0; step < 20; ++step) world.step();
      });
    for (std::thread& thread : threads) thread.join();
    world.finish();
    if (HasFatalFailure()) return;
  }
}

TEST(OrderModel, TheCheckerOfOrderFindsNothingInThem) {
  debug_settings().set("queue-order", "true");
  for (int i = 0; i < programs() / 4; ++i) {
    SCOPED_TRACE("program " + std::to_string(i));
    World world(2'000'000 + static_cast<std::uint64_t>(i));
    for (int step = 0; step < 40; ++step) world.step();
    world.finish();
    if (HasFatalFailure()) break;
  }
  debug_settings().reset();
}

}  // namespace
}  // namespace kiln::driver
