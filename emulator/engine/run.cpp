#include "emulator/engine/run.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <iterator>

#include "emulator/device/context.h"
#include "emulator/memory/memory.h"

namespace kiln::emulator {
namespace {

// How long one unit should take: short enough that others get their turn, long enough to pay.
constexpr std::int64_t kUnitNs = 1'000'000;

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

std::shared_ptr<Run> Run::start(const OperationPointer& operation, std::uint32_t workers,
                                std::uint32_t multiprocessors, std::string& failure) {
  const auto& kernel = std::get<KernelWork>(operation->work);
  const Module& module = *kernel.function->module;
  Launch launch;
  launch.program = module.program;
  launch.kernel = kernel.function->index;
  launch.grid = kernel.grid;
  launch.block = kernel.block;
  launch.cluster = kernel.cluster;
  launch.dynamic_shared_bytes = kernel.dynamic_shared;
  launch.cooperative = kernel.cooperative;
  launch.parameters = kernel.parameters;
  launch.variables = module.variables;
  launch.view = &process_memory()->view(module.device);
  launch.device = module.device;
  launch.multiprocessors = multiprocessors;
  launch.print = print;
  std::shared_ptr<Run> run(new Run);
  try {
    run->grid_ = Grid::start(std::move(launch));
  } catch (const std::exception& error) {
    failure = error.what();
    return nullptr;
  }
  run->operation_ = operation;
  run->mode_ = kernel.function->mode.load(std::memory_order_relaxed);
  run->workers_ = workers;
  run->total_ = run->grid_->num_blocks();
  run->most_resident_ = std::max<std::uint64_t>(1, run->grid_->max_resident());
  // Blocks of a cooperative launch wait for each other; others start few at a time.
  run->residency_ = kernel.cooperative
                        ? run->most_resident_
                        : std::min<std::uint64_t>(run->most_resident_, 8ull * workers);
  return run;
}

std::uint64_t Run::begin_count() const {
  const std::int64_t block_ns =
      std::get<KernelWork>(operation_->work).function->block_ns.load(std::memory_order_relaxed);
  const std::uint64_t left = total_ - next_;
  // The first unit tells how long a block takes.
  const std::uint64_t in_time =
      block_ns < 0 ? 1 : static_cast<std::uint64_t>(kUnitNs / std::max<std::int64_t>(1, block_ns));
  const std::uint64_t share = left <= in_time / 4 ? left : left / workers_;
  std::uint64_t count = std::clamp<std::uint64_t>(std::min(share, in_time), 1, left);
  if (mode_ != BlockMode::ranges) {
    const std::uint64_t room = residency_ > resident_ ? residency_ - resident_ : 1;
    count = std::min(count, room);
  }
  return count;
}

bool Run::available() const {
  if (failed_) return false;
  switch (mode_) {
    case BlockMode::unknown:
      return units_ == 0;
    case BlockMode::ranges:
      return next_ < total_;
    case BlockMode::blocks:
      return (next_ < total_ && resident_ < residency_) || !waiting_.empty();
  }
  return false;
}

bool Run::fruitless() const {
  return mode_ == BlockMode::blocks && fruitless_ >= resident_ &&
         (next_ == total_ || resident_ >= residency_);
}

Unit Run::take(std::mt19937_64* random) {
  Unit unit;
  ++units_;
  unit.ranges = mode_ != BlockMode::blocks;
  if (next_ < total_ && (unit.ranges || resident_ < residency_)) {
    unit.begin = next_;
    unit.end = next_ += begin_count();
    resident_ += unit.end - unit.begin;
    return unit;
  }
  const std::size_t count = std::clamp<std::size_t>(waiting_.size() / (2 * workers_), 1, 64);
  for (std::size_t i = 0; i < count; ++i) {
    auto next = waiting_.begin();
    if (random != nullptr)
      std::advance(next, static_cast<std::ptrdiff_t>((*random)() % waiting_.size()));
    unit.resumed.push_back(std::move(*next));
    waiting_.erase(next);
  }
  return unit;
}

void Run::perform(Unit& unit) {
  const std::int64_t started = now_ns();
  const std::uint64_t begun = unit.end - unit.begin;
  if (unit.ranges) unit.ranges = grid_->run_range(unit.begin, unit.end);
  if (unit.ranges) {
    unit.ended = begun;
  } else {
    std::vector<std::unique_ptr<Block>> resumed;
    resumed.swap(unit.resumed);
    const auto go_on = [&](std::unique_ptr<Block> block) {
      const Block::State state = block->resume();
      if (state == Block::State::yielded) {
        unit.resumed.push_back(std::move(block));
      } else {
        ++unit.ended;
      }
      return state != Block::State::faulted;
    };
    bool well = true;
    for (std::uint64_t index = unit.begin; index < unit.end && well; ++index)
      well = go_on(grid_->begin(index));
    for (std::size_t i = 0; i < resumed.size() && well; ++i) well = go_on(std::move(resumed[i]));
  }
  if (begun != 0) {
    auto& block_ns = std::get<KernelWork>(operation_->work).function->block_ns;
    const std::int64_t measured = (now_ns() - started) / static_cast<std::int64_t>(begun);
    const std::int64_t before = block_ns.load(std::memory_order_relaxed);
    block_ns.store(before < 0 ? measured : (before * 3 + measured) / 4, std::memory_order_relaxed);
  }
}

bool Run::settle(Unit& unit) {
  --units_;
  if (mode_ == BlockMode::unknown) {
    mode_ = unit.ranges ? BlockMode::ranges : BlockMode::blocks;
    std::get<KernelWork>(operation_->work).function->mode.store(mode_, std::memory_order_relaxed);
  }
  ended_ += unit.ended;
  resident_ -= unit.ended;
  if (failed_ || grid_->fault()) {
    fail();
    return true;
  }
  const bool progress = unit.ended != 0 || unit.end != unit.begin;
  fruitless_ = progress ? 0 : fruitless_ + unit.resumed.size();
  for (auto& block : unit.resumed) waiting_.push_back(std::move(block));
  // All that began wait, perhaps for blocks that did not begin yet.
  if (fruitless_ >= resident_ && next_ < total_ && residency_ < most_resident_) {
    residency_ = std::min(2 * residency_, most_resident_);
    fruitless_ = 0;
  }
  return progress;
}

void Run::fail() {
  if (!failed_) grid_->cancel();
  failed_ = true;
  waiting_.clear();
}

}  // namespace kiln::emulator
