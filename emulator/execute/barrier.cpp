#include "emulator/execute/running_block.h"
#include "emulator/execute/runtime_functions.h"
#include "kiln/support/format.h"

// bar, barrier, and the places where a thread polls memory.

namespace kiln::emulator {
namespace {

// A thread that polls gives way every so often, not each time: most such loads find what they need.
constexpr std::uint32_t kPollsInARow = 8;

void check(RunningBlock* block, ThreadState* thread, std::uint32_t id, std::uint32_t count) {
  if (id < kNumBarriers && count <= kMaxThreads) [[likely]]
    return;
  raise_fault(block, {FaultCode::illegal_instruction,
                      format("Barrier {} of {} threads: there are 16 barriers, and a block has at "
                             "most 1024 threads, in {}.",
                             id, count, describe(block, thread)),
                      0});
}

// Counts one arrival; whether the barrier is complete with it.
bool arrive(RunningBlock* block, Barrier& barrier, std::uint32_t count) {
  barrier.expected = count;
  const std::uint32_t needed = count == 0 ? block->live : count;
  if (++barrier.arrived < needed) return false;
  complete_barrier(block, barrier);
  return true;
}

void wait(RunningBlock* block, ThreadState* thread, Barrier& barrier, std::uint32_t generation,
          std::uint32_t line) {
  thread->wait = nullptr;
  thread->line = line;
  do switch_thread(block, thread);
  while (barrier.generation == generation);
  thread->line = 0;
}

}  // namespace

void complete_barrier(RunningBlock* block, Barrier& barrier) {
  barrier.result[barrier.generation & 1] = barrier.count;
  barrier.total[barrier.generation & 1] = barrier.arrived;
  barrier.count = 0;
  barrier.arrived = 0;
  ++barrier.generation;
  ++block->progress;
}

extern "C" {

void kiln_barrier_complete(BlockState* block, std::uint32_t id) {
  complete_barrier(running(block), block->barriers[id]);
}

void kiln_turn(ThreadState* thread) { switch_thread(running(thread->block), thread); }

void kiln_barrier(ThreadState* thread, std::uint32_t id, std::uint32_t count, std::uint32_t line) {
  RunningBlock* block = running(thread->block);
  check(block, thread, id, count);
  Barrier& barrier = block->barriers[id];
  const std::uint32_t generation = barrier.generation;
  if (!arrive(block, barrier, count)) wait(block, thread, barrier, generation, line);
}

void kiln_barrier_arrive(ThreadState* thread, std::uint32_t id, std::uint32_t count) {
  RunningBlock* block = running(thread->block);
  check(block, thread, id, count);
  arrive(block, block->barriers[id], count);
}

// 0 how many were true, 1 all, 2 any
std::uint32_t kiln_barrier_reduce(ThreadState* thread, std::uint32_t id, std::uint32_t count,
                                  std::uint32_t predicate, std::uint32_t operation,
                                  std::uint32_t line) {
  RunningBlock* block = running(thread->block);
  check(block, thread, id, count);
  Barrier& barrier = block->barriers[id];
  const std::uint32_t generation = barrier.generation;
  barrier.count += predicate;
  if (!arrive(block, barrier, count)) wait(block, thread, barrier, generation, line);
  const std::uint32_t truths = barrier.result[generation & 1];
  if (operation == 0) return truths;
  return operation == 1 ? truths == barrier.total[generation & 1] : truths != 0;
}

void kiln_spin(ThreadState* thread, std::uint32_t line) {
  RunningBlock* block = running(thread->block);
  if (++block->spins % kPollsInARow != 0) return;
  thread->wait = "memory to change";
  thread->line = line;
  switch_thread(block, thread);
  thread->line = 0;
}

void kiln_exit(ThreadState* thread) { end_thread(running(thread->block), thread); }
}

}  // namespace kiln::emulator
