#include "emulator/api/launch.h"

#include <algorithm>
#include <cstring>

#include "emulator/memory/guarded_copy.h"

namespace kiln::emulator {
namespace {

// The parameters of a kernel as one piece, from the array `extra`.
CUresult read_packed(const Kernel& kernel, void** extra, std::vector<std::byte>& to) {
  const void* buffer = nullptr;
  std::size_t bytes = 0;
  for (; reinterpret_cast<std::uintptr_t>(extra[0]) != CU_LAUNCH_PARAM_END; extra += 2) {
    switch (reinterpret_cast<std::uintptr_t>(extra[0])) {
      case CU_LAUNCH_PARAM_BUFFER_POINTER:
        buffer = extra[1];
        break;
      case CU_LAUNCH_PARAM_BUFFER_SIZE:
        if (extra[1] == nullptr) return CUDA_ERROR_INVALID_VALUE;
        bytes = *static_cast<std::size_t*>(extra[1]);
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (buffer == nullptr || bytes > to.size()) return CUDA_ERROR_INVALID_VALUE;
  // A buffer may lack the padding at its end, but no parameter.
  if (!kernel.parameters.empty() &&
      bytes < kernel.parameters.back().offset + kernel.parameters.back().bytes)
    return CUDA_ERROR_INVALID_VALUE;
  return guarded_copy(to.data(), buffer, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult read_parameters(const Kernel& kernel, const LaunchRequest& request,
                         std::vector<std::byte>& to) {
  to.resize(kernel.parameter_bytes);
  if (request.parameters != nullptr && request.extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (kernel.parameters.empty()) return CUDA_SUCCESS;
  if (request.extra != nullptr) return read_packed(kernel, request.extra, to);
  if (request.parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    const Parameter& parameter = kernel.parameters[i];
    const void* from = request.parameters[i];
    if (from == nullptr || !guarded_copy(to.data() + parameter.offset, from, parameter.bytes))
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

bool exceeds(const Dim3& extent, std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  return extent.x == 0 || extent.y == 0 || extent.z == 0 || extent.x > x || extent.y > y ||
         extent.z > z;
}

CUresult check_cluster(const LaunchRequest& request) {
  const Dim3& cluster = request.cluster;
  if (cluster.count() == 0) return CUDA_ERROR_INVALID_VALUE;
  if (request.grid.x % cluster.x != 0 || request.grid.y % cluster.y != 0 ||
      request.grid.z % cluster.z != 0)
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  // Blocks cannot reach each other's shared memory, so a cluster is one block.
  return cluster.count() == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

CUresult launch(CUfunction handle, CUstream stream_handle, const LaunchRequest& request) {
  return stream_call(stream_handle,
                     [&](Driver& driver, Stream& stream, const std::shared_ptr<Context>& context) {
                       const auto function = find_function(driver, context, handle);
                       if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
                       if (function->module->context != context->handle)
                         return CUDA_ERROR_INVALID_CONTEXT;
                       KernelWork work;
                       if (const CUresult result = prepare_launch(function, request, work))
                         return result;
                       return enqueue(driver, stream, context, std::move(work));
                     });
}

CUresult read_attributes(const CUlaunchConfig& config, LaunchRequest& request) {
  if (config.numAttrs != 0 && config.attrs == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttributeValue& value = config.attrs[i].value;
    switch (config.attrs[i].id) {
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        request.cooperative = value.cooperative != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        request.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
        break;
      // Hints of speed. A kernel that may start before the one before it ended may as well start
      // after it.
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
      case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        break;
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
      case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        return CUDA_ERROR_NOT_SUPPORTED;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

std::uint32_t most_threads(const Kernel& kernel) {
  return kernel.max_threads == 0 ? kThreadsPerBlock
                                 : std::min(kThreadsPerBlock, kernel.max_threads);
}

std::uint32_t resident_blocks(const Function& function, std::uint64_t threads,
                              std::uint64_t dynamic_shared) {
  const Kernel& kernel = function.kernel();
  const std::uint64_t warps = (threads + 31) / 32;
  if (warps == 0 || threads > most_threads(kernel)) return 0;
  std::uint64_t blocks =
      std::min<std::uint64_t>(kBlocksPerMultiprocessor, kThreadsPerMultiprocessor / 32 / warps);
  // Registers are given out by warp, 256 at a time; each of 4 partitions has a quarter.
  const std::uint64_t registers = std::clamp<std::uint64_t>(kernel.registers, 16, 255);
  const std::uint64_t of_warp = (registers * 32 + 255) / 256 * 256;
  blocks = std::min(blocks, kRegisters / 4 / of_warp * 4 / warps);
  const std::uint64_t shared = kernel.static_shared_bytes + dynamic_shared;
  if (shared > kSharedPerBlockOptIn) return 0;
  const std::uint64_t of_block = (shared + kSharedReserved + 127) / 128 * 128;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(blocks, kSharedPerMultiprocessor / of_block));
}

CUresult prepare_launch(const std::shared_ptr<Function>& function, const LaunchRequest& request,
                        KernelWork& work) {
  const Kernel& kernel = function->kernel();
  if (exceeds(request.grid, 2147483647, 65535, 65535) ||
      exceeds(request.block, kThreadsPerBlock, kThreadsPerBlock, 64))
    return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t threads = request.block.count();
  if (threads > kThreadsPerBlock) return CUDA_ERROR_INVALID_VALUE;
  if (threads > most_threads(kernel)) return CUDA_ERROR_INVALID_VALUE;
  const Dim3& required = kernel.required_threads;
  if (required.count() != 0 && (request.block.x != required.x || request.block.y != required.y ||
                                request.block.z != required.z))
    return CUDA_ERROR_INVALID_VALUE;
  if (request.dynamic_shared > static_cast<std::uint32_t>(function->max_dynamic_shared.load()))
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check_cluster(request)) return result;
  const std::uint32_t resident = resident_blocks(*function, threads, request.dynamic_shared);
  if (resident == 0) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  if (request.cooperative && request.grid.count() > std::uint64_t{resident} * kMultiprocessors)
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  work.function = function;
  work.grid = request.grid;
  work.block = request.block;
  work.cluster = request.cluster;
  work.dynamic_shared = request.dynamic_shared;
  work.cooperative = request.cooperative;
  return read_parameters(kernel, request, work.parameters);
}

std::shared_ptr<Function> find_function(Driver& driver, const std::shared_ptr<Context>& context,
                                        CUfunction handle) {
  if (auto function = resolve<Function>(handle)) return function;
  // A kernel of a library stands for its function in the context.
  const auto kernel = resolve<LibraryKernel>(handle);
  const auto library = kernel == nullptr ? nullptr : kernel->library.lock();
  if (library == nullptr) return nullptr;
  const auto module = module_of(driver, context, *library);
  if (module == nullptr) return nullptr;
  return resolve<Function>(library_function(*kernel, module));
}

}  // namespace kiln::emulator

using namespace kiln::emulator;

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream stream, void** parameters, void** extra) {
  LaunchRequest request;
  request.grid = {grid_x, grid_y, grid_z};
  request.block = {block_x, block_y, block_z};
  request.dynamic_shared = shared;
  request.parameters = parameters;
  request.extra = extra;
  return launch(function, stream, request);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                          void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  LaunchRequest request;
  request.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
  request.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
  request.dynamic_shared = config->sharedMemBytes;
  request.parameters = parameters;
  request.extra = extra;
  if (const CUresult result = read_attributes(*config, request)) return result;
  return launch(function, config->hStream, request);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared, CUstream stream,
                                   void** parameters) {
  LaunchRequest request;
  request.grid = {grid_x, grid_y, grid_z};
  request.block = {block_x, block_y, block_z};
  request.dynamic_shared = shared;
  request.cooperative = true;
  request.parameters = parameters;
  return launch(function, stream, request);
}
