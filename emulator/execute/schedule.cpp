#include "emulator/execute/running_block.h"

// Who runs next. The threads of a block form a ring in the order of their numbers; a thread that
// waits hands over to the next one, which looks at its own condition again. In the usual case, when
// all threads reach the same barrier, each of them is resumed once. When a whole turn brings nobody
// further, the block yields: what it waits for is in another block.

namespace kiln::emulator {
namespace {

// The other lanes of a warp come first, but others must get to run as well.
constexpr std::uint32_t kTurnsWithinWarp = 4096;

void hand_over(RunningBlock* block, ThreadState* from, ThreadState* to) {
  block->current = to;
  if (to == from) return;
  kiln_switch_stack(&from->stack, to->stack);
}

// At the end of a turn without progress; the next resume goes on with `to`.
void yield_block(RunningBlock* block, ThreadState* from, ThreadState* to) {
  block->current = to;
  kiln_switch_stack(&from->stack, block->main_stack);
}

}  // namespace

void switch_thread(RunningBlock* block, ThreadState* thread) {
  ThreadState* next = thread->next;
  if (next->linear <= thread->linear) [[unlikely]] {
    if (block->progress == block->progress_seen) return yield_block(block, thread, next);
    block->progress_seen = block->progress;
  }
  hand_over(block, thread, next);
}

void switch_lane(RunningBlock* block, ThreadState* thread) {
  ThreadState* next = thread->next;
  const std::uint32_t warp = thread->linear / kWarp;
  if (next->linear / kWarp != warp) {
    if (++block->warp_turns % kTurnsWithinWarp == 0) return switch_thread(block, thread);
    next = block->warps[warp].first;
    while ((block->warps[warp].live >> next->linear % kWarp & 1) == 0) ++next;
  }
  hand_over(block, thread, next);
}

void end_thread(RunningBlock* block, ThreadState* thread) {
  Warp& warp = block->warps[thread->linear / kWarp];
  warp.live &= ~(std::uint32_t{1} << thread->linear % kWarp);
  ++block->progress;
  // Barriers of all threads wait for one less.
  --block->live;
  const auto look_at = [block](Barrier& barrier) {
    if (barrier.arrived != 0 && barrier.expected == 0 && barrier.arrived >= block->live)
      complete_barrier(block, barrier);
  };
  for (Barrier& barrier : block->barriers) look_at(barrier);
  look_at(block->cluster);
  if (block->live == 0) {
    block->current = nullptr;
    kiln_abandon_stack(block->main_stack);
  }
  ThreadState* next = thread->next;
  thread->previous->next = next;
  next->previous = thread->previous;
  block->current = next;
  kiln_abandon_stack(next->stack);
}

}  // namespace kiln::emulator
