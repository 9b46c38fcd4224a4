#pragma once

#include <cstddef>
#include <cstdint>

#include "kiln/runtime/kernel_abi.h"

namespace kiln::gpu::detail {

/// The grid of one launch on the host.
struct CpuGrid {
  runtime::KernelRun run = nullptr;
  /// Whether a thread may call KernelBlock::barrier; `run` is then called for one thread at a time.
  bool may_wait = true;
  std::uint32_t grid[3] = {1, 1, 1};
  std::uint32_t block[3] = {1, 1, 1};
  std::uint32_t shared_bytes = 0;
  const void* const* arguments = nullptr;
};

/// Static and dynamic shared memory of a block together.
inline constexpr std::size_t kSharedLimit = std::size_t{1} << 20;

/// Runs all blocks, spread over the worker threads; returns when they are over. What a thread
/// throws ends the grid and is rethrown; the first one in order of blocks wins.
void run_cpu_grid(const CpuGrid& grid);

/// The block whose thread runs on this thread of the process; null outside of kernels.
extern thread_local constinit runtime::KernelBlock* current_block;

}  // namespace kiln::gpu::detail
