#include <bit>
#include <utility>

#include "emulator/execute/matrix.h"
#include "emulator/execute/running_block.h"
#include "emulator/execute/runtime_functions.h"

// Exchanges between the lanes of a warp. Lanes that have ended, or that the block does not have,
// take no part, whatever the mask says.

namespace kiln::emulator {
namespace {

// No code of an exchange.
constexpr std::uint32_t kAtActiveMask = 0xffffffff;

enum class Operation : std::uint32_t { barrier, shuffle, vote, match, redux, elect, matrix };

struct Request {
  Operation operation = Operation::barrier;
  std::uint32_t mode = 0;
  std::uint32_t mask = 0;
  std::uint32_t line = 0;
  std::uint32_t value = 0, second = 0, third = 0;
  void* data = nullptr;
};

std::uint32_t code_of(const Request& request) {
  return static_cast<std::uint32_t>(request.operation) << 24 | request.mode;
}

template <typename Visit>
void for_lanes(std::uint32_t mask, Visit visit) {
  for (; mask != 0; mask &= mask - 1) visit(static_cast<std::uint32_t>(std::countr_zero(mask)));
}

// Modes: up, down, bfly, idx. The low five bits of c bound the lane within a segment, which the
// next bits of it choose. A lane outside of the exchange gives the reader's own value.
void shuffle(Warp& warp, std::uint32_t mask, std::uint32_t mode) {
  for_lanes(mask, [&](std::uint32_t lane) {
    Warp::Lane& own = warp.lanes[lane];
    const std::uint32_t b = own.second & 31, clamp = own.third & 31, segment = own.third >> 8 & 31;
    const std::uint32_t most = (lane & segment) | (clamp & ~segment);
    const std::uint32_t least = lane & segment;
    int from = 0;
    bool in_range = false;
    switch (mode) {
      case 0:
        from = static_cast<int>(lane) - static_cast<int>(b);
        in_range = from >= static_cast<int>(most);
        break;
      case 1:
        from = static_cast<int>(lane + b);
        in_range = from <= static_cast<int>(most);
        break;
      case 2:
        from = static_cast<int>(lane ^ b);
        in_range = from <= static_cast<int>(most);
        break;
      default:
        from = static_cast<int>(least | (b & ~segment));
        in_range = from <= static_cast<int>(most);
    }
    if (!in_range) from = static_cast<int>(lane);
    const bool there = (mask >> from & 1) != 0;
    own.result = (there ? warp.lanes[from].value : own.value) | std::uint64_t{in_range} << 32;
  });
}

void vote(Warp& warp, std::uint32_t mask, std::uint32_t mode) {
  std::uint32_t ballot = 0;
  for_lanes(mask, [&](std::uint32_t lane) { ballot |= (warp.lanes[lane].value & 1) << lane; });
  const std::uint32_t results[] = {ballot == mask, ballot != 0, ballot == mask || ballot == 0,
                                   ballot};
  for_lanes(mask, [&](std::uint32_t lane) { warp.lanes[lane].result = results[mode]; });
}

void match(Warp& warp, std::uint32_t mask, std::uint32_t all) {
  const auto value = [&](std::uint32_t lane) {
    return std::pair(warp.lanes[lane].value, warp.lanes[lane].second);
  };
  for_lanes(mask, [&](std::uint32_t lane) {
    std::uint32_t same = 0;
    for_lanes(mask, [&](std::uint32_t other) {
      same |= std::uint32_t{value(other) == value(lane)} << other;
    });
    if (all == 0)
      warp.lanes[lane].result = same;
    else
      warp.lanes[lane].result = same == mask ? mask | std::uint64_t{1} << 32 : 0;
  });
}

void redux(Warp& warp, std::uint32_t mask, std::uint32_t operation) {
  std::uint32_t sum = 0, conjunction = ~0U, disjunction = 0, parity = 0;
  std::uint32_t least = ~0U, most = 0;
  std::int32_t signed_least = INT32_MAX, signed_most = INT32_MIN;
  for_lanes(mask, [&](std::uint32_t lane) {
    const std::uint32_t value = warp.lanes[lane].value;
    sum += value;
    conjunction &= value;
    disjunction |= value;
    parity ^= value;
    least = std::min(least, value);
    most = std::max(most, value);
    signed_least = std::min(signed_least, static_cast<std::int32_t>(value));
    signed_most = std::max(signed_most, static_cast<std::int32_t>(value));
  });
  const std::uint32_t results[] = {sum,
                                   conjunction,
                                   disjunction,
                                   parity,
                                   least,
                                   most,
                                   static_cast<std::uint32_t>(signed_least),
                                   static_cast<std::uint32_t>(signed_most)};
  for_lanes(mask, [&](std::uint32_t lane) { warp.lanes[lane].result = results[operation]; });
}

void elect(Warp& warp, std::uint32_t mask) {
  const auto leader = static_cast<std::uint32_t>(std::countr_zero(mask));
  for_lanes(mask, [&](std::uint32_t lane) {
    warp.lanes[lane].result = leader | std::uint64_t{lane == leader} << 32;
  });
}

void perform(RunningBlock* block, Warp& warp, const Request& request, std::uint32_t mask) {
  switch (request.operation) {
    case Operation::barrier:
      break;
    case Operation::shuffle:
      shuffle(warp, mask, request.mode);
      break;
    case Operation::vote:
      vote(warp, mask, request.mode);
      break;
    case Operation::match:
      match(warp, mask, request.mode);
      break;
    case Operation::redux:
      redux(warp, mask, request.mode);
      break;
    case Operation::elect:
      elect(warp, mask);
      break;
    case Operation::matrix: {
      void* data[kWarp];
      for (std::uint32_t lane = 0; lane < kWarp; ++lane) data[lane] = warp.lanes[lane].data;
      matrix_operation(block, request.mode, data, mask);
      break;
    }
  }
}

// Whether all lanes of the mask have come to the same exchange.
bool complete(const Warp& warp, const Request& request, std::uint32_t mask) {
  if ((warp.pending & mask) != mask) return false;
  const std::uint32_t code = code_of(request);
  bool same = true;
  for_lanes(mask, [&](std::uint32_t lane) {
    same &= warp.lanes[lane].operation == code && warp.lanes[lane].mask == request.mask;
  });
  return same;
}

// Inlined, so that what a lane hands in goes from registers into its slot: through a structure in
// memory, narrow stores before a wide load would stall.
[[gnu::always_inline]] inline std::uint64_t exchange(ThreadState* thread, const Request& request) {
  RunningBlock* block = running(thread->block);
  Warp& warp = block->warps[thread->linear / kWarp];
  const std::uint32_t bit = std::uint32_t{1} << thread->linear % kWarp;
  Warp::Lane& lane = warp.lanes[thread->linear % kWarp];
  lane.operation = code_of(request);
  lane.mask = request.mask;
  lane.value = request.value;
  lane.second = request.second;
  lane.third = request.third;
  lane.data = request.data;
  warp.pending |= bit;
  for (bool first = true;; first = false) {
    // The thread itself always takes part, even where the mask forgets it.
    const std::uint32_t mask = (request.mask | bit) & warp.live;
    if ((warp.released & bit) == 0 && complete(warp, request, mask)) {
      perform(block, warp, request, mask);
      warp.pending &= ~mask;
      warp.released |= mask;
      ++block->progress;
    }
    if ((warp.released & bit) != 0) break;
    thread->wait = "other lanes of its warp";
    thread->line = request.line;
    if (first)
      switch_lane(block, thread);
    else
      switch_thread(block, thread);
  }
  thread->line = 0;
  warp.released &= ~bit;
  return lane.result;
}

}  // namespace

extern "C" {

std::uint64_t kiln_shuffle(ThreadState* thread, std::uint32_t mode, std::uint32_t value,
                           std::uint32_t b, std::uint32_t c, std::uint32_t mask,
                           std::uint32_t line) {
  return exchange(thread, {Operation::shuffle, mode, mask, line, value, b, c});
}

std::uint32_t kiln_vote(ThreadState* thread, std::uint32_t mode, std::uint32_t predicate,
                        std::uint32_t mask, std::uint32_t line) {
  return static_cast<std::uint32_t>(
      exchange(thread, {Operation::vote, mode, mask, line, predicate}));
}

std::uint64_t kiln_match(ThreadState* thread, std::uint32_t all, std::uint64_t value,
                         std::uint32_t mask, std::uint32_t line) {
  return exchange(thread, {Operation::match, all, mask, line, static_cast<std::uint32_t>(value),
                           static_cast<std::uint32_t>(value >> 32)});
}

std::uint32_t kiln_redux(ThreadState* thread, std::uint32_t operation, std::uint32_t value,
                         std::uint32_t mask, std::uint32_t line) {
  return static_cast<std::uint32_t>(
      exchange(thread, {Operation::redux, operation, mask, line, value}));
}

void kiln_warp_barrier(ThreadState* thread, std::uint32_t mask, std::uint32_t line) {
  exchange(thread, {Operation::barrier, 0, mask, line});
}

std::uint64_t kiln_elect(ThreadState* thread, std::uint32_t mask, std::uint32_t line) {
  return exchange(thread, {Operation::elect, 0, mask, line});
}

void kiln_matrix(ThreadState* thread, std::uint32_t operation, void* data, std::uint32_t line) {
  exchange(thread, {Operation::matrix, operation, ~0U, line, 0, 0, 0, data});
}

// The lanes that are here together. Each lane runs by itself, so those count that have come here
// when no lane of the warp can go on.
std::uint32_t kiln_active_mask(ThreadState* thread, std::uint32_t line) {
  RunningBlock* block = running(thread->block);
  Warp& warp = block->warps[thread->linear / kWarp];
  const std::uint32_t bit = std::uint32_t{1} << thread->linear % kWarp;
  Warp::Lane& lane = warp.lanes[thread->linear % kWarp];
  lane.operation = kAtActiveMask;
  lane.mask = line;
  warp.pending |= bit;
  thread->wait = "lanes that may come to activemask";
  thread->line = line;
  // Everyone gets to run twice: the first turn brings the lanes here, the second finds nobody new.
  std::uint32_t seen = 0;
  for (int turns = 0; turns < 2 && (warp.released & bit) == 0;) {
    switch_lane(block, thread);
    if ((warp.released & bit) != 0) break;
    std::uint32_t here = 0;
    for_lanes(warp.pending & warp.live, [&](std::uint32_t other) {
      const Warp::Lane& state = warp.lanes[other];
      here |= std::uint32_t{state.operation == kAtActiveMask && state.mask == line} << other;
    });
    turns = here == seen ? turns + 1 : 0;
    seen = here;
    if (here == warp.live) turns = 2;
    if (turns < 2) continue;
    for_lanes(here, [&](std::uint32_t other) { warp.lanes[other].result = here; });
    warp.pending &= ~here;
    warp.released |= here;
    ++block->progress;
  }
  thread->line = 0;
  warp.released &= ~bit;
  return static_cast<std::uint32_t>(lane.result);
}
}

}  // namespace kiln::emulator
