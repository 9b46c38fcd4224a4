// Random programs of fills, copies, stores and functions that throw, on windows of two buffers,
// compared with a model that knows the value or the failure of every byte.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kiln/driver/buffer.h"
#include "kiln/driver/device.h"
#include "kiln/driver/queue.h"
#include "kiln/support/error.h"

namespace kiln::driver {
namespace {

constexpr std::int64_t kBytes = 12;

struct Failure : std::runtime_error {
  explicit Failure(int number) : std::runtime_error(std::to_string(number)) {}
};

/// The number of the failure that `call` throws, or 0.
template <typename Call>
int failure_of(const Call& call) {
  try {
    call();
  } catch (const Failure& failure) {
    return std::stoi(failure.what());
  }
  return 0;
}

/// What a byte holds, or the failure of what was to write it last.
struct Byte {
  int value = 0;
  int failure = 0;
};

struct Cell {
  Buffer buffer;
  std::array<Byte, kBytes> bytes;
};

struct Window {
  std::int64_t begin, end;
};

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed), queue_(CPU()) {
    for (Cell& cell : cells_) {
      cell.buffer = Buffer(DType::uint8, {kBytes}, queue_);
      cell.buffer.memset(0);
    }
    queue_.synchronize();
  }

  void run() {
    for (int round = 0; round < 6; ++round) {
      std::shared_ptr<std::atomic<bool>> gate;
      trace_ += "| ";
      if (pick(2) == 0) {
        trace_ += "held up: ";
        gate = std::make_shared<std::atomic<bool>>(false);
        queue_.enqueue_cpu_function([gate] { gate->wait(false); });
      }
      for (std::size_t step = 1 + pick(6); step > 0; --step) enqueue();
      if (gate) {
        gate->store(true);
        gate->notify_all();
      }
      ASSERT_EQ(failure_of([&] { queue_.synchronize(); }), failed_) << trace_;
      failed_ = 0;
      if (pick(3) == 0) store();
      for (int i = 0; i < 3; ++i) read(cells_[pick(2)], window());
      if (testing::Test::HasFatalFailure()) return;
    }
  }

 private:
  std::size_t pick(std::size_t count) { return random_() % count; }

  Window window() {
    const auto a = static_cast<std::int64_t>(pick(kBytes)),
               b = static_cast<std::int64_t>(pick(kBytes + 1));
    if (pick(3) == 0 || a == b) return {0, kBytes};
    return {std::min(a, b), std::max(a, b)};
  }
  static Buffer part(const Cell& cell, Window w) { return cell.buffer[Slice{w.begin, w.end, {}}]; }
  static Byte& byte(Cell& cell, std::int64_t i) { return cell.bytes[static_cast<std::size_t>(i)]; }
  /// What work does to a byte that it was to write.
  void write(Byte& to, int value) const {
    if (failed_ == 0)
      to = {value, 0};
    else if (to.failure == 0)
      to.failure = failed_;
  }

  void enqueue() {
    switch (pick(4)) {
      case 0:
        if (failed_ == 0) failed_ = ++last_;
        queue_.enqueue_cpu_function([number = last_] { throw Failure(number); });
        trace_ += "fail; ";
        return;
      case 1: {
        Cell& to = cells_[pick(2)];
        Cell& from = &to == &cells_[0] ? cells_[1] : cells_[0];
        const Window w = window();
        std::set<int> failures;
        for (std::int64_t i = w.begin; i < w.end; ++i) failures.insert(byte(from, i).failure);
        failures.erase(0);
        if (failures.size() > 1) return;  // which of them the copy fails with is not said
        trace_ += "copy " + text(to, w) + "; ";
        part(to, w).inplace_copy_from(part(from, w));
        if (failed_ == 0 && !failures.empty()) failed_ = *failures.begin();
        for (std::int64_t i = w.begin; i < w.end; ++i) write(byte(to, i), byte(from, i).value);
        return;
      }
      default: {
        Cell& cell = cells_[pick(2)];
        const Window w = window();
        const int value = static_cast<int>(pick(256));
        trace_ += "fill " + text(cell, w) + "; ";
        part(cell, w).memset(value);
        for (std::int64_t i = w.begin; i < w.end; ++i) write(byte(cell, i), value);
      }
    }
  }

  void store() {
    Cell& cell = cells_[pick(2)];
    const auto at = static_cast<std::int64_t>(pick(kBytes));
    trace_ += "store " + text(cell, {at, at + 1}) + "; ";
    cell.buffer.set({at}, 77);
    byte(cell, at) = {77, 0};
  }

  void read(Cell& cell, Window w) {
    std::set<int> failures;
    for (std::int64_t i = w.begin; i < w.end; ++i)
      if (byte(cell, i).failure != 0) failures.insert(byte(cell, i).failure);
    const Buffer source = part(cell, w);
    const int thrown = failure_of([&] { source.wait_for_host_read(); });
    ASSERT_EQ(thrown != 0, !failures.empty()) << trace_ << "read " << text(cell, w);
    if (thrown != 0) {
      ASSERT_TRUE(failures.contains(thrown)) << trace_ << "read " << text(cell, w) << thrown;
      return;
    }
    const auto* data = static_cast<const std::uint8_t*>(source.data());
    for (std::int64_t i = w.begin; i < w.end; ++i)
      ASSERT_EQ(data[i - w.begin], byte(cell, i).value) << trace_ << "byte " << i;
  }

  std::string text(const Cell& cell, Window w) const {
    return std::to_string(&cell - cells_.data()) + "[" + std::to_string(w.begin) + ":" +
           std::to_string(w.end) + "]";
  }

  std::mt19937_64 random_;
  DeviceQueue queue_;
  std::array<Cell, 2> cells_;
  int failed_ = 0;  // of the queue, until it is delivered
  int last_ = 0;
  std::string trace_;
};

TEST(FailureModel, EveryByteHasItsValueOrItsFailure) {
  const char* text = std::getenv("KILN_TEST_PROGRAMS");
  const int programs = text != nullptr ? std::atoi(text) : 1000;
  for (int i = 0; i < programs; ++i) {
    SCOPED_TRACE("program " + std::to_string(i));
    World world(static_cast<std::uint64_t>(i));
    world.run();
    if (HasFatalFailure()) return;
  }
}

// Copies are the only work here that several failures can reach at once.
TEST(FailureModel, AFailureIsForgottenPieceByPiece) {
  const DeviceQueue queue((CPU()));
  const Buffer matrix(DType::uint8, {4, 4}, queue);
  queue.enqueue_cpu_function([] { throw Failure(1); });
  matrix.memset(1);
  EXPECT_EQ(failure_of([&] { queue.synchronize(); }), 1);
  // Through raw addresses a column can be written, too; the other columns stay as they are.
  const Buffer column = matrix[{Slice{}, 1}];
  column.record_use(queue);
  EXPECT_EQ(failure_of([&] { column.wait_for_host_read(); }), 0);
  const auto read = [&](std::int64_t c) {
    const Buffer other = matrix[{Slice{}, c}];
    return failure_of([&] { other.wait_for_host_read(); });
  };
  EXPECT_EQ(read(0), 1);
  EXPECT_EQ(read(2), 1);
  for (std::int64_t c : {3, 0, 2}) {
    const Buffer other = matrix[{Slice{}, c}];
    other.record_use(queue);
    EXPECT_EQ(read(c), 0);
  }
  EXPECT_EQ(failure_of([&] { matrix.wait_for_host_read(); }), 0);
}

}  // namespace
}  // namespace kiln::driver
