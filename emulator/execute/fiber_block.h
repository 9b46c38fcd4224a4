#pragma once

#include <memory>
#include <vector>

#include "emulator/execute/memory_pools.h"
#include "emulator/execute/running_block.h"

namespace kiln::emulator {

/// Memory of a block whose threads have stacks: taken from a pool, since making it costs far more
/// than running a block.
struct FiberArena {
  FiberArena(std::uint32_t threads, std::size_t stack_bytes, bool guarded);
  std::uint32_t capacity;
  std::size_t stack_bytes;  // of a thread
  bool guarded;             // a page that cannot be touched below each stack
  StackMemory stacks;
  std::vector<ThreadState> threads;
  std::vector<Warp> warps;
  RunningBlock block;

  void* stack_top(std::uint32_t thread);
};

std::unique_ptr<FiberArena> take_arena(std::uint32_t threads, std::size_t stack_bytes,
                                       bool guarded);
void give_arena(std::unique_ptr<FiberArena> arena);

/// Makes the threads of a block ready to run. `block` holds what the launch and the grid know.
void start_threads(FiberArena& arena, const RunningBlock& block,
                   void (*code)(BlockState*, ThreadState*));

/// Runs the block on this thread of the process until it ends, yields or faults; `main_stack` of
/// the block is set meanwhile.
void run_fibers(RunningBlock& block);

}  // namespace kiln::emulator
