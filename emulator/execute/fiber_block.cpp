#include "emulator/execute/fiber_block.h"

#include <sys/mman.h>

#include <mutex>

namespace kiln::emulator {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kKeptArenas = 64;

struct ArenaPool {
  std::mutex mutex;
  std::vector<std::unique_ptr<FiberArena>> free;
};

ArenaPool& arena_pool() {
  static auto* const pool = new ArenaPool;
  return *pool;
}

void thread_main(void* code, void* argument) {
  auto* thread = static_cast<ThreadState*>(argument);
  reinterpret_cast<void (*)(BlockState*, ThreadState*)>(code)(thread->block, thread);
  end_thread(running(thread->block), thread);
}

}  // namespace

FiberArena::FiberArena(std::uint32_t count, std::size_t bytes, bool guard)
    : capacity(count),
      stack_bytes(bytes),
      guarded(guard),
      stacks(count * bytes),
      threads(count),
      warps((count + kWarp - 1) / kWarp) {
  if (!guarded) return;
  for (std::uint32_t i = 0; i < count; ++i)
    ::mprotect(stacks.begin() + i * stack_bytes, kPage, PROT_NONE);
}

void* FiberArena::stack_top(std::uint32_t thread) {
  // Tops at equal distances of a power of two would fall into the same few lines of the cache.
  const std::size_t colour = (thread % 31) * 128;
  return stacks.begin() + (thread + std::size_t{1}) * stack_bytes - colour;
}

std::unique_ptr<FiberArena> take_arena(std::uint32_t threads, std::size_t stack_bytes,
                                       bool guarded) {
  ArenaPool& pool = arena_pool();
  {
    const std::lock_guard lock(pool.mutex);
    for (auto& arena : pool.free) {
      if (arena->capacity < threads || arena->stack_bytes != stack_bytes ||
          arena->guarded != guarded || arena->capacity > 2 * threads)
        continue;
      std::unique_ptr<FiberArena> taken = std::move(arena);
      arena = std::move(pool.free.back());
      pool.free.pop_back();
      return taken;
    }
  }
  return std::make_unique<FiberArena>(threads, stack_bytes, guarded);
}

void give_arena(std::unique_ptr<FiberArena> arena) {
  ArenaPool& pool = arena_pool();
  const std::lock_guard lock(pool.mutex);
  if (pool.free.size() < kKeptArenas) pool.free.push_back(std::move(arena));
}

void start_threads(FiberArena& arena, const RunningBlock& prototype,
                   void (*code)(BlockState*, ThreadState*)) {
  RunningBlock& block = arena.block;
  copy_launch(block, prototype);
  block.main_stack = nullptr;
  block.progress = 1;
  block.progress_seen = 0;
  block.spins = 0;
  block.warp_turns = 0;
  block.faulted = false;
  block.fault = {};
  block.guards_first = block.guards_last = 0;
  if (arena.guarded) {
    block.guards_first = reinterpret_cast<std::uintptr_t>(arena.stacks.begin());
    block.guards_last = reinterpret_cast<std::uintptr_t>(arena.stacks.end());
  }
  for (Barrier& barrier : block.barriers) barrier = {};
  block.cluster = {};
  const std::uint32_t count = block.threads[0] * block.threads[1] * block.threads[2];
  block.live = count;
  block.warps = arena.warps.data();
  block.threads_begin = arena.threads.data();
  std::uint32_t index[3] = {0, 0, 0};
  for (std::uint32_t i = 0; i < count; ++i) {
    ThreadState& thread = arena.threads[i];
    thread.block = &block;
    thread.linear = i;
    for (int axis = 0; axis < 3; ++axis) thread.index[axis] = index[axis];
    if (++index[0] == block.threads[0]) {
      index[0] = 0;
      if (++index[1] == block.threads[1]) {
        index[1] = 0;
        ++index[2];
      }
    }
    thread.next = &arena.threads[i + 1 == count ? 0 : i + 1];
    thread.previous = &arena.threads[i == 0 ? count - 1 : i - 1];
    thread.local = block.local + i * block.local_stride;
    thread.wait = nullptr;
    thread.line = 0;
    thread.stack =
        prepare_stack(arena.stack_top(i), thread_main, reinterpret_cast<void*>(code), &thread);
    if (i % kWarp == 0) {
      Warp& warp = arena.warps[i / kWarp];
      const std::uint32_t lanes = std::min(kWarp, count - i);
      warp.live = lanes == kWarp ? ~0U : (1U << lanes) - 1;
      warp.pending = warp.released = 0;
      warp.first = &thread;
    }
  }
  block.current = &arena.threads[0];
}

void run_fibers(RunningBlock& block) {
  // A resumed block gets at least one whole turn.
  --block.progress_seen;
  kiln_switch_stack(&block.main_stack, block.current->stack);
  block.main_stack = nullptr;
}

}  // namespace kiln::emulator
