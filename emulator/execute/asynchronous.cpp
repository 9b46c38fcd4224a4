#include <cstring>

#include "emulator/execute/running_block.h"
#include "emulator/execute/runtime_functions.h"
#include "kiln/support/format.h"

// mbarrier, bulk copies, and barriers of clusters. Copies complete where they are issued, which is
// one of the orders that the hardware may choose.
//
// The 64 bits of an mbarrier: arrivals that are still missing (20), arrivals of a phase (20), bytes
// that are still to come (22, with a sign), the parity of the phase (the highest bit).

namespace kiln::emulator {
namespace {

constexpr std::uint64_t kCountMask = (1 << 20) - 1;

struct Phase {
  std::uint32_t missing, expected;
  std::int32_t bytes;
  bool parity;

  static Phase read(const std::uint64_t* word) {
    const std::uint64_t value = *word;
    return {static_cast<std::uint32_t>(value & kCountMask),
            static_cast<std::uint32_t>(value >> 20 & kCountMask),
            static_cast<std::int32_t>(static_cast<std::int64_t>(value << 2) >> 42),
            value >> 63 != 0};
  }
  std::uint64_t pack() const {
    return missing | std::uint64_t{expected} << 20 |
           (static_cast<std::uint64_t>(bytes) & ((1 << 22) - 1)) << 40 |
           std::uint64_t{parity} << 63;
  }
  void complete_if_done() {
    if (missing != 0 || bytes != 0) return;
    missing = expected;
    parity = !parity;
  }
};

std::uint64_t* word_at(BlockState* state, std::uint64_t address) {
  if (address % 8 != 0)
    raise_fault(
        running(state),
        {FaultCode::misaligned_address,
         format("An mbarrier at address {:#x} is not aligned to 8 bytes.", address), address});
  return reinterpret_cast<std::uint64_t*>(state->base + address);
}

[[noreturn]] void refuse_count(BlockState* state, std::uint32_t count, std::uint32_t missing) {
  raise_fault(running(state),
              {FaultCode::illegal_instruction,
               format("An mbarrier that misses {} arrivals cannot take {}.", missing, count), 0});
}

}  // namespace

extern "C" {

// 0 init, 1 inval, 2 arrive, 3 arrive_drop, 4 expect_tx, 5 complete_tx, 6 arrive and expect_tx,
// 7 arrive of an asynchronous copy, 8 the same with its own arrival
std::uint64_t kiln_mbarrier(BlockState* state, std::uint32_t operation, std::uint64_t address,
                            std::uint32_t count, std::uint32_t bytes) {
  std::uint64_t* word = word_at(state, address);
  if (operation == 0) {
    if (count == 0 || count > kCountMask) refuse_count(state, count, 0);
    *word = Phase{count, count, 0, false}.pack();
    return 0;
  }
  if (operation == 1) {
    *word = 0;
    return 0;
  }
  Phase phase = Phase::read(word);
  const std::uint64_t before = *word;
  const bool arrives = operation == 2 || operation == 3 || operation == 6 || operation == 7;
  if (arrives && count > phase.missing) refuse_count(state, count, phase.missing);
  if (operation == 3) phase.expected -= count;
  if (operation == 4 || operation == 6) phase.bytes += static_cast<std::int32_t>(bytes);
  if (operation == 5) phase.bytes -= static_cast<std::int32_t>(bytes);
  if (arrives) phase.missing -= count;
  phase.complete_if_done();
  *word = phase.pack();
  ++running(state)->progress;
  return before;
}

std::uint32_t kiln_mbarrier_wait(ThreadState* thread, std::uint64_t address, std::uint64_t value,
                                 std::uint32_t by_parity, std::uint32_t line) {
  const std::uint64_t* word = word_at(thread->block, address);
  const bool waited = by_parity != 0 ? (value & 1) != 0 : value >> 63 != 0;
  if (Phase::read(word).parity != waited) return 1;
  thread->wait = "an mbarrier";
  thread->line = line;
  switch_thread(running(thread->block), thread);
  thread->line = 0;
  return Phase::read(word).parity != waited;
}

void kiln_bulk_copy(BlockState* state, std::uint64_t to, std::uint64_t from, std::uint32_t bytes) {
  if ((to | from | bytes) % 16 != 0)
    raise_fault(running(state),
                {FaultCode::misaligned_address,
                 format("A bulk copy of {} bytes from {:#x} to {:#x}: all three must be multiples "
                        "of 16.",
                        bytes, from, to),
                 (to % 16 != 0 ? to : from)});
  std::memmove(state->base + to, state->base + from, bytes);
}

void kiln_cluster_arrive(ThreadState* thread, std::uint32_t) {
  RunningBlock* block = running(thread->block);
  thread->cluster_generation = block->cluster.generation;
  if (++block->cluster.arrived >= block->live) complete_barrier(block, block->cluster);
}

void kiln_cluster_wait(ThreadState* thread, std::uint32_t line) {
  RunningBlock* block = running(thread->block);
  thread->wait = "a barrier of its cluster";
  thread->line = line;
  while (block->cluster.generation == thread->cluster_generation) switch_thread(block, thread);
  thread->line = 0;
}
}

}  // namespace kiln::emulator
