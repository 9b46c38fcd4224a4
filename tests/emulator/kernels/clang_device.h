#pragma once

// The few words of CUDA's dialect that clang needs to know for the kernels here, without headers
// of the toolkit.

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

__device__ inline unsigned thread_x() { return __nvvm_read_ptx_sreg_tid_x(); }
__device__ inline unsigned thread_y() { return __nvvm_read_ptx_sreg_tid_y(); }
__device__ inline unsigned threads_x() { return __nvvm_read_ptx_sreg_ntid_x(); }
__device__ inline unsigned block_x() { return __nvvm_read_ptx_sreg_ctaid_x(); }
__device__ inline unsigned block_y() { return __nvvm_read_ptx_sreg_ctaid_y(); }
__device__ inline unsigned blocks_x() { return __nvvm_read_ptx_sreg_nctaid_x(); }
__device__ inline unsigned global_x() { return block_x() * threads_x() + thread_x(); }
__device__ inline void barrier() { __nvvm_bar_sync(0); }

extern "C" __device__ int vprintf(const char* format, void* arguments);
