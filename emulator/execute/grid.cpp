#include "emulator/execute/grid.h"

#include <xmmintrin.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "emulator/execute/fiber_block.h"
#include "emulator/execute/running_block.h"
#include "emulator/program/program_internal.h"
#include "kiln/support/format.h"

namespace kiln::emulator {
namespace {

// What functions of the runtime may need of a stack, below those of the kernel. Pages that are not
// touched cost nothing.
constexpr std::size_t kRuntimeStack = 16 << 10;
// Of a thread of a kernel that recurses.
constexpr std::size_t kDeepStack = 128 << 10;
constexpr std::uint64_t kWarmBlocks = 64;  // run between two looks at whether to stop
constexpr std::uint64_t kMaxResident = 4096;
constexpr std::uint64_t kWorkspaceBytes = 64;

std::atomic<std::uint64_t> g_next_grid{1};

class LaunchedGrid;

// Everything that runs code of a kernel on this thread of the process goes through here.
class RunScope {
 public:
  explicit RunScope(RunningBlock* block) : outer_(current_block), control_(_mm_getcsr()) {
    catch_faults();
    current_block = block;
  }
  ~RunScope() {
    current_block = outer_;
    // A fault may come in the middle of an operation that rounds otherwise.
    _mm_setcsr(control_);
  }
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;

 private:
  RunningBlock* outer_;
  unsigned control_;
};

class FiberBlock final : public Block {
 public:
  FiberBlock(LaunchedGrid& grid, std::unique_ptr<FiberArena> arena, ScratchMemory scratch)
      : grid_(grid), arena_(std::move(arena)), scratch_(std::move(scratch)) {}
  ~FiberBlock() override { give_arena(std::move(arena_)); }
  State resume() override;
  std::string waiting() const override;

 private:
  LaunchedGrid& grid_;
  std::unique_ptr<FiberArena> arena_;
  ScratchMemory scratch_;
};

// A block that cannot begin: its memory is exhausted.
class FailedBlock final : public Block {
 public:
  State resume() override { return State::faulted; }
  std::string waiting() const override { return {}; }
};

// One of a kernel that never waits, for callers that want blocks.
class RangeBlock final : public Block {
 public:
  RangeBlock(LaunchedGrid& grid, std::uint64_t index) : grid_(grid), index_(index) {}
  State resume() override;
  std::string waiting() const override { return {}; }

 private:
  LaunchedGrid& grid_;
  std::uint64_t index_;
};

class LaunchedGrid final : public Grid {
 public:
  explicit LaunchedGrid(Launch launch)
      : launch_(std::move(launch)),
        program_(static_cast<const LoadedProgram&>(*launch_.program)),
        kernel_(program_.kernels()[launch_.kernel]),
        traits_(program_.traits(launch_.kernel)),
        entry_(program_.entry(launch_.kernel)) {
    prototype_.launch = &launch_;
    prototype_.kernel_name = kernel_.name.c_str();
    prototype_.source = &program_.source();
    prototype_.stop = &stop_;
    prototype_.base = launch_.view->base;
    prototype_.parameters = launch_.parameters.data();
    prototype_.variables = launch_.variables.data();
    const Dim3 *blocks = &launch_.grid, *threads = &launch_.block;
    prototype_.blocks[0] = blocks->x;
    prototype_.blocks[1] = blocks->y;
    prototype_.blocks[2] = blocks->z;
    prototype_.threads[0] = threads->x;
    prototype_.threads[1] = threads->y;
    prototype_.threads[2] = threads->z;
    prototype_.dynamic_offset = traits_.dynamic_offset;
    prototype_.dynamic_bytes = launch_.dynamic_shared_bytes;
    prototype_.shared_bytes = launch_.dynamic_shared_bytes == 0
                                  ? kernel_.static_shared_bytes
                                  : traits_.dynamic_offset + launch_.dynamic_shared_bytes;
    prototype_.multiprocessors = std::max(launch_.multiprocessors, 1U);
    prototype_.grid_id = g_next_grid.fetch_add(1, std::memory_order_relaxed);
    prototype_.local_bytes = kernel_.local_bytes;
    prototype_.scratch_first = launch_.view->scratch_first;
    prototype_.scratch_bytes = launch_.view->scratch_last - launch_.view->scratch_first;
    prototype_.view_first = launch_.view->first;
    prototype_.view_bytes = launch_.view->last - launch_.view->first;
    prototype_.bounds = launch_.view->bounds;
    prototype_.written = launch_.view->written;
    prototype_.shared_limit =
        traits_.waits ? static_cast<std::uint32_t>(shared_window()) : prototype_.shared_bytes;
    if (!launch_.cooperative) return;
    // The words of the barrier that cooperative groups hold for a grid: a size, then the barrier.
    workspace_ = ScratchMemory(*launch_.view, kWorkspaceBytes);
    if (workspace_.empty()) return;
    std::memset(launch_.view->base + workspace_.address(), 0, kWorkspaceBytes);
    prototype_.workspace = workspace_.address();
  }

  std::uint64_t num_blocks() const override { return launch_.grid.count(); }

  std::uint64_t max_resident() const override {
    const std::uint64_t scratch = prototype_.scratch_bytes;
    const std::uint64_t needed = std::max<std::uint64_t>(scratch_bytes(num_threads()), 4096);
    // Half of the range, since other launches want some too, and blocks take powers of two.
    return std::clamp<std::uint64_t>(scratch / 4 / needed, 1, std::min(num_blocks(), kMaxResident));
  }

  std::unique_ptr<Block> begin(std::uint64_t index) override {
    if (!traits_.waits) return std::make_unique<RangeBlock>(*this, index);
    try {
      const std::size_t stack = traits_.recursive
                                    ? kDeepStack
                                    : (traits_.stack_bytes + kRuntimeStack + 4095) / 4096 * 4096;
      auto arena = take_arena(num_threads(), stack, traits_.recursive);
      ScratchMemory scratch;
      RunningBlock block;
      copy_launch(block, prototype_);
      if (!place(block, scratch, num_threads())) return out_of_scratch();
      locate(block, index);
      start_threads(*arena, block, entry_.thread);
      return std::make_unique<FiberBlock>(*this, std::move(arena), std::move(scratch));
    } catch (const std::bad_alloc&) {
      report({FaultCode::launch_failed,
              format("The system has no memory for the stacks of a block of kernel '{}'.",
                     kernel_.name),
              0});
      return std::make_unique<FailedBlock>();
    }
  }

  bool run_range(std::uint64_t begin, std::uint64_t end) override {
    if (traits_.waits) return false;
    RunningBlock block;
    copy_launch(block, prototype_);
    ScratchMemory scratch;
    if (!place(block, scratch, 1)) {
      out_of_scratch();
      return true;
    }
    try {
      run_range(block, begin, std::min(end, num_blocks()));
    } catch (const std::bad_alloc&) {
      report({FaultCode::launch_failed, "The system has no memory for the stack of a kernel.", 0});
    }
    return true;
  }

  std::optional<Fault> fault() const override {
    const std::lock_guard lock(mutex_);
    return fault_;
  }

  void cancel() override { stop_.store(true, std::memory_order_relaxed); }
  bool stopped() const { return stop_.load(std::memory_order_relaxed); }

  // The first fault of all blocks is kept; the others stop.
  void report(Fault fault) {
    const std::lock_guard lock(mutex_);
    if (!fault_) {
      if (fault.sentence.empty())
        fault.sentence = format(
            "The kernel '{}' read or wrote address {:#x}, where the device has "
            "no memory for it.",
            kernel_.name, fault.address);
      fault_ = std::move(fault);
    }
    stop_.store(true, std::memory_order_relaxed);
  }

 private:
  std::uint32_t num_threads() const { return static_cast<std::uint32_t>(launch_.block.count()); }

  std::uint64_t scratch_bytes(std::uint64_t threads) const {
    return shared_window() + local_stride() * threads;
  }
  std::uint64_t shared_window() const {
    const std::uint64_t own = (std::uint64_t{prototype_.shared_bytes} + 127) / 128 * 128;
    return traits_.waits ? own + kReservedShared : own;
  }
  std::uint64_t local_stride() const { return (kernel_.local_bytes + 15ULL) / 16 * 16; }

  bool place(RunningBlock& block, ScratchMemory& scratch, std::uint64_t threads) {
    const std::uint64_t bytes = scratch_bytes(threads);
    if (bytes == 0) {
      block.shared = block.local = prototype_.scratch_first;
      return true;
    }
    scratch = ScratchMemory(*launch_.view, bytes);
    if (scratch.empty()) return false;
    block.shared = scratch.address();
    if (traits_.waits) {
      block.reserved_offset = static_cast<std::uint32_t>(shared_window() - kReservedShared);
      std::memset(block.base + block.shared + block.reserved_offset, 0, kReservedShared);
    }
    block.local = scratch.address() + shared_window();
    block.local_stride = local_stride();
    block.local_all = local_stride() * threads;
    return true;
  }

  void locate(RunningBlock& block, std::uint64_t index) const {
    block.index[0] = static_cast<std::uint32_t>(index % launch_.grid.x);
    block.index[1] = static_cast<std::uint32_t>(index / launch_.grid.x % launch_.grid.y);
    block.index[2] = static_cast<std::uint32_t>(index / launch_.grid.x / launch_.grid.y);
    block.multiprocessor = static_cast<std::uint32_t>(index % prototype_.multiprocessors);
  }

  void run_range(RunningBlock& block, std::uint64_t begin, std::uint64_t end) {
    const StackMemory stack((traits_.stack_bytes + 64 * 1024 + 65535) / 65536 * 65536);
    const RunScope scope(&block);
    for (std::uint64_t next = begin; next < end && !stopped();) {
      const std::uint64_t last = std::min(end, next + kWarmBlocks);
      block.multiprocessor = static_cast<std::uint32_t>(next % prototype_.multiprocessors);
      kiln_call_on_stack(&block.main_stack, stack.end(), reinterpret_cast<void*>(entry_.range),
                         static_cast<BlockState*>(&block), reinterpret_cast<void*>(next),
                         reinterpret_cast<void*>(last));
      next = last;
      if (block.faulted) {
        report(std::move(block.fault));
        return;
      }
    }
  }

  std::unique_ptr<Block> out_of_scratch() {
    report({FaultCode::launch_failed,
            format("The device has no scratch memory left for a block of kernel '{}', which needs "
                   "{} bytes of shared memory and {} of local memory a thread.",
                   kernel_.name, prototype_.shared_bytes, kernel_.local_bytes),
            0});
    return std::make_unique<FailedBlock>();
  }

  Launch launch_;
  const LoadedProgram& program_;
  const Kernel& kernel_;
  const KernelTraits& traits_;
  KernelCode entry_;
  RunningBlock prototype_;
  ScratchMemory workspace_;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  std::optional<Fault> fault_;
};

Block::State FiberBlock::resume() {
  RunningBlock& block = arena_->block;
  if (grid_.stopped()) return State::faulted;
  {
    const RunScope scope(&block);
    run_fibers(block);
  }
  if (block.faulted) {
    if (block.fault.sentence.empty() && block.fault.code == FaultCode::illegal_address)
      block.fault.sentence =
          format("{} read or wrote address {:#x}, where the device has no memory for it.",
                 describe(&block, block.current), block.fault.address);
    else if (block.fault.sentence.empty())
      block.fault.sentence = format("{} ran out of stack.", describe(&block, block.current));
    grid_.report(std::move(block.fault));
    return State::faulted;
  }
  return block.live == 0 ? State::finished : State::yielded;
}

std::string FiberBlock::waiting() const {
  const RunningBlock& block = arena_->block;
  if (block.live == 0) return {};
  std::string text;
  std::uint32_t listed = 0;
  const ThreadState* thread = block.current;
  for (std::uint32_t i = 0; i < block.live; ++i, thread = thread->next) {
    if (thread->line == 0) return {};
    if (++listed > 8) continue;
    text += format("{} waits for {} at {}.\n", describe(&block, thread),
                   thread->wait == nullptr ? "a barrier" : thread->wait,
                   block.source->describe(thread->line));
  }
  if (listed > 8) text += format("So do {} more threads of this block.\n", listed - 8);
  return text;
}

Block::State RangeBlock::resume() {
  grid_.run_range(index_, index_ + 1);
  return grid_.stopped() ? State::faulted : State::finished;
}

}  // namespace

std::unique_ptr<Grid> Grid::start(Launch launch) {
  return std::make_unique<LaunchedGrid>(std::move(launch));
}

}  // namespace kiln::emulator
