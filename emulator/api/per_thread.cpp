// The forms of entry points for programs compiled with a default stream for each thread: a null
// stream means the calling thread's instead of the legacy one. Nothing else differs.

#include "emulator/api/copy.h"
#include "emulator/api/copy_box.h"
#include "emulator/api/fill.h"

using namespace kiln::emulator;

namespace {

const auto kPerThread = reinterpret_cast<CUstream>(CU_STREAM_PER_THREAD);

CUstream per_thread(CUstream stream) { return stream == nullptr ? kPerThread : stream; }

}  // namespace

CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) {
  return cuEventRecord(event, per_thread(stream));
}

CUresult cuEventRecordWithFlags_ptsz(CUevent handle, CUstream stream_handle, unsigned flags) {
  return cuEventRecordWithFlags(handle, per_thread(stream_handle), flags);
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* exec, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return cuGraphInstantiateWithParams(exec, graph, parameters);
}

CUresult cuGraphLaunch_ptsz(CUgraphExec handle, CUstream stream_handle) {
  return cuGraphLaunch(handle, per_thread(stream_handle));
}

CUresult cuGraphUpload_ptsz(CUgraphExec handle, CUstream stream_handle) {
  return cuGraphUpload(handle, per_thread(stream_handle));
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned grid_x, unsigned grid_y,
                                        unsigned grid_z, unsigned block_x, unsigned block_y,
                                        unsigned block_z, unsigned shared, CUstream stream,
                                        void** parameters) {
  return cuLaunchCooperativeKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                   shared, per_thread(stream), parameters);
}

CUresult cuLaunchHostFunc_ptsz(CUstream handle, CUhostFn function, void* user_data) {
  return cuLaunchHostFunc(per_thread(handle), function, user_data);
}

CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                             CUstream stream, void** parameters, void** extra) {
  return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared,
                        per_thread(stream), parameters, extra);
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction function, void** parameters,
                               void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUlaunchConfig changed = *config;
  changed.hStream = per_thread(config->hStream);
  return cuLaunchKernelEx(&changed, function, parameters, extra);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr* address, std::size_t bytes, CUstream handle) {
  return cuMemAllocAsync(address, bytes, per_thread(handle));
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* address, std::size_t bytes,
                                      CUmemoryPool pool_handle, CUstream handle) {
  return cuMemAllocFromPoolAsync(address, bytes, pool_handle, per_thread(handle));
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream handle) {
  return cuMemFreeAsync(address, per_thread(handle));
}

CUresult cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy_any(kPerThread, to, from, bytes, true);
}

CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D* rectangle, CUstream stream) {
  return cuMemcpy2DAsync_v2(rectangle, per_thread(stream));
}

CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D* rectangle) {
  return copy_rectangle(kPerThread, rectangle, true);
}

CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D* rectangle) {
  return copy_rectangle(kPerThread, rectangle, true);
}

CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D* box, CUstream stream) {
  return cuMemcpy3DAsync_v2(box, per_thread(stream));
}

CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D* box) { return copy_box(kPerThread, box, true); }

CUresult cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return cuMemcpyAsync(to, from, bytes, per_thread(stream));
}

CUresult cuMemcpyBatchAsync_ptsz(CUdeviceptr* to, CUdeviceptr* from, std::size_t* bytes,
                                 std::size_t count, CUmemcpyAttributes* attributes,
                                 std::size_t* attribute_starts, std::size_t num_attributes,
                                 std::size_t* failed, CUstream stream) {
  return cuMemcpyBatchAsync(to, from, bytes, count, attributes, attribute_starts, num_attributes,
                            failed, per_thread(stream));
}

CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr* to, CUdeviceptr* from, std::size_t* bytes,
                                    std::size_t count, CUmemcpyAttributes* attributes,
                                    std::size_t* attribute_starts, std::size_t num_attributes,
                                    CUstream stream) {
  return cuMemcpyBatchAsync_v2(to, from, bytes, count, attributes, attribute_starts, num_attributes,
                               per_thread(stream));
}

CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                                   CUstream stream) {
  return cuMemcpyDtoDAsync_v2(to, from, bytes, per_thread(stream));
}

CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy_on_device(kPerThread, to, from, bytes, true);
}

CUresult cuMemcpyDtoHAsync_v2_ptsz(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return cuMemcpyDtoHAsync_v2(to, from, bytes, per_thread(stream));
}

CUresult cuMemcpyDtoH_v2_ptds(void* to, CUdeviceptr from, std::size_t bytes) {
  return copy_to_host(kPerThread, to, from, bytes, true);
}

CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void* from, std::size_t bytes,
                                   CUstream stream) {
  return cuMemcpyHtoDAsync_v2(to, from, bytes, per_thread(stream));
}

CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void* from, std::size_t bytes) {
  return copy_to_device(kPerThread, to, from, bytes, true);
}

CUresult cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, std::size_t bytes) {
  return copy_peer(kPerThread, to, to_context, from, from_context, bytes, true);
}

CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                CUcontext from_context, std::size_t bytes, CUstream stream) {
  return cuMemcpyPeerAsync(to, to_context, from, from_context, bytes, per_thread(stream));
}

CUresult cuMemsetD16Async_ptsz(CUdeviceptr to, unsigned short value, std::size_t count,
                               CUstream stream) {
  return cuMemsetD16Async(to, value, count, per_thread(stream));
}

CUresult cuMemsetD16_v2_ptds(CUdeviceptr to, unsigned short value, std::size_t count) {
  return fill(kPerThread, {to, value, 2, count}, true);
}

CUresult cuMemsetD2D16Async_ptsz(CUdeviceptr to, std::size_t pitch, unsigned short value,
                                 std::size_t width, std::size_t height, CUstream stream) {
  return cuMemsetD2D16Async(to, pitch, value, width, height, per_thread(stream));
}

CUresult cuMemsetD2D16_v2_ptds(CUdeviceptr to, std::size_t pitch, unsigned short value,
                               std::size_t width, std::size_t height) {
  return fill(kPerThread, {to, value, 2, width, height, pitch}, true);
}

CUresult cuMemsetD2D32Async_ptsz(CUdeviceptr to, std::size_t pitch, unsigned value,
                                 std::size_t width, std::size_t height, CUstream stream) {
  return cuMemsetD2D32Async(to, pitch, value, width, height, per_thread(stream));
}

CUresult cuMemsetD2D32_v2_ptds(CUdeviceptr to, std::size_t pitch, unsigned value, std::size_t width,
                               std::size_t height) {
  return fill(kPerThread, {to, value, 4, width, height, pitch}, true);
}

CUresult cuMemsetD2D8Async_ptsz(CUdeviceptr to, std::size_t pitch, unsigned char value,
                                std::size_t width, std::size_t height, CUstream stream) {
  return cuMemsetD2D8Async(to, pitch, value, width, height, per_thread(stream));
}

CUresult cuMemsetD2D8_v2_ptds(CUdeviceptr to, std::size_t pitch, unsigned char value,
                              std::size_t width, std::size_t height) {
  return fill(kPerThread, {to, value, 1, width, height, pitch}, true);
}

CUresult cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned value, std::size_t count, CUstream stream) {
  return cuMemsetD32Async(to, value, count, per_thread(stream));
}

CUresult cuMemsetD32_v2_ptds(CUdeviceptr to, unsigned value, std::size_t count) {
  return fill(kPerThread, {to, value, 4, count}, true);
}

CUresult cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char value, std::size_t count,
                              CUstream stream) {
  return cuMemsetD8Async(to, value, count, per_thread(stream));
}

CUresult cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, std::size_t count) {
  return fill(kPerThread, {to, value, 1, count}, true);
}

CUresult cuStreamAddCallback_ptsz(CUstream handle, CUstreamCallback callback, void* user_data,
                                  unsigned flags) {
  return cuStreamAddCallback(per_thread(handle), callback, user_data, flags);
}

CUresult cuStreamBatchMemOp_v2_ptsz(CUstream handle, unsigned count, CUstreamBatchMemOpParams* list,
                                    unsigned flags) {
  return cuStreamBatchMemOp_v2(per_thread(handle), count, list, flags);
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream handle, CUgraph graph_handle,
                                          const CUgraphNode* dependencies,
                                          const CUgraphEdgeData* edges, std::size_t count,
                                          CUstreamCaptureMode mode) {
  return cuStreamBeginCaptureToGraph(per_thread(handle), graph_handle, dependencies, edges, count,
                                     mode);
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream handle, CUstreamCaptureMode mode) {
  return cuStreamBeginCapture_v2(per_thread(handle), mode);
}

CUresult cuStreamEndCapture_ptsz(CUstream handle, CUgraph* graph) {
  return cuStreamEndCapture(per_thread(handle), graph);
}

CUresult cuStreamGetCaptureInfo_ptsz(CUstream handle, CUstreamCaptureStatus* status,
                                     std::uint64_t* id) {
  return cuStreamGetCaptureInfo(per_thread(handle), status, id);
}

CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream handle, CUstreamCaptureStatus* status,
                                        std::uint64_t* id, CUgraph* graph,
                                        const CUgraphNode** dependencies, std::size_t* count) {
  return cuStreamGetCaptureInfo_v2(per_thread(handle), status, id, graph, dependencies, count);
}

CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream handle, CUstreamCaptureStatus* status,
                                        std::uint64_t* id, CUgraph* graph,
                                        const CUgraphNode** dependencies,
                                        const CUgraphEdgeData** edges, std::size_t* count) {
  return cuStreamGetCaptureInfo_v3(per_thread(handle), status, id, graph, dependencies, edges,
                                   count);
}

CUresult cuStreamGetCtx_ptsz(CUstream handle, CUcontext* answer) {
  return cuStreamGetCtx(per_thread(handle), answer);
}

CUresult cuStreamGetCtx_v2_ptsz(CUstream handle, CUcontext* context, CUgreenCtx* green) {
  return cuStreamGetCtx_v2(per_thread(handle), context, green);
}

CUresult cuStreamGetFlags_ptsz(CUstream handle, unsigned* flags) {
  return cuStreamGetFlags(per_thread(handle), flags);
}

CUresult cuStreamGetId_ptsz(CUstream handle, unsigned long long* id) {
  return cuStreamGetId(per_thread(handle), id);
}

CUresult cuStreamGetPriority_ptsz(CUstream handle, int* priority) {
  return cuStreamGetPriority(per_thread(handle), priority);
}

CUresult cuStreamIsCapturing_ptsz(CUstream handle, CUstreamCaptureStatus* status) {
  return cuStreamIsCapturing(per_thread(handle), status);
}

CUresult cuStreamQuery_ptsz(CUstream handle) { return cuStreamQuery(per_thread(handle)); }

CUresult cuStreamSynchronize_ptsz(CUstream handle) {
  return cuStreamSynchronize(per_thread(handle));
}

CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream handle, CUgraphNode* list,
                                                std::size_t count, unsigned flags) {
  return cuStreamUpdateCaptureDependencies(per_thread(handle), list, count, flags);
}

CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream handle, CUgraphNode* list,
                                                   const CUgraphEdgeData* edges, std::size_t count,
                                                   unsigned flags) {
  return cuStreamUpdateCaptureDependencies_v2(per_thread(handle), list, edges, count, flags);
}

CUresult cuStreamWaitEvent_ptsz(CUstream stream_handle, CUevent handle, unsigned flags) {
  return cuStreamWaitEvent(per_thread(stream_handle), handle, flags);
}

CUresult cuStreamWaitValue32_v2_ptsz(CUstream stream, CUdeviceptr address, std::uint32_t value,
                                     unsigned flags) {
  return cuStreamWaitValue32_v2(per_thread(stream), address, value, flags);
}

CUresult cuStreamWaitValue64_v2_ptsz(CUstream stream, CUdeviceptr address, std::uint64_t value,
                                     unsigned flags) {
  return cuStreamWaitValue64_v2(per_thread(stream), address, value, flags);
}

CUresult cuStreamWriteValue32_v2_ptsz(CUstream stream, CUdeviceptr address, std::uint32_t value,
                                      unsigned flags) {
  return cuStreamWriteValue32_v2(per_thread(stream), address, value, flags);
}

CUresult cuStreamWriteValue64_v2_ptsz(CUstream stream, CUdeviceptr address, std::uint64_t value,
                                      unsigned flags) {
  return cuStreamWriteValue64_v2(per_thread(stream), address, value, flags);
}
