#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// What generated code and the runtime share. Generated code knows the offsets of the fields of
// BlockState and ThreadState that `translate/` names; the rest belongs to the runtime.

namespace kiln::emulator {

struct ThreadState;

constexpr std::uint32_t kNumBarriers = 16;
constexpr std::uint32_t kReservedShared = 1024;

/// A named barrier. Threads that wait look at `generation`.
struct Barrier {
  std::uint32_t arrived = 0;
  std::uint32_t expected = 0;  // 0: all threads that have not ended
  std::uint32_t generation = 0;
  std::uint32_t count = 0;           // of true predicates so far, of bar.red
  std::uint32_t result[2] = {0, 0};  // of the last generations: how many were true,
  std::uint32_t total[2] = {0, 0};   // of how many
};

/// What the threads of a block have in common.
struct BlockState {
  std::byte* base = nullptr;                 // of the device's view
  const std::byte* parameters = nullptr;     // of the launch
  const std::uint64_t* variables = nullptr;  // device addresses of the program's variables
  std::uint64_t shared = 0;                  // device address of the window of shared memory
  std::uint64_t local = 0;                   // device address of the local memory of thread 0
  std::uint64_t local_stride = 0;            // from one thread to the next; 0: all use the same
  std::uint32_t index[3] = {0, 0, 0};        // %ctaid
  std::uint32_t blocks[3] = {1, 1, 1};       // %nctaid
  std::uint32_t threads[3] = {1, 1, 1};      // %ntid
  std::uint32_t dynamic_offset = 0;          // of dynamic shared memory within the window
  std::uint32_t dynamic_bytes = 0;
  std::uint32_t shared_bytes = 0;     // of the window
  std::uint32_t reserved_offset = 0;  // of kReservedShared zeros behind it
  std::uint32_t multiprocessor = 0;   // %smid
  std::uint32_t multiprocessors = 1;  // %nsmid
  std::uint64_t grid_id = 0;          // %gridid
  std::uint64_t local_bytes = 0;      // of a thread
  // For isspacep: local memory of all threads, and the scratch range of the view.
  std::uint64_t local_all = 0;
  std::uint64_t scratch_first = 0;
  std::uint64_t scratch_bytes = 0;
  // For checks: the window of the view, and what it knows of its bytes.
  std::uint64_t view_first = 0;
  std::uint64_t view_bytes = 0;
  const std::uint8_t* bounds = nullptr;
  std::uint8_t* written = nullptr;
  std::uint32_t shared_limit = 0;  // bytes of the window of shared memory, reserved ones included
  std::uint64_t workspace = 0;     // device address of the words of a grid's barrier, or 0
  // Of blocks whose threads have stacks.
  std::uint32_t live = 0;          // threads that have not ended
  ThreadState* current = nullptr;  // the thread that runs, or goes on next
  Barrier barriers[kNumBarriers];
};

/// A thread of a block that has a stack of its own.
struct ThreadState {
  void* stack = nullptr;        // where it goes on; meaningful while it does not run
  ThreadState* next = nullptr;  // of the block, in a ring of those that have not ended
  ThreadState* previous = nullptr;
  BlockState* block = nullptr;
  std::uint32_t index[3] = {0, 0, 0};  // %tid
  std::uint32_t linear = 0;
  std::uint64_t local = 0;  // device address of its local memory
  // Why it waits, for reports.
  const char* wait = nullptr;            // null with a line: a barrier
  std::uint32_t line = 0;                // of the instruction that waits, or 0
  std::uint32_t cluster_generation = 0;  // of the last barrier.cluster.arrive
};

/// Code of a kernel. One of them is set.
struct KernelCode {
  /// Runs blocks [begin, end) of a kernel whose threads never wait.
  void (*range)(BlockState*, std::uint64_t begin, std::uint64_t end) = nullptr;
  /// Runs one thread, on its own stack.
  void (*thread)(BlockState*, ThreadState*) = nullptr;
};

/// A kernel as the runtime needs it, beyond what the driver asks for.
struct KernelTraits {
  bool waits = false;                // its threads may wait for each other: each has a stack
  bool recursive = false;            // how deep it calls is known only at run time
  std::uint32_t dynamic_offset = 0;  // of dynamic shared memory
  std::uint64_t stack_bytes = 0;     // that its functions need at most, when not recursive
};

/// Where lines of the PTX come from, as `.loc` says: from PTX line `ptx` on, until the next entry.
struct SourceLine {
  std::uint32_t ptx = 0, file = 0, line = 0;
};
struct SourceLines {
  std::vector<SourceLine> lines;  // in the order of the text
  std::vector<std::string> files;
  /// "line 12 of the PTX (a.cu:7)"
  std::string describe(std::uint32_t ptx_line) const;
};

/// Names of the symbols of kernel `index` in the object.
std::string range_symbol(std::uint32_t index);
std::string thread_symbol(std::uint32_t index);

}  // namespace kiln::emulator
