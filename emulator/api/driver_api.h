#pragma once

// Every entry point of the driver that this library exports, by group. What each one does is in the
// documentation of the CUDA driver API; deviations stand where it is defined.

#include <cstddef>
#include <cstdint>

#include "emulator/api/driver_types.h"

extern "C" {
#pragma GCC visibility push(default)

// init.cpp
CUresult cuInit(unsigned flags);
CUresult cuDriverGetVersion(int* version);
CUresult cuProfilerStart();
CUresult cuProfilerStop();

// error_text.cpp
CUresult cuGetErrorName(CUresult error, const char** name);
CUresult cuGetErrorString(CUresult error, const char** text);

// entry_points.cpp
CUresult cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags,
                             CUdriverProcAddressQueryResult* status);
CUresult cuGetProcAddress(const char* name, void** function, int version, std::uint64_t flags);

// device.cpp
CUresult cuDeviceGet(CUdevice* device, int ordinal);
CUresult cuDeviceGetCount(int* count);
CUresult cuDeviceGetName(char* name, int length, CUdevice ordinal);
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice ordinal);
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice ordinal);
CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice ordinal);
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice ordinal);
CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice ordinal);
CUresult cuDeviceCanAccessPeer(int* can, CUdevice ordinal, CUdevice peer);
CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice from,
                                 CUdevice to);
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice ordinal);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal);
CUresult cuDevicePrimaryCtxRelease(CUdevice ordinal);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice ordinal);
CUresult cuDevicePrimaryCtxReset(CUdevice ordinal);
CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned* flags, int* active);
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned flags);
CUresult cuDevicePrimaryCtxSetFlags(CUdevice ordinal, unsigned flags);

// context.cpp
CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device);
CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam* affinity, int count,
                        unsigned flags, CUdevice device);
CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* parameters, unsigned flags,
                        CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext handle);
CUresult cuCtxSetCurrent(CUcontext handle);
CUresult cuCtxGetCurrent(CUcontext* handle);
CUresult cuCtxPushCurrent_v2(CUcontext handle);
CUresult cuCtxPopCurrent_v2(CUcontext* handle);
CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext handle);
CUresult cuCtxGetDevice(CUdevice* device);
CUresult cuCtxSynchronize_v2(CUcontext handle);
CUresult cuCtxSynchronize();
CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest);
CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned flags);
CUresult cuCtxDisablePeerAccess(CUcontext handle);
CUresult cuCtxGetLimit(std::size_t* value, CUlimit limit);
CUresult cuCtxSetLimit(CUlimit limit, std::size_t value);
CUresult cuCtxGetApiVersion(CUcontext handle, unsigned* version);

// module.cpp
CUresult cuModuleLoadDataEx(CUmodule* handle, const void* image, unsigned count,
                            CUjit_option* options, void** values);
CUresult cuModuleLoadData(CUmodule* handle, const void* image);
CUresult cuModuleUnload(CUmodule handle);
CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name);
CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, std::size_t* bytes, CUmodule handle,
                              const char* name);
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode);

// library.cpp
CUresult cuLibraryLoadData(CUlibrary* handle, const void* code, CUjit_option* jit_options,
                           void** jit_values, unsigned jit_count, CUlibraryOption* options,
                           void** values, unsigned count);
CUresult cuLibraryUnload(CUlibrary handle);
CUresult cuLibraryGetKernel(CUkernel* handle, CUlibrary library_handle, const char* name);
CUresult cuLibraryGetModule(CUmodule* handle, CUlibrary library_handle);
CUresult cuLibraryGetGlobal(CUdeviceptr* address, std::size_t* bytes, CUlibrary library,
                            const char* name);
CUresult cuKernelGetFunction(CUfunction* function, CUkernel handle);
CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel handle,
                              CUdevice device);
CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle,
                              CUdevice device);

// link.cpp
CUresult cuLinkCreate_v2(unsigned count, CUjit_option* options, void** values, CUlinkState* state);
CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, std::size_t bytes,
                          const char*, unsigned count, CUjit_option* options, void** values);
CUresult cuLinkComplete(CUlinkState state, void** image, std::size_t* bytes);
CUresult cuLinkDestroy(CUlinkState state);

// function.cpp
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle);
CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value);
CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config);
CUresult cuFuncGetParamInfo(CUfunction handle, std::size_t index, std::size_t* offset,
                            std::size_t* bytes);
CUresult cuFuncGetName(const char** name, CUfunction handle);

// launch.cpp
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream stream, void** parameters, void** extra);
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                          void** extra);
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared, CUstream stream,
                                   void** parameters);

// occupancy.cpp
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction handle,
                                                              int threads, std::size_t shared,
                                                              unsigned flags);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads,
                                                     std::size_t shared);
CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction handle,
                                          CUoccupancyB2DSize shared_of, std::size_t shared,
                                          int limit);
CUresult cuOccupancyMaxPotentialClusterSize(int* blocks, CUfunction handle,
                                            const CUlaunchConfig* config);
CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction handle,
                                      const CUlaunchConfig* config);

// memory.cpp
CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t bytes);
CUresult cuMemAllocPitch_v2(CUdeviceptr* address, std::size_t* pitch, std::size_t width,
                            std::size_t height, unsigned element_bytes);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total);
CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address);
CUresult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned flags);
CUresult cuMemAllocHost_v2(void** memory, std::size_t bytes);
CUresult cuMemFreeHost(void* memory);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* memory, unsigned flags);
CUresult cuMemHostGetFlags(unsigned* flags, void* memory);

// host_memory.cpp
CUresult cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned flags);
CUresult cuMemHostUnregister(void* memory);

// pool.cpp
CUresult cuMemAllocAsync(CUdeviceptr* address, std::size_t bytes, CUstream handle);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, std::size_t bytes, CUmemoryPool pool_handle,
                                 CUstream handle);
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle);
CUresult cuMemPoolCreate(CUmemoryPool* handle, const CUmemPoolProps* properties);
CUresult cuMemPoolDestroy(CUmemoryPool handle);
CUresult cuMemPoolTrimTo(CUmemoryPool handle, std::size_t keep);
CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* list, std::size_t count);
CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value);
CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device);
CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device);
CUresult cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool handle);

// copy.cpp
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes);
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t bytes);
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t bytes);
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream);
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                      CUcontext from_context, std::size_t bytes);
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, std::size_t bytes, CUstream stream);

// copy_box.cpp
CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* rectangle);
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* rectangle);
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* rectangle, CUstream stream);
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* box);
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* box, CUstream stream);
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, std::size_t* bytes,
                               std::size_t count, CUmemcpyAttributes* attributes,
                               std::size_t* attribute_starts, std::size_t num_attributes,
                               CUstream stream);
CUresult cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, std::size_t* bytes,
                            std::size_t count, CUmemcpyAttributes* attributes,
                            std::size_t* attribute_starts, std::size_t num_attributes,
                            std::size_t* failed, CUstream stream);

// fill.cpp
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, std::size_t count);
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, std::size_t count);
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, std::size_t count);
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream);
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, std::size_t count, CUstream stream);
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count, CUstream stream);
CUresult cuMemsetD2D8_v2(CUdeviceptr to, std::size_t pitch, unsigned char value, std::size_t width,
                         std::size_t height);
CUresult cuMemsetD2D16_v2(CUdeviceptr to, std::size_t pitch, unsigned short value,
                          std::size_t width, std::size_t height);
CUresult cuMemsetD2D32_v2(CUdeviceptr to, std::size_t pitch, unsigned value, std::size_t width,
                          std::size_t height);
CUresult cuMemsetD2D8Async(CUdeviceptr to, std::size_t pitch, unsigned char value,
                           std::size_t width, std::size_t height, CUstream stream);
CUresult cuMemsetD2D16Async(CUdeviceptr to, std::size_t pitch, unsigned short value,
                            std::size_t width, std::size_t height, CUstream stream);
CUresult cuMemsetD2D32Async(CUdeviceptr to, std::size_t pitch, unsigned value, std::size_t width,
                            std::size_t height, CUstream stream);

// pointer.cpp
CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address);
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr address);

// virtual_memory.cpp
CUresult cuMemGetAllocationGranularity(std::size_t* bytes, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags option);
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags);
CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                CUmemGenericAllocationHandle handle);
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address);
CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags);
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                        CUmemAllocationHandleType type);
CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t bytes, std::size_t alignment,
                             CUdeviceptr wanted, unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr address, std::size_t bytes);
CUresult cuMemMap(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags);
CUresult cuMemUnmap(CUdeviceptr address, std::size_t bytes);
CUresult cuMemSetAccess(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* list,
                        std::size_t count);
CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                        CUdeviceptr address);

// multicast.cpp
CUresult cuMulticastGetGranularity(std::size_t* bytes, const CUmulticastObjectProp* properties,
                                   CUmulticastGranularity_flags option);
CUresult cuMulticastCreate(CUmemGenericAllocationHandle* handle,
                           const CUmulticastObjectProp* properties);
CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice ordinal);
CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, std::size_t offset,
                            CUmemGenericAllocationHandle memory_handle, std::size_t memory_offset,
                            std::size_t bytes, unsigned long long flags);
CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, std::size_t offset,
                             CUdeviceptr address, std::size_t bytes, unsigned long long flags);
CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice ordinal,
                           std::size_t offset, std::size_t bytes);

// stream.cpp
CUresult cuStreamCreateWithPriority(CUstream* handle, unsigned flags, int priority);
CUresult cuStreamCreate(CUstream* handle, unsigned flags);
CUresult cuStreamDestroy_v2(CUstream handle);
CUresult cuStreamDestroy(CUstream handle);
CUresult cuStreamSynchronize(CUstream handle);
CUresult cuStreamQuery(CUstream handle);
CUresult cuStreamGetCtx(CUstream handle, CUcontext* answer);
CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext* context, CUgreenCtx* green);
CUresult cuStreamGetFlags(CUstream handle, unsigned* flags);
CUresult cuStreamGetPriority(CUstream handle, int* priority);
CUresult cuStreamGetId(CUstream handle, unsigned long long* id);
CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* user_data);
CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* user_data,
                             unsigned flags);

// stream_value.cpp
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, std::uint32_t value,
                                unsigned flags);
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, std::uint64_t value,
                                unsigned flags);
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, std::uint32_t value,
                                 unsigned flags);
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, std::uint64_t value,
                                 unsigned flags);
CUresult cuStreamBatchMemOp_v2(CUstream handle, unsigned count, CUstreamBatchMemOpParams* list,
                               unsigned flags);

// event.cpp
CUresult cuEventCreate(CUevent* handle, unsigned flags);
CUresult cuEventDestroy_v2(CUevent handle);
CUresult cuEventDestroy(CUevent handle);
CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream_handle, unsigned flags);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned flags);
CUresult cuEventQuery(CUevent handle);
CUresult cuEventSynchronize(CUevent handle);
CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end);
CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end);

// capture.cpp
CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode);
CUresult cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph_handle,
                                     const CUgraphNode* dependencies, const CUgraphEdgeData* edges,
                                     std::size_t count, CUstreamCaptureMode mode);
CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph);
CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status);
CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, std::uint64_t* id);
CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status,
                                   std::uint64_t* id, CUgraph* graph,
                                   const CUgraphNode** dependencies, std::size_t* count);
CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status,
                                   std::uint64_t* id, CUgraph* graph,
                                   const CUgraphNode** dependencies, const CUgraphEdgeData** edges,
                                   std::size_t* count);
CUresult cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode* list, std::size_t count,
                                           unsigned flags);
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode* list,
                                              const CUgraphEdgeData* edges, std::size_t count,
                                              unsigned flags);
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode);

// graph.cpp
CUresult cuGraphCreate(CUgraph* handle, unsigned flags);
CUresult cuGraphDestroy(CUgraph handle);
CUresult cuGraphClone(CUgraph* handle, CUgraph original);
CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, std::size_t* count);
CUresult cuGraphGetEdges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, std::size_t* count);
CUresult cuGraphGetEdges_v2(CUgraph handle, CUgraphNode* from, CUgraphNode* to,
                            CUgraphEdgeData* edges, std::size_t* count);
CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type);
CUresult cuGraphNodeGetDependencies(CUgraphNode handle, CUgraphNode* nodes, std::size_t* count);
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode handle, CUgraphNode* nodes,
                                       CUgraphEdgeData* edges, std::size_t* count);
CUresult cuGraphAddDependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                std::size_t count);
CUresult cuGraphAddDependencies_v2(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* edges, std::size_t count);
CUresult cuGraphDebugDotPrint(CUgraph handle, const char* path, unsigned);

// graph_nodes.cpp
CUresult cuGraphAddKernelNode_v2(CUgraphNode* handle, CUgraph graph,
                                 const CUgraphNode* dependencies, std::size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS* parameters);
CUresult cuGraphAddKernelNode(CUgraphNode* handle, CUgraph graph, const CUgraphNode* dependencies,
                              std::size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* parameters);
CUresult cuGraphAddMemcpyNode(CUgraphNode* handle, CUgraph graph, const CUgraphNode* dependencies,
                              std::size_t count, const CUDA_MEMCPY3D* parameters,
                              CUcontext context);
CUresult cuGraphAddMemsetNode(CUgraphNode* handle, CUgraph graph, const CUgraphNode* dependencies,
                              std::size_t count, const CUDA_MEMSET_NODE_PARAMS* parameters,
                              CUcontext context);
CUresult cuGraphAddHostNode(CUgraphNode* handle, CUgraph graph, const CUgraphNode* dependencies,
                            std::size_t count, const CUDA_HOST_NODE_PARAMS* parameters);
CUresult cuGraphAddEmptyNode(CUgraphNode* handle, CUgraph graph, const CUgraphNode* dependencies,
                             std::size_t count);
CUresult cuGraphAddEventRecordNode(CUgraphNode* handle, CUgraph graph,
                                   const CUgraphNode* dependencies, std::size_t count,
                                   CUevent event);
CUresult cuGraphAddEventWaitNode(CUgraphNode* handle, CUgraph graph,
                                 const CUgraphNode* dependencies, std::size_t count, CUevent event);
CUresult cuGraphAddChildGraphNode(CUgraphNode* handle, CUgraph graph,
                                  const CUgraphNode* dependencies, std::size_t count,
                                  CUgraph child_handle);
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS* parameters);
CUresult cuGraphKernelNodeGetParams(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS_v1* parameters);
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode handle,
                                       const CUDA_KERNEL_NODE_PARAMS* parameters);
CUresult cuGraphKernelNodeSetParams(CUgraphNode handle,
                                    const CUDA_KERNEL_NODE_PARAMS_v1* parameters);
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec_handle, CUgraphNode handle,
                                           const CUDA_KERNEL_NODE_PARAMS* parameters);
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode handle,
                                        const CUDA_KERNEL_NODE_PARAMS_v1* parameters);

// graph_exec.cpp
CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags);
CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log,
                               std::size_t log_bytes);
CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log,
                            std::size_t log_bytes);
CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* parameters);
CUresult cuGraphExecDestroy(CUgraphExec handle);
CUresult cuGraphUpload(CUgraphExec handle, CUstream stream_handle);
CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle);
CUresult cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph graph_handle,
                              CUgraphExecUpdateResultInfo* information);
CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* error_node,
                           CUgraphExecUpdateResult* result);

// tensor_map.cpp
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, int type, std::uint32_t rank, void* address,
                                const std::uint64_t* extents, const std::uint64_t* strides,
                                const std::uint32_t* box, const std::uint32_t* steps,
                                int interleave, int swizzle, int promotion, int fill);

// per_thread.cpp
CUresult cuEventRecord_ptsz(CUevent event, CUstream stream);
CUresult cuEventRecordWithFlags_ptsz(CUevent handle, CUstream stream_handle, unsigned flags);
CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* exec, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* parameters);
CUresult cuGraphLaunch_ptsz(CUgraphExec handle, CUstream stream_handle);
CUresult cuGraphUpload_ptsz(CUgraphExec handle, CUstream stream_handle);
CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned grid_x, unsigned grid_y,
                                        unsigned grid_z, unsigned block_x, unsigned block_y,
                                        unsigned block_z, unsigned shared, CUstream stream,
                                        void** parameters);
CUresult cuLaunchHostFunc_ptsz(CUstream handle, CUhostFn function, void* user_data);
CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                             CUstream stream, void** parameters, void** extra);
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction function, void** parameters,
                               void** extra);
CUresult cuMemAllocAsync_ptsz(CUdeviceptr* address, std::size_t bytes, CUstream handle);
CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* address, std::size_t bytes,
                                      CUmemoryPool pool_handle, CUstream handle);
CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream handle);
CUresult cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, std::size_t bytes);
CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D* rectangle, CUstream stream);
CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D* rectangle);
CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D* rectangle);
CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D* box, CUstream stream);
CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D* box);
CUresult cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream);
CUresult cuMemcpyBatchAsync_ptsz(CUdeviceptr* to, CUdeviceptr* from, std::size_t* bytes,
                                 std::size_t count, CUmemcpyAttributes* attributes,
                                 std::size_t* attribute_starts, std::size_t num_attributes,
                                 std::size_t* failed, CUstream stream);
CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr* to, CUdeviceptr* from, std::size_t* bytes,
                                    std::size_t count, CUmemcpyAttributes* attributes,
                                    std::size_t* attribute_starts, std::size_t num_attributes,
                                    CUstream stream);
CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                                   CUstream stream);
CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, std::size_t bytes);
CUresult cuMemcpyDtoHAsync_v2_ptsz(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream);
CUresult cuMemcpyDtoH_v2_ptds(void* to, CUdeviceptr from, std::size_t bytes);
CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void* from, std::size_t bytes,
                                   CUstream stream);
CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void* from, std::size_t bytes);
CUresult cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, std::size_t bytes);
CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                CUcontext from_context, std::size_t bytes, CUstream stream);
CUresult cuMemsetD16Async_ptsz(CUdeviceptr to, unsigned short value, std::size_t count,
                               CUstream stream);
CUresult cuMemsetD16_v2_ptds(CUdeviceptr to, unsigned short value, std::size_t count);
CUresult cuMemsetD2D16Async_ptsz(CUdeviceptr to, std::size_t pitch, unsigned short value,
                                 std::size_t width, std::size_t height, CUstream stream);
CUresult cuMemsetD2D16_v2_ptds(CUdeviceptr to, std::size_t pitch, unsigned short value,
                               std::size_t width, std::size_t height);
CUresult cuMemsetD2D32Async_ptsz(CUdeviceptr to, std::size_t pitch, unsigned value,
                                 std::size_t width, std::size_t height, CUstream stream);
CUresult cuMemsetD2D32_v2_ptds(CUdeviceptr to, std::size_t pitch, unsigned value, std::size_t width,
                               std::size_t height);
CUresult cuMemsetD2D8Async_ptsz(CUdeviceptr to, std::size_t pitch, unsigned char value,
                                std::size_t width, std::size_t height, CUstream stream);
CUresult cuMemsetD2D8_v2_ptds(CUdeviceptr to, std::size_t pitch, unsigned char value,
                              std::size_t width, std::size_t height);
CUresult cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned value, std::size_t count, CUstream stream);
CUresult cuMemsetD32_v2_ptds(CUdeviceptr to, unsigned value, std::size_t count);
CUresult cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char value, std::size_t count,
                              CUstream stream);
CUresult cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, std::size_t count);
CUresult cuStreamAddCallback_ptsz(CUstream handle, CUstreamCallback callback, void* user_data,
                                  unsigned flags);
CUresult cuStreamBatchMemOp_v2_ptsz(CUstream handle, unsigned count, CUstreamBatchMemOpParams* list,
                                    unsigned flags);
CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream handle, CUgraph graph_handle,
                                          const CUgraphNode* dependencies,
                                          const CUgraphEdgeData* edges, std::size_t count,
                                          CUstreamCaptureMode mode);
CUresult cuStreamBeginCapture_v2_ptsz(CUstream handle, CUstreamCaptureMode mode);
CUresult cuStreamEndCapture_ptsz(CUstream handle, CUgraph* graph);
CUresult cuStreamGetCaptureInfo_ptsz(CUstream handle, CUstreamCaptureStatus* status,
                                     std::uint64_t* id);
CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream handle, CUstreamCaptureStatus* status,
                                        std::uint64_t* id, CUgraph* graph,
                                        const CUgraphNode** dependencies, std::size_t* count);
CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream handle, CUstreamCaptureStatus* status,
                                        std::uint64_t* id, CUgraph* graph,
                                        const CUgraphNode** dependencies,
                                        const CUgraphEdgeData** edges, std::size_t* count);
CUresult cuStreamGetCtx_ptsz(CUstream handle, CUcontext* answer);
CUresult cuStreamGetCtx_v2_ptsz(CUstream handle, CUcontext* context, CUgreenCtx* green);
CUresult cuStreamGetFlags_ptsz(CUstream handle, unsigned* flags);
CUresult cuStreamGetId_ptsz(CUstream handle, unsigned long long* id);
CUresult cuStreamGetPriority_ptsz(CUstream handle, int* priority);
CUresult cuStreamIsCapturing_ptsz(CUstream handle, CUstreamCaptureStatus* status);
CUresult cuStreamQuery_ptsz(CUstream handle);
CUresult cuStreamSynchronize_ptsz(CUstream handle);
CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream handle, CUgraphNode* list,
                                                std::size_t count, unsigned flags);
CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream handle, CUgraphNode* list,
                                                   const CUgraphEdgeData* edges, std::size_t count,
                                                   unsigned flags);
CUresult cuStreamWaitEvent_ptsz(CUstream stream_handle, CUevent handle, unsigned flags);
CUresult cuStreamWaitValue32_v2_ptsz(CUstream stream, CUdeviceptr address, std::uint32_t value,
                                     unsigned flags);
CUresult cuStreamWaitValue64_v2_ptsz(CUstream stream, CUdeviceptr address, std::uint64_t value,
                                     unsigned flags);
CUresult cuStreamWriteValue32_v2_ptsz(CUstream stream, CUdeviceptr address, std::uint32_t value,
                                      unsigned flags);
CUresult cuStreamWriteValue64_v2_ptsz(CUstream stream, CUdeviceptr address, std::uint64_t value,
                                      unsigned flags);

#pragma GCC visibility pop
}  // extern "C"
