#pragma once

#include <atomic>
#include <string>

#include "emulator/execute/context_switch.h"
#include "emulator/execute/grid.h"
#include "emulator/execute/state.h"

namespace kiln::emulator {

constexpr std::uint32_t kWarp = 32;
constexpr std::uint32_t kMaxThreads = 1024;

/// The 32 threads that exchange values. Each lane hands in its part and waits; who comes last
/// computes the results of all. A lane can hand in again only after it took its result, so one slot
/// a lane is enough.
struct Warp {
  std::uint32_t live = 0;        // lanes that have not ended
  std::uint32_t pending = 0;     // lanes that wait
  std::uint32_t released = 0;    // lanes whose result is there
  ThreadState* first = nullptr;  // its first lane; dead lanes are skipped by `live`
  struct Lane {
    std::uint32_t operation = 0, mask = 0;
    std::uint32_t value = 0, second = 0, third = 0;
    std::uint64_t result = 0;
    void* data = nullptr;  // of matrix operations: the lane's registers
  } lanes[kWarp];
};

/// What the runtime keeps of a block, behind what generated code sees.
struct RunningBlock : BlockState {
  void* main_stack = nullptr;  // of who resumed the block
  ThreadState* threads_begin = nullptr;
  std::uint64_t progress = 0;       // grows whenever a thread got further
  std::uint64_t progress_seen = 0;  // at the last turn around the ring
  std::uint32_t spins = 0;
  std::uint32_t warp_turns = 0;
  Barrier cluster;  // of barrier.cluster, whose cluster is this block
  Warp* warps = nullptr;
  const Launch* launch = nullptr;
  const char* kernel_name = "";
  const SourceLines* source = nullptr;
  std::atomic<bool>* stop = nullptr;  // of the grid
  // The first fault of the block.
  bool faulted = false;
  Fault fault;
  // Where stack overflows show.
  std::uintptr_t guards_first = 0, guards_last = 0;
};

/// Copies what a grid knows of all its blocks.
inline void copy_launch(RunningBlock& block, const RunningBlock& prototype) {
  static_cast<BlockState&>(block) = prototype;
  block.launch = prototype.launch;
  block.kernel_name = prototype.kernel_name;
  block.source = prototype.source;
  block.stop = prototype.stop;
}

inline RunningBlock* running(BlockState* block) { return static_cast<RunningBlock*>(block); }

/// The block that this thread of the process works on, for the handler of signals.
extern thread_local RunningBlock* current_block;

/// Ends the block with a fault: goes back to who resumed it. `thread` may be null.
[[noreturn]] void raise_fault(RunningBlock* block, Fault fault);

/// Lets another thread of the block run; returns when this one is its turn again.
void switch_thread(RunningBlock* block, ThreadState* thread);
/// As above, but prefers the lanes of the same warp.
void switch_lane(RunningBlock* block, ThreadState* thread);
/// Ends the thread.
[[noreturn]] void end_thread(RunningBlock* block, ThreadState* thread);

/// Releases who waits at a barrier.
void complete_barrier(RunningBlock* block, Barrier& barrier);

/// Calls `function` on the stack below what waits at `main_stack`, for what needs more stack than a
/// thread of a kernel has.
template <typename Function>
void on_main_stack(RunningBlock* block, Function& function) {
  void (*entry)(void*) = [](void* argument) { (*static_cast<Function*>(argument))(); };
  const auto top = (reinterpret_cast<std::uintptr_t>(block->main_stack) - 256) / 16 * 16;
  void* ignored = nullptr;
  kiln_call_on_stack(&ignored, reinterpret_cast<void*>(top), reinterpret_cast<void*>(entry),
                     &function, nullptr, nullptr);
}

/// Makes sure that faults of kernels on this thread of the process are caught.
void catch_faults();

/// "thread (1,2,3) of block (0,0,0)"
std::string describe(const RunningBlock* block, const ThreadState* thread);

}  // namespace kiln::emulator
