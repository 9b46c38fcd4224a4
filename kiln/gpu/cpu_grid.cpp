#include "kiln/gpu/cpu_grid.h"

#include <sys/mman.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <system_error>
#include <vector>

#include "kiln/gpu/stack_switch.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/sanitizer.h"
#include "kiln/support/thread_pool.h"

#ifdef KILN_ADDRESS_SANITIZER
#include <pthread.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef KILN_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

// Blocks are spread over the worker threads; each runs one block at a time on its machine.
//
// Threads start one after another on one stack. A thread that waits leaves its stack in a list, and
// the threads behind it start on the next stack. When all have started, the list holds those that
// wait; they go on in its order, each until it waits again or ends:
//
//   position: next of the list to go on        kept: those that wait again
//   [ 0 │ 1 │ 2 │ 3 │ 4 ]   thread 0 ended, 1 waits again  →  [ 1 │ … │ 2 │ 3 │ 4 ]
//
// So a barrier is one switch from stack to stack, and kernels that never wait need one stack.

namespace kiln::gpu::detail {

thread_local constinit runtime::KernelBlock* current_block = nullptr;

namespace {

using runtime::KernelBlock;

/// Of a thread, guard page included.
constexpr std::size_t kStackBytes = std::size_t{128} << 10;
constexpr std::size_t kGuardBytes = 4096;
/// Stacks begin at different places of their pages, else they would share one set of the caches.
constexpr std::size_t kStackShift = 320, kLargestShift = std::size_t{32} << 10;

/// Thrown where a thread waits when another one of its block has failed.
struct Cancelled {};

struct Stack {
  char* memory = nullptr;
  void* top = nullptr;
  void* sanitizer = nullptr;  // of ThreadSanitizer
};

/// What one worker needs to run a block.
class Machine {
 public:
  Machine();
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  KernelBlock* block() { return &block_; }
  void begin(const CpuGrid& grid);
  /// Throws what a thread threw.
  void run_block(std::uint64_t index);

 private:
  struct Waiting {
    void* stack = nullptr;
    const Stack* place = nullptr;
  };
  struct Site {
    const void* site;
    void* memory;
  };

  static void barrier(KernelBlock* block);
  static void* shared(KernelBlock* block, const void* site, std::size_t bytes);
  static void run_stack(void* machine);
  void run_threads() noexcept;
  /// Leaves the present stack for the next one; `save` is where it goes on.
  void go_on(void** save);
  void switch_to(void** save, void* stack, const Stack* place);
  const Stack& stack(std::size_t i);

  KernelBlock block_{};  // first: a pointer to it is one to the machine
  CpuGrid grid_;
  std::uint32_t next_ = 0;  // thread to start
  std::size_t position_ = 0, count_ = 0, kept_ = 0;
  std::vector<Waiting> waiting_;
  void* main_ = nullptr;
  const Stack* present_ = nullptr;  // null: the worker's own
  bool cancelled_ = false;
  std::exception_ptr error_;
  std::vector<Stack> stacks_;
  std::size_t stacks_used_ = 0;
  char* shared_memory_ = nullptr;
  std::size_t shared_used_ = 0;
  std::vector<Site> sites_;
  Stack own_;  // the worker's, for sanitizers
  [[maybe_unused]] std::size_t own_bytes_ = 0;
};

void* map(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw RuntimeError(format("{} bytes of memory for the threads of a kernel cannot be had: {}",
                              bytes, std::generic_category().message(errno)));
  return memory;
}

Machine::Machine() : shared_memory_(static_cast<char*>(map(kSharedLimit))) {
  block_.barrier = &barrier;
  block_.shared = &shared;
  block_.dynamic_shared = shared_memory_;
}

Machine::~Machine() {
  for (const Stack& stack : stacks_) {
#ifdef KILN_THREAD_SANITIZER
    __tsan_destroy_fiber(stack.sanitizer);
#endif
    ::munmap(stack.memory, kStackBytes);
  }
  ::munmap(shared_memory_, kSharedLimit);
}

const Stack& Machine::stack(std::size_t i) {
  while (stacks_.size() <= i) {
    Stack made;
    made.memory = static_cast<char*>(map(kStackBytes));
    ::mprotect(made.memory, kGuardBytes, PROT_NONE);
    made.top = made.memory + kStackBytes - (stacks_.size() * kStackShift) % kLargestShift;
#ifdef KILN_THREAD_SANITIZER
    made.sanitizer = __tsan_create_fiber(0);
#endif
    stacks_.push_back(made);
  }
  return stacks_[i];
}

void Machine::begin(const CpuGrid& grid) {
  grid_ = grid;
  std::copy(std::begin(grid.grid), std::end(grid.grid), block_.grid_dim);
  std::copy(std::begin(grid.block), std::end(grid.block), block_.block_dim);
  block_.num_threads = grid.block[0] * grid.block[1] * grid.block[2];
  block_.dynamic_shared_bytes = grid.shared_bytes;
  if (grid.may_wait) {
    waiting_.resize(std::max<std::size_t>(waiting_.size(), block_.num_threads + 2));
    // Made up front: the list of stacks must not move while threads are on them.
    stacks_.reserve(block_.num_threads);
    stack(0);
  }
#ifdef KILN_ADDRESS_SANITIZER
  pthread_attr_t attributes;
  void* bottom = nullptr;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &bottom, &own_bytes_);
  pthread_attr_destroy(&attributes);
  own_.memory = static_cast<char*>(bottom);
#endif
#ifdef KILN_THREAD_SANITIZER
  own_.sanitizer = __tsan_get_current_fiber();
#endif
}

void Machine::run_block(std::uint64_t index) {
  const std::uint64_t row = index / grid_.grid[0];
  block_.block_idx[0] = static_cast<std::uint32_t>(index % grid_.grid[0]);
  block_.block_idx[1] = static_cast<std::uint32_t>(row % grid_.grid[1]);
  block_.block_idx[2] = static_cast<std::uint32_t>(row / grid_.grid[1]);
  shared_used_ = (grid_.shared_bytes + 63) / 64 * 64;
  sites_.clear();
  if (!grid_.may_wait) {
    grid_.run(&block_, grid_.arguments, 0, block_.num_threads);
    return;
  }
  next_ = 0;
  position_ = count_ = kept_ = stacks_used_ = 0;
  cancelled_ = false;
  go_on(&main_);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Machine::switch_to(void** save, void* stack, const Stack* place) {
#ifdef KILN_ADDRESS_SANITIZER
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, place != nullptr ? place->memory : own_.memory,
                                 place != nullptr ? kStackBytes : own_bytes_);
#endif
#ifdef KILN_THREAD_SANITIZER
  __tsan_switch_to_fiber(place != nullptr ? place->sanitizer : own_.sanitizer, 0);
#endif
  present_ = place;
  kiln_gpu_switch_stack(save, stack);
#ifdef KILN_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

inline void Machine::go_on(void** save) {
  if (position_ < count_) [[likely]] {
    const Waiting& next = waiting_[position_++];
    // The stacks of a block are more than the first cache holds; the list is long enough.
    const char* later = static_cast<const char*>(waiting_[position_ + 1].stack);
    for (int line = 0; line < 4; ++line) __builtin_prefetch(later + 64 * line);
    switch_to(save, next.stack, next.place);
    return;
  }
  if (next_ < block_.num_threads) {
    const Stack& fresh = stack(stacks_used_++);
    switch_to(save, prepare_stack(fresh.top, &run_stack, this), &fresh);
    return;
  }
  count_ = kept_;
  kept_ = 0;
  position_ = 0;
  if (count_ == 0) {
    switch_to(save, main_, nullptr);
    return;
  }
  Waiting& next = waiting_[position_++];
  if (save == &next.stack) return;  // the only one left: it goes on where it is
  switch_to(save, next.stack, next.place);
}

void Machine::barrier(KernelBlock* block) {
  auto& machine = *reinterpret_cast<Machine*>(block);
  const std::uint32_t thread = block->thread;
  Waiting& mine = machine.waiting_[machine.kept_++];
  mine.place = machine.present_;
  machine.go_on(&mine.stack);
  block->thread = thread;
  if (machine.cancelled_) [[unlikely]]
    throw Cancelled();
}

void Machine::run_stack(void* machine) {
#ifdef KILN_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
  auto& self = *static_cast<Machine*>(machine);
  self.run_threads();
  void* forgotten = nullptr;
  self.go_on(&forgotten);
  __builtin_unreachable();
}

void Machine::run_threads() noexcept {
  while (next_ < block_.num_threads) {
    const std::uint32_t thread = next_++;
    try {
      block_.thread = thread;
      grid_.run(&block_, grid_.arguments, thread, thread + 1);
    } catch (const Cancelled&) {
    } catch (...) {
      if (!error_) error_ = std::current_exception();
      cancelled_ = true;
      next_ = block_.num_threads;  // those that wait are woken to unwind, the others never start
    }
  }
}

void* Machine::shared(KernelBlock* block, const void* site, std::size_t bytes) {
  auto& machine = *reinterpret_cast<Machine*>(block);
  for (const Site& known : machine.sites_)
    if (known.site == site) return known.memory;
  if (bytes > kSharedLimit - machine.shared_used_)
    throw ValueError(
        format("A block uses {} bytes of shared memory and asks for {} more; the limit of cpu:0 is "
               "{} in all.",
               machine.shared_used_, bytes, kSharedLimit));
  void* memory = machine.shared_memory_ + machine.shared_used_;
  machine.shared_used_ += (bytes + 63) / 64 * 64;
  machine.sites_.push_back({site, memory});
  return memory;
}

Machine& machine_of_thread() {
  thread_local std::unique_ptr<Machine> machine;
  if (!machine) machine = std::make_unique<Machine>();
  return *machine;
}

/// Threads that a worker should get before another one is woken.
constexpr std::int64_t kThreadsOfChunk = 4096;

}  // namespace

void run_cpu_grid(const CpuGrid& grid) {
  const std::uint64_t blocks = std::uint64_t{grid.grid[0]} * grid.grid[1] * grid.grid[2];
  const auto threads =
      static_cast<std::int64_t>(std::uint64_t{grid.block[0]} * grid.block[1] * grid.block[2]);
  const auto body = [](void* arguments, std::int64_t begin, std::int64_t end, std::int64_t) {
    const auto& call = *static_cast<const CpuGrid*>(arguments);
    Machine& machine = machine_of_thread();
    machine.begin(call);
    struct Scope {
      explicit Scope(KernelBlock* block) { current_block = block; }
      ~Scope() { current_block = nullptr; }
    } scope(machine.block());
    for (std::int64_t i = begin; i < end; ++i) machine.run_block(static_cast<std::uint64_t>(i));
  };
  ThreadPool::instance().parallel_for(
      static_cast<std::int64_t>(blocks), std::max<std::int64_t>(kThreadsOfChunk / threads, 1),
      ThreadPool::usable_threads(), body, const_cast<CpuGrid*>(&grid));
}

}  // namespace kiln::gpu::detail
