#pragma once

#include "emulator/api/load.h"

namespace kiln::emulator {

/// What a launch is asked to be, of whichever entry point.
struct LaunchRequest {
  Dim3 grid, block;
  Dim3 cluster{1, 1, 1};
  std::uint32_t dynamic_shared = 0;
  bool cooperative = false;
  void** parameters = nullptr;
  void** extra = nullptr;
};

/// Checks a launch against the kernel and the device, and reads the parameters.
CUresult prepare_launch(const std::shared_ptr<Function>& function, const LaunchRequest& request,
                        KernelWork& work);

/// How many blocks a multiprocessor runs at once, limited by threads, registers, shared memory.
std::uint32_t resident_blocks(const Function& function, std::uint64_t threads,
                              std::uint64_t dynamic_shared);
/// The most threads a block of the kernel may have.
std::uint32_t most_threads(const Kernel& kernel);

}  // namespace kiln::emulator
