#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>

#include "emulator/api/driver_api.h"
#include "emulator/device/driver.h"

namespace {

template <typename Function>
void* as_pointer(Function* function) {
  return reinterpret_cast<void*>(function);
}

/// A function of the interface: since which version it has this form, and its form whose default
/// stream is the calling thread's.
struct EntryPoint {
  std::string_view name;
  int version;
  void* function;
  void* per_thread;
};

// Sorted by name, then by version. A name that is not here is not found, as with an older driver.
const EntryPoint kEntryPoints[] = {
    {"cuCtxCreate", 3020, as_pointer(cuCtxCreate_v2), nullptr},
    {"cuCtxCreate", 11040, as_pointer(cuCtxCreate_v3), nullptr},
    {"cuCtxCreate", 12050, as_pointer(cuCtxCreate_v4), nullptr},
    {"cuCtxDestroy", 4000, as_pointer(cuCtxDestroy_v2), nullptr},
    {"cuCtxDisablePeerAccess", 4000, as_pointer(cuCtxDisablePeerAccess), nullptr},
    {"cuCtxEnablePeerAccess", 4000, as_pointer(cuCtxEnablePeerAccess), nullptr},
    {"cuCtxGetApiVersion", 3020, as_pointer(cuCtxGetApiVersion), nullptr},
    {"cuCtxGetCurrent", 4000, as_pointer(cuCtxGetCurrent), nullptr},
    {"cuCtxGetDevice", 2000, as_pointer(cuCtxGetDevice), nullptr},
    {"cuCtxGetDevice", 13000, as_pointer(cuCtxGetDevice_v2), nullptr},
    {"cuCtxGetLimit", 3010, as_pointer(cuCtxGetLimit), nullptr},
    {"cuCtxGetStreamPriorityRange", 5050, as_pointer(cuCtxGetStreamPriorityRange), nullptr},
    {"cuCtxPopCurrent", 4000, as_pointer(cuCtxPopCurrent_v2), nullptr},
    {"cuCtxPushCurrent", 4000, as_pointer(cuCtxPushCurrent_v2), nullptr},
    {"cuCtxSetCurrent", 4000, as_pointer(cuCtxSetCurrent), nullptr},
    {"cuCtxSetLimit", 3010, as_pointer(cuCtxSetLimit), nullptr},
    {"cuCtxSynchronize", 2000, as_pointer(cuCtxSynchronize), nullptr},
    {"cuCtxSynchronize", 13000, as_pointer(cuCtxSynchronize_v2), nullptr},
    {"cuDeviceCanAccessPeer", 4000, as_pointer(cuDeviceCanAccessPeer), nullptr},
    {"cuDeviceGet", 2000, as_pointer(cuDeviceGet), nullptr},
    {"cuDeviceGetAttribute", 2000, as_pointer(cuDeviceGetAttribute), nullptr},
    {"cuDeviceGetCount", 2000, as_pointer(cuDeviceGetCount), nullptr},
    {"cuDeviceGetDefaultMemPool", 11020, as_pointer(cuDeviceGetDefaultMemPool), nullptr},
    {"cuDeviceGetMemPool", 11020, as_pointer(cuDeviceGetMemPool), nullptr},
    {"cuDeviceGetName", 2000, as_pointer(cuDeviceGetName), nullptr},
    {"cuDeviceGetP2PAttribute", 8000, as_pointer(cuDeviceGetP2PAttribute), nullptr},
    {"cuDeviceGetPCIBusId", 4010, as_pointer(cuDeviceGetPCIBusId), nullptr},
    {"cuDeviceGetUuid", 9020, as_pointer(cuDeviceGetUuid), nullptr},
    {"cuDeviceGetUuid", 11040, as_pointer(cuDeviceGetUuid_v2), nullptr},
    {"cuDevicePrimaryCtxGetState", 7000, as_pointer(cuDevicePrimaryCtxGetState), nullptr},
    {"cuDevicePrimaryCtxRelease", 7000, as_pointer(cuDevicePrimaryCtxRelease), nullptr},
    {"cuDevicePrimaryCtxRelease", 11000, as_pointer(cuDevicePrimaryCtxRelease_v2), nullptr},
    {"cuDevicePrimaryCtxReset", 7000, as_pointer(cuDevicePrimaryCtxReset), nullptr},
    {"cuDevicePrimaryCtxReset", 11000, as_pointer(cuDevicePrimaryCtxReset_v2), nullptr},
    {"cuDevicePrimaryCtxRetain", 7000, as_pointer(cuDevicePrimaryCtxRetain), nullptr},
    {"cuDevicePrimaryCtxSetFlags", 7000, as_pointer(cuDevicePrimaryCtxSetFlags), nullptr},
    {"cuDevicePrimaryCtxSetFlags", 11000, as_pointer(cuDevicePrimaryCtxSetFlags_v2), nullptr},
    {"cuDeviceSetMemPool", 11020, as_pointer(cuDeviceSetMemPool), nullptr},
    {"cuDeviceTotalMem", 3020, as_pointer(cuDeviceTotalMem_v2), nullptr},
    {"cuDriverGetVersion", 2020, as_pointer(cuDriverGetVersion), nullptr},
    {"cuEventCreate", 2000, as_pointer(cuEventCreate), nullptr},
    {"cuEventDestroy", 2000, as_pointer(cuEventDestroy), nullptr},
    {"cuEventDestroy", 4000, as_pointer(cuEventDestroy_v2), nullptr},
    {"cuEventElapsedTime", 2000, as_pointer(cuEventElapsedTime), nullptr},
    {"cuEventElapsedTime", 12080, as_pointer(cuEventElapsedTime_v2), nullptr},
    {"cuEventQuery", 2000, as_pointer(cuEventQuery), nullptr},
    {"cuEventRecord", 2000, as_pointer(cuEventRecord), nullptr},
    {"cuEventRecordWithFlags", 11010, as_pointer(cuEventRecordWithFlags), nullptr},
    {"cuEventSynchronize", 2000, as_pointer(cuEventSynchronize), nullptr},
    {"cuFuncGetAttribute", 2020, as_pointer(cuFuncGetAttribute), nullptr},
    {"cuFuncGetName", 12030, as_pointer(cuFuncGetName), nullptr},
    {"cuFuncGetParamInfo", 12040, as_pointer(cuFuncGetParamInfo), nullptr},
    {"cuFuncSetAttribute", 9000, as_pointer(cuFuncSetAttribute), nullptr},
    {"cuFuncSetCacheConfig", 3000, as_pointer(cuFuncSetCacheConfig), nullptr},
    {"cuGetErrorName", 6000, as_pointer(cuGetErrorName), nullptr},
    {"cuGetErrorString", 6000, as_pointer(cuGetErrorString), nullptr},
    {"cuGetProcAddress", 11030, as_pointer(cuGetProcAddress), nullptr},
    {"cuGetProcAddress", 12000, as_pointer(cuGetProcAddress_v2), nullptr},
    {"cuInit", 2000, as_pointer(cuInit), nullptr},
    {"cuKernelGetAttribute", 12000, as_pointer(cuKernelGetAttribute), nullptr},
    {"cuKernelGetFunction", 12000, as_pointer(cuKernelGetFunction), nullptr},
    {"cuKernelSetAttribute", 12000, as_pointer(cuKernelSetAttribute), nullptr},
    {"cuLaunchCooperativeKernel", 9000, as_pointer(cuLaunchCooperativeKernel), nullptr},
    {"cuLaunchHostFunc", 10000, as_pointer(cuLaunchHostFunc), nullptr},
    {"cuLaunchKernel", 4000, as_pointer(cuLaunchKernel), nullptr},
    {"cuLaunchKernelEx", 11060, as_pointer(cuLaunchKernelEx), nullptr},
    {"cuLibraryGetGlobal", 12000, as_pointer(cuLibraryGetGlobal), nullptr},
    {"cuLibraryGetKernel", 12000, as_pointer(cuLibraryGetKernel), nullptr},
    {"cuLibraryGetModule", 12000, as_pointer(cuLibraryGetModule), nullptr},
    {"cuLibraryLoadData", 12000, as_pointer(cuLibraryLoadData), nullptr},
    {"cuLibraryUnload", 12000, as_pointer(cuLibraryUnload), nullptr},
    {"cuLinkAddData", 5050, as_pointer(cuLinkAddData_v2), nullptr},
    {"cuLinkComplete", 5050, as_pointer(cuLinkComplete), nullptr},
    {"cuLinkCreate", 5050, as_pointer(cuLinkCreate_v2), nullptr},
    {"cuLinkDestroy", 5050, as_pointer(cuLinkDestroy), nullptr},
    {"cuMemAddressFree", 10020, as_pointer(cuMemAddressFree), nullptr},
    {"cuMemAddressReserve", 10020, as_pointer(cuMemAddressReserve), nullptr},
    {"cuMemAlloc", 3020, as_pointer(cuMemAlloc_v2), nullptr},
    {"cuMemAllocAsync", 11020, as_pointer(cuMemAllocAsync), nullptr},
    {"cuMemAllocFromPoolAsync", 11020, as_pointer(cuMemAllocFromPoolAsync), nullptr},
    {"cuMemAllocHost", 3020, as_pointer(cuMemAllocHost_v2), nullptr},
    {"cuMemAllocPitch", 3020, as_pointer(cuMemAllocPitch_v2), nullptr},
    {"cuMemCreate", 10020, as_pointer(cuMemCreate), nullptr},
    {"cuMemExportToShareableHandle", 10020, as_pointer(cuMemExportToShareableHandle), nullptr},
    {"cuMemFree", 3020, as_pointer(cuMemFree_v2), nullptr},
    {"cuMemFreeAsync", 11020, as_pointer(cuMemFreeAsync), nullptr},
    {"cuMemFreeHost", 2000, as_pointer(cuMemFreeHost), nullptr},
    {"cuMemGetAccess", 10020, as_pointer(cuMemGetAccess), nullptr},
    {"cuMemGetAddressRange", 3020, as_pointer(cuMemGetAddressRange_v2), nullptr},
    {"cuMemGetAllocationGranularity", 10020, as_pointer(cuMemGetAllocationGranularity), nullptr},
    {"cuMemGetAllocationPropertiesFromHandle", 10020,
     as_pointer(cuMemGetAllocationPropertiesFromHandle), nullptr},
    {"cuMemGetInfo", 3020, as_pointer(cuMemGetInfo_v2), nullptr},
    {"cuMemHostAlloc", 2020, as_pointer(cuMemHostAlloc), nullptr},
    {"cuMemHostGetDevicePointer", 3020, as_pointer(cuMemHostGetDevicePointer_v2), nullptr},
    {"cuMemHostGetFlags", 2030, as_pointer(cuMemHostGetFlags), nullptr},
    {"cuMemHostRegister", 4000, as_pointer(cuMemHostRegister_v2), nullptr},
    {"cuMemHostUnregister", 4000, as_pointer(cuMemHostUnregister), nullptr},
    {"cuMemImportFromShareableHandle", 10020, as_pointer(cuMemImportFromShareableHandle), nullptr},
    {"cuMemMap", 10020, as_pointer(cuMemMap), nullptr},
    {"cuMemPoolCreate", 11020, as_pointer(cuMemPoolCreate), nullptr},
    {"cuMemPoolDestroy", 11020, as_pointer(cuMemPoolDestroy), nullptr},
    {"cuMemPoolGetAttribute", 11020, as_pointer(cuMemPoolGetAttribute), nullptr},
    {"cuMemPoolSetAccess", 11020, as_pointer(cuMemPoolSetAccess), nullptr},
    {"cuMemPoolSetAttribute", 11020, as_pointer(cuMemPoolSetAttribute), nullptr},
    {"cuMemPoolTrimTo", 11020, as_pointer(cuMemPoolTrimTo), nullptr},
    {"cuMemRelease", 10020, as_pointer(cuMemRelease), nullptr},
    {"cuMemRetainAllocationHandle", 11000, as_pointer(cuMemRetainAllocationHandle), nullptr},
    {"cuMemSetAccess", 10020, as_pointer(cuMemSetAccess), nullptr},
    {"cuMemUnmap", 10020, as_pointer(cuMemUnmap), nullptr},
    {"cuMemcpy", 4000, as_pointer(cuMemcpy), nullptr},
    {"cuMemcpy2D", 3020, as_pointer(cuMemcpy2D_v2), nullptr},
    {"cuMemcpy2DAsync", 3020, as_pointer(cuMemcpy2DAsync_v2), nullptr},
    {"cuMemcpy2DUnaligned", 3020, as_pointer(cuMemcpy2DUnaligned_v2), nullptr},
    {"cuMemcpy3D", 3020, as_pointer(cuMemcpy3D_v2), nullptr},
    {"cuMemcpy3DAsync", 3020, as_pointer(cuMemcpy3DAsync_v2), nullptr},
    {"cuMemcpyAsync", 4000, as_pointer(cuMemcpyAsync), nullptr},
    {"cuMemcpyBatchAsync", 12080, as_pointer(cuMemcpyBatchAsync), nullptr},
    {"cuMemcpyBatchAsync", 13000, as_pointer(cuMemcpyBatchAsync_v2), nullptr},
    {"cuMemcpyDtoD", 3020, as_pointer(cuMemcpyDtoD_v2), nullptr},
    {"cuMemcpyDtoDAsync", 3020, as_pointer(cuMemcpyDtoDAsync_v2), nullptr},
    {"cuMemcpyDtoH", 3020, as_pointer(cuMemcpyDtoH_v2), nullptr},
    {"cuMemcpyDtoHAsync", 3020, as_pointer(cuMemcpyDtoHAsync_v2), nullptr},
    {"cuMemcpyHtoD", 3020, as_pointer(cuMemcpyHtoD_v2), nullptr},
    {"cuMemcpyHtoDAsync", 3020, as_pointer(cuMemcpyHtoDAsync_v2), nullptr},
    {"cuMemcpyPeer", 4000, as_pointer(cuMemcpyPeer), nullptr},
    {"cuMemcpyPeerAsync", 4000, as_pointer(cuMemcpyPeerAsync), nullptr},
    {"cuMemsetD16", 3020, as_pointer(cuMemsetD16_v2), nullptr},
    {"cuMemsetD16Async", 3020, as_pointer(cuMemsetD16Async), nullptr},
    {"cuMemsetD2D16", 3020, as_pointer(cuMemsetD2D16_v2), nullptr},
    {"cuMemsetD2D16Async", 3020, as_pointer(cuMemsetD2D16Async), nullptr},
    {"cuMemsetD2D32", 3020, as_pointer(cuMemsetD2D32_v2), nullptr},
    {"cuMemsetD2D32Async", 3020, as_pointer(cuMemsetD2D32Async), nullptr},
    {"cuMemsetD2D8", 3020, as_pointer(cuMemsetD2D8_v2), nullptr},
    {"cuMemsetD2D8Async", 3020, as_pointer(cuMemsetD2D8Async), nullptr},
    {"cuMemsetD32", 3020, as_pointer(cuMemsetD32_v2), nullptr},
    {"cuMemsetD32Async", 3020, as_pointer(cuMemsetD32Async), nullptr},
    {"cuMemsetD8", 3020, as_pointer(cuMemsetD8_v2), nullptr},
    {"cuMemsetD8Async", 3020, as_pointer(cuMemsetD8Async), nullptr},
    {"cuModuleGetFunction", 2000, as_pointer(cuModuleGetFunction), nullptr},
    {"cuModuleGetGlobal", 3020, as_pointer(cuModuleGetGlobal_v2), nullptr},
    {"cuModuleGetLoadingMode", 11070, as_pointer(cuModuleGetLoadingMode), nullptr},
    {"cuModuleLoadData", 2000, as_pointer(cuModuleLoadData), nullptr},
    {"cuModuleLoadDataEx", 2010, as_pointer(cuModuleLoadDataEx), nullptr},
    {"cuModuleUnload", 2000, as_pointer(cuModuleUnload), nullptr},
    {"cuMulticastAddDevice", 12010, as_pointer(cuMulticastAddDevice), nullptr},
    {"cuMulticastBindAddr", 12010, as_pointer(cuMulticastBindAddr), nullptr},
    {"cuMulticastBindMem", 12010, as_pointer(cuMulticastBindMem), nullptr},
    {"cuMulticastCreate", 12010, as_pointer(cuMulticastCreate), nullptr},
    {"cuMulticastGetGranularity", 12010, as_pointer(cuMulticastGetGranularity), nullptr},
    {"cuMulticastUnbind", 12010, as_pointer(cuMulticastUnbind), nullptr},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessor", 6050,
     as_pointer(cuOccupancyMaxActiveBlocksPerMultiprocessor), nullptr},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", 7000,
     as_pointer(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags), nullptr},
    {"cuOccupancyMaxActiveClusters", 11070, as_pointer(cuOccupancyMaxActiveClusters), nullptr},
    {"cuOccupancyMaxPotentialBlockSize", 6050, as_pointer(cuOccupancyMaxPotentialBlockSize),
     nullptr},
    {"cuOccupancyMaxPotentialClusterSize", 11070, as_pointer(cuOccupancyMaxPotentialClusterSize),
     nullptr},
    {"cuPointerGetAttribute", 4000, as_pointer(cuPointerGetAttribute), nullptr},
    {"cuPointerGetAttributes", 7000, as_pointer(cuPointerGetAttributes), nullptr},
    {"cuProfilerStart", 4000, as_pointer(cuProfilerStart), nullptr},
    {"cuProfilerStop", 4000, as_pointer(cuProfilerStop), nullptr},
    {"cuStreamAddCallback", 5000, as_pointer(cuStreamAddCallback), nullptr},
    {"cuStreamBatchMemOp", 8000, as_pointer(cuStreamBatchMemOp_v2), nullptr},
    {"cuStreamCreate", 2000, as_pointer(cuStreamCreate), nullptr},
    {"cuStreamCreateWithPriority", 5050, as_pointer(cuStreamCreateWithPriority), nullptr},
    {"cuStreamDestroy", 2000, as_pointer(cuStreamDestroy), nullptr},
    {"cuStreamDestroy", 4000, as_pointer(cuStreamDestroy_v2), nullptr},
    {"cuStreamGetCtx", 9020, as_pointer(cuStreamGetCtx), nullptr},
    {"cuStreamGetCtx", 12050, as_pointer(cuStreamGetCtx_v2), nullptr},
    {"cuStreamGetFlags", 5050, as_pointer(cuStreamGetFlags), nullptr},
    {"cuStreamGetId", 12000, as_pointer(cuStreamGetId), nullptr},
    {"cuStreamGetPriority", 5050, as_pointer(cuStreamGetPriority), nullptr},
    {"cuStreamQuery", 2000, as_pointer(cuStreamQuery), nullptr},
    {"cuStreamSynchronize", 2000, as_pointer(cuStreamSynchronize), nullptr},
    {"cuStreamWaitEvent", 3020, as_pointer(cuStreamWaitEvent), nullptr},
    {"cuStreamWaitValue32", 8000, as_pointer(cuStreamWaitValue32_v2), nullptr},
    {"cuStreamWaitValue64", 9000, as_pointer(cuStreamWaitValue64_v2), nullptr},
    {"cuStreamWriteValue32", 8000, as_pointer(cuStreamWriteValue32_v2), nullptr},
    {"cuStreamWriteValue64", 9000, as_pointer(cuStreamWriteValue64_v2), nullptr},
};

}  // namespace

CUresult cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  constexpr std::uint64_t kKnown =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (name == nullptr || function == nullptr || (flags & ~kKnown) != 0 || flags == kKnown ||
      version > kiln::emulator::kDriverVersion)
    return CUDA_ERROR_INVALID_VALUE;
  *function = nullptr;
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  const auto* entry = std::lower_bound(
      std::begin(kEntryPoints), std::end(kEntryPoints), std::string_view(name),
      [](const EntryPoint& each, std::string_view wanted) { return each.name < wanted; });
  for (; entry != std::end(kEntryPoints) && entry->name == name; ++entry) {
    if (found == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND)
      found = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    if (entry->version > version) break;
    const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    *function = per_thread && entry->per_thread != nullptr ? entry->per_thread : entry->function;
    found = CU_GET_PROC_ADDRESS_SUCCESS;
  }
  if (status != nullptr) *status = found;
  return CUDA_SUCCESS;
}

// The first form tells by its result that there is no such function.
CUresult cuGetProcAddress(const char* name, void** function, int version, std::uint64_t flags) {
  const CUresult result = cuGetProcAddress_v2(name, function, version, flags, nullptr);
  return result == CUDA_SUCCESS && *function == nullptr ? CUDA_ERROR_NOT_FOUND : result;
}
