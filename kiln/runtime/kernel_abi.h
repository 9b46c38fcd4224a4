#pragma once

// How a kernel that was compiled for the host meets the machine that runs its threads.
//
// `run` executes the threads [begin, end) of one block, one after another. A kernel that never
// waits costs one call a block and may be a plain loop. One that may wait is called for one thread
// at a time; a thread that calls `barrier` is put aside on its stack, and the threads behind it
// start on another one. All threads of a block run on one thread of the process.

#include <cstddef>
#include <cstdint>

namespace kiln::runtime {

/// One block, as its threads see it. Layout is part of the interface with compiled kernels.
struct KernelBlock {
  /// x, y, z.
  std::uint32_t grid_dim[3];
  std::uint32_t block_dim[3];
  std::uint32_t block_idx[3];
  /// The thread that runs, counted with x fastest. A kernel that may wait stores it before the
  /// thread starts, and `barrier` puts it back before it returns.
  std::uint32_t thread;
  /// Threads of the block.
  std::uint32_t num_threads;
  std::uint32_t dynamic_shared_bytes;
  /// Memory of the launch's `shared_mem_bytes`, aligned to 64 bytes.
  void* dynamic_shared;
  /// Waits until every thread of the block that has not ended is here.
  void (*barrier)(KernelBlock*);
  /// Memory of the block for one place in a kernel: the same address for every thread that passes
  /// the same `site`; aligned to 64 bytes.
  void* (*shared)(KernelBlock*, const void* site, std::size_t bytes);
};

/// Runs the threads [begin, end) of the block. `arguments[i]` points to the value of parameter i.
using KernelRun = void (*)(KernelBlock* block, const void* const* arguments, std::uint32_t begin,
                           std::uint32_t end);

/// The one symbol of a kernel's image: a KernelRun.
inline constexpr const char* kKernelRunName = "kiln_kernel_run";

}  // namespace kiln::runtime
