// What a source includes without saying so.

#define __kiln_kernel_mark "kiln kernel"
#ifdef __CUDA_ARCH__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#pragma clang force_cuda_host_device begin
#include <kiln/common.cuh>
#include <kiln/device.cuh>
#else
#define __global__ __attribute__((annotate(__kiln_kernel_mark)))
#define __device__
#include <kiln/common.cuh>
#include <kiln/host.cuh>
#endif
#include <kiln/half.cuh>
#include <kiln/math.cuh>
#include <kiln/atomic.cuh>
using namespace kiln::gpu;
#ifdef __CUDA_ARCH__
#include <kiln/cuda.cuh>
#pragma clang force_cuda_host_device end
#endif
