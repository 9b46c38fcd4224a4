#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kiln/driver/cuda/abi.h"

namespace kiln::driver::cuda {

// Entry points: the name here, the symbol, the type.
#define KILN_CUDA_ENTRY_POINTS(X)                                                                  \
  X(init, "cuInit", Result(unsigned))                                                              \
  X(driver_version, "cuDriverGetVersion", Result(int*))                                            \
  X(error_name, "cuGetErrorName", Result(Result, const char**))                                    \
  X(error_string, "cuGetErrorString", Result(Result, const char**))                                \
  X(device_count, "cuDeviceGetCount", Result(int*))                                                \
  X(device_get, "cuDeviceGet", Result(DeviceNumber*, int))                                         \
  X(device_name, "cuDeviceGetName", Result(char*, int, DeviceNumber))                              \
  X(device_total_memory, "cuDeviceTotalMem_v2", Result(std::size_t*, DeviceNumber))                \
  X(device_attribute, "cuDeviceGetAttribute", Result(int*, int, DeviceNumber))                     \
  X(device_can_access_peer, "cuDeviceCanAccessPeer", Result(int*, DeviceNumber, DeviceNumber))     \
  X(primary_context_retain, "cuDevicePrimaryCtxRetain", Result(Context*, DeviceNumber))            \
  X(context_push, "cuCtxPushCurrent_v2", Result(Context))                                          \
  X(context_pop, "cuCtxPopCurrent_v2", Result(Context*))                                           \
  X(context_enable_peer_access, "cuCtxEnablePeerAccess", Result(Context, unsigned))                \
  X(memory_info, "cuMemGetInfo_v2", Result(std::size_t*, std::size_t*))                            \
  X(memory_allocate, "cuMemAlloc_v2", Result(DevicePointer*, std::size_t))                         \
  X(memory_free, "cuMemFree_v2", Result(DevicePointer))                                            \
  X(host_allocate, "cuMemHostAlloc", Result(void**, std::size_t, unsigned))                        \
  X(host_free, "cuMemFreeHost", Result(void*))                                                     \
  X(copy_async, "cuMemcpyAsync", Result(DevicePointer, DevicePointer, std::size_t, Stream))        \
  X(copy_peer_async, "cuMemcpyPeerAsync",                                                          \
    Result(DevicePointer, Context, DevicePointer, Context, std::size_t, Stream))                   \
  X(fill_async, "cuMemsetD8Async", Result(DevicePointer, unsigned char, std::size_t, Stream))      \
  X(stream_create, "cuStreamCreateWithPriority", Result(Stream*, unsigned, int))                   \
  X(stream_destroy, "cuStreamDestroy_v2", Result(Stream))                                          \
  X(stream_synchronize, "cuStreamSynchronize", Result(Stream))                                     \
  X(stream_query, "cuStreamQuery", Result(Stream))                                                 \
  X(stream_wait_value, "cuStreamWaitValue64_v2",                                                   \
    Result(Stream, DevicePointer, std::uint64_t, unsigned))                                        \
  X(stream_write_value, "cuStreamWriteValue64_v2",                                                 \
    Result(Stream, DevicePointer, std::uint64_t, unsigned))                                        \
  X(event_create, "cuEventCreate", Result(NativeEvent*, unsigned))                                 \
  X(event_destroy, "cuEventDestroy_v2", Result(NativeEvent))                                       \
  X(event_record, "cuEventRecord", Result(NativeEvent, Stream))                                    \
  X(event_synchronize, "cuEventSynchronize", Result(NativeEvent))                                  \
  X(event_elapsed_time, "cuEventElapsedTime", Result(float*, NativeEvent, NativeEvent))            \
  X(context_get, "cuCtxGetCurrent", Result(Context*))                                              \
  X(context_set, "cuCtxSetCurrent", Result(Context))                                               \
  X(stream_priority_range, "cuCtxGetStreamPriorityRange", Result(int*, int*))                      \
  X(stream_host_function, "cuLaunchHostFunc", Result(Stream, void (*)(void*), void*))              \
  X(fill16_async, "cuMemsetD16Async", Result(DevicePointer, unsigned short, std::size_t, Stream))  \
  X(fill32_async, "cuMemsetD32Async", Result(DevicePointer, unsigned, std::size_t, Stream))        \
  X(fill32_rows_async, "cuMemsetD2D32Async",                                                       \
    Result(DevicePointer, std::size_t, unsigned, std::size_t, std::size_t, Stream))                \
  X(module_load, "cuModuleLoadDataEx", Result(NativeModule*, const void*, unsigned, int*, void**)) \
  X(module_unload, "cuModuleUnload", Result(NativeModule))                                         \
  X(module_function, "cuModuleGetFunction", Result(NativeFunction*, NativeModule, const char*))    \
  X(module_global, "cuModuleGetGlobal_v2",                                                         \
    Result(DevicePointer*, std::size_t*, NativeModule, const char*))                               \
  X(function_attribute, "cuFuncGetAttribute", Result(int*, int, NativeFunction))                   \
  X(function_set_attribute, "cuFuncSetAttribute", Result(NativeFunction, int, int))                \
  X(launch, "cuLaunchKernelEx", Result(const NativeLaunchConfig*, NativeFunction, void**, void**)) \
  X(occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                                      \
    Result(int*, NativeFunction, int, std::size_t))                                                \
  X(graph_create, "cuGraphCreate", Result(NativeGraph*, unsigned))                                 \
  X(graph_destroy, "cuGraphDestroy", Result(NativeGraph))                                          \
  X(graph_add_kernel, "cuGraphAddKernelNode_v2",                                                   \
    Result(NativeGraphNode*, NativeGraph, const NativeGraphNode*, std::size_t,                     \
           const KernelNodeParams*))                                                               \
  X(graph_add_copy, "cuGraphAddMemcpyNode",                                                        \
    Result(NativeGraphNode*, NativeGraph, const NativeGraphNode*, std::size_t,                     \
           const CopyNodeParams*, Context))                                                        \
  X(graph_add_fill, "cuGraphAddMemsetNode",                                                        \
    Result(NativeGraphNode*, NativeGraph, const NativeGraphNode*, std::size_t,                     \
           const FillNodeParams*, Context))                                                        \
  X(graph_add_empty, "cuGraphAddEmptyNode",                                                        \
    Result(NativeGraphNode*, NativeGraph, const NativeGraphNode*, std::size_t))                    \
  X(graph_instantiate, "cuGraphInstantiateWithFlags",                                              \
    Result(NativeGraphExec*, NativeGraph, std::uint64_t))                                          \
  X(graph_launch, "cuGraphLaunch", Result(NativeGraphExec, Stream))                                \
  X(graph_exec_destroy, "cuGraphExecDestroy", Result(NativeGraphExec))

// Those a driver may lack; then they are null.
#define KILN_CUDA_OPTIONAL_ENTRY_POINTS(X)                                                    \
  X(device_graph_memory_attribute, "cuDeviceGetGraphMemAttribute",                            \
    Result(DeviceNumber, int, void*))                                                         \
  X(function_parameter, "cuFuncGetParamInfo",                                                 \
    Result(NativeFunction, std::size_t, std::size_t*, std::size_t*))                          \
  X(graph_set_kernel_attribute, "cuGraphKernelNodeSetAttribute",                              \
    Result(NativeGraphNode, int, const unsigned char*))                                       \
  X(memory_create, "cuMemCreate",                                                             \
    Result(MemoryHandle*, std::size_t, const AllocationProperties*, std::uint64_t))           \
  X(memory_handle_release, "cuMemRelease", Result(MemoryHandle))                              \
  X(address_reserve, "cuMemAddressReserve",                                                   \
    Result(DevicePointer*, std::size_t, std::size_t, DevicePointer, std::uint64_t))           \
  X(address_free, "cuMemAddressFree", Result(DevicePointer, std::size_t))                     \
  X(memory_map, "cuMemMap",                                                                   \
    Result(DevicePointer, std::size_t, std::size_t, MemoryHandle, std::uint64_t))             \
  X(memory_unmap, "cuMemUnmap", Result(DevicePointer, std::size_t))                           \
  X(memory_set_access, "cuMemSetAccess",                                                      \
    Result(DevicePointer, std::size_t, const AccessDescription*, std::size_t))                \
  X(multicast_create, "cuMulticastCreate", Result(MemoryHandle*, const MulticastProperties*)) \
  X(multicast_add_device, "cuMulticastAddDevice", Result(MemoryHandle, DeviceNumber))         \
  X(multicast_bind, "cuMulticastBindMem",                                                     \
    Result(MemoryHandle, std::size_t, MemoryHandle, std::size_t, std::size_t, std::uint64_t)) \
  X(multicast_granularity, "cuMulticastGetGranularity",                                       \
    Result(std::size_t*, const MulticastProperties*, unsigned))

/// The opened driver library.
struct Library {
  template <typename Function>
  using Pointer = Function*;
#define KILN_CUDA_MEMBER(name, symbol, ...) Pointer<__VA_ARGS__> name = nullptr;
  KILN_CUDA_ENTRY_POINTS(KILN_CUDA_MEMBER)
  KILN_CUDA_OPTIONAL_ENTRY_POINTS(KILN_CUDA_MEMBER)
#undef KILN_CUDA_MEMBER
};

/// The driver, opened and initialised on the first call: `libcuda.so.1`, or the file that
/// KILN_CUDA_DRIVER names. Null when it cannot be used; `why_unavailable` tells why, in a sentence.
const Library* find_library();
const std::string& why_unavailable();
/// The driver of a device that was opened.
const Library& library();

/// "CUDA_ERROR_INVALID_VALUE (1): invalid argument".
std::string describe(Result result);
/// Another result than success: RuntimeError that names the call and the device, -1 for none.
void check(Result result, std::string_view call, int device = -1);

/// Makes a context the current one of this thread while it lives.
class ContextScope {
 public:
  explicit ContextScope(Context context) {
    Context present = nullptr;
    if (library().context_get(&present) == kSuccess && present == context) return;
    check(library().context_push(context), "cuCtxPushCurrent");
    pushed_ = true;
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  ~ContextScope() {
    if (!pushed_) return;
    Context ignored = nullptr;
    library().context_pop(&ignored);
  }

 private:
  bool pushed_ = false;
};

}  // namespace kiln::driver::cuda
