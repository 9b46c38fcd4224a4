#include <algorithm>

#include "emulator/api/launch.h"

using namespace kiln::emulator;

namespace {

// Runs `body(function)` for a function (or kernel of a library) of the current context.
template <typename Body>
CUresult occupancy_call(CUfunction handle, const Body& body) {
  return context_call([&](Driver& driver, const std::shared_ptr<Context>& context) {
    const auto function = find_function(driver, context, handle);
    return function == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(*function);
  });
}

}  // namespace

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction handle,
                                                              int threads, std::size_t shared,
                                                              unsigned flags) {
  return occupancy_call(handle, [&](const Function& function) {
    if (blocks == nullptr || threads <= 0 || flags > 1) return CUDA_ERROR_INVALID_VALUE;
    *blocks =
        static_cast<int>(resident_blocks(function, static_cast<std::uint64_t>(threads), shared));
    return CUDA_SUCCESS;
  });
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads,
                                                     std::size_t shared) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}

CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction handle,
                                          CUoccupancyB2DSize shared_of, std::size_t shared,
                                          int limit) {
  return occupancy_call(handle, [&](const Function& function) {
    if (grid == nullptr || block == nullptr || limit < 0) return CUDA_ERROR_INVALID_VALUE;
    int most = static_cast<int>(most_threads(function.kernel()));
    if (limit > 0) most = std::min(most, limit);
    // The largest block among those that keep the most threads resident.
    std::uint64_t best = 0;
    for (int threads = most; threads > 0;
         threads = threads % 32 == 0 ? threads - 32 : threads / 32 * 32) {
      const std::size_t bytes = shared_of == nullptr ? shared : shared_of(threads);
      const std::uint64_t blocks =
          resident_blocks(function, static_cast<std::uint64_t>(threads), bytes);
      if (blocks * static_cast<std::uint64_t>(threads) <= best) continue;
      best = blocks * static_cast<std::uint64_t>(threads);
      *block = threads;
      *grid = static_cast<int>(blocks * kMultiprocessors);
    }
    return best == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

CUresult cuOccupancyMaxPotentialClusterSize(int* blocks, CUfunction handle,
                                            const CUlaunchConfig* config) {
  return occupancy_call(handle, [&](const Function&) {
    if (blocks == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *blocks = 1;
    return CUDA_SUCCESS;
  });
}

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction handle,
                                      const CUlaunchConfig* config) {
  return occupancy_call(handle, [&](const Function& function) {
    if (clusters == nullptr || config == nullptr ||
        (config->numAttrs != 0 && config->attrs == nullptr))
      return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < config->numAttrs; ++i) {
      const auto& dimension = config->attrs[i].value.clusterDim;
      if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
          (dimension.x != 1 || dimension.y != 1 || dimension.z != 1))
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    const Dim3 block{config->blockDimX, config->blockDimY, config->blockDimZ};
    if (block.count() == 0) return CUDA_ERROR_INVALID_VALUE;
    *clusters = static_cast<int>(resident_blocks(function, block.count(), config->sharedMemBytes) *
                                 kMultiprocessors);
    return CUDA_SUCCESS;
  });
}
