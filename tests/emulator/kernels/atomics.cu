// Many threads on few places.
#include <cuda_fp16.h>

extern "C" __global__ void integer_atomics(const int* in, int* words, unsigned long long* longs,
                                           int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int value = in[i];
  atomicAdd(&words[0], value);
  atomicSub(&words[1], value);
  atomicMin(&words[2], value);
  atomicMax(&words[3], value);
  atomicAnd(&words[4], value | 0x10);
  atomicOr(&words[5], value & 0xff00);
  atomicXor(&words[6], value);
  atomicInc((unsigned*)&words[7], 99);
  atomicDec((unsigned*)&words[8], 49);
  const unsigned long long wide = (unsigned long long)value * 0x100000001ull;
  atomicAdd(&longs[0], wide);
  atomicMax(&longs[1], wide);
  atomicMin((long long*)&longs[2], (long long)value * 4000000000ll);
  atomicXor(&longs[3], wide);
  atomicAnd(&longs[4], wide | 0xf0f);
  atomicOr(&longs[5], wide & 0xff);
}

extern "C" __global__ void float_atomics(const float* in, float* sum, double* wide, half2* halves,
                                         float2* pair, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicAdd(sum, in[i]);
  atomicAdd(wide, (double)in[i]);
  atomicAdd(halves, make_half2(__float2half(1.0f), __float2half(-2.0f)));
  atomicAdd(pair, make_float2(in[i], 1.0f));
}

// A product by compare and swap, and a lock around a sum that is no atomic.
extern "C" __global__ void swap_loops(unsigned* product, int* lock, int* sum, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned old = *product, seen;
  do {
    seen = old;
    old = atomicCAS(product, seen, seen * (2 * i + 1));
  } while (old != seen);
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {}
    __threadfence();
    *(volatile int*)sum = *(volatile int*)sum + i + 1;
    __threadfence();
    atomicExch(lock, 0);
  }
}

// Threads of one warp contend for a lock: those that have it go on while others try.
extern "C" __global__ void warp_lock(int* lock, int* order, int* count) {
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      order[(*(volatile int*)count)++] = threadIdx.x;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}

extern "C" __global__ void shared_atomics(const int* in, int* out, int n) {
  __shared__ int counts[16];
  __shared__ unsigned long long best;
  __shared__ float sum;
  if (threadIdx.x < 16) counts[threadIdx.x] = 0;
  if (threadIdx.x == 0) {
    best = 0;
    sum = 0;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    atomicAdd(&counts[in[i] & 15], 1);
    atomicMax(&best, (unsigned long long)in[i] << 32 | (unsigned)i);
    atomicAdd(&sum, 0.5f);
  }
  __syncthreads();
  if (threadIdx.x < 16) out[threadIdx.x] = counts[threadIdx.x];
  if (threadIdx.x == 0) {
    out[16] = (int)(best >> 32);
    out[17] = (int)best;
    out[18] = (int)sum;
  }
}

// Orders and scopes of the memory model, as libcu++ would write them.
extern "C" __global__ void ordered_atomics(unsigned* ticket, unsigned* serving, unsigned* sum) {
  if (threadIdx.x != 0) return;
  unsigned own, now;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(own)
               : "l"(__cvta_generic_to_global(ticket))
               : "memory");
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                 : "=r"(now)
                 : "l"(__cvta_generic_to_global(serving))
                 : "memory");
  } while (now != own);
  *sum = *sum * 5 + own;
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(__cvta_generic_to_global(serving))
               : "memory");
}
