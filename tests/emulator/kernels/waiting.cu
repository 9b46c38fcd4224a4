// Threads that wait for each other, for copies, for other blocks and for other kernels.
#include <cuda_pipeline.h>

__device__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Blocks of 128 move 16 bytes a thread while they work on what came before.
extern "C" __global__ void copy_pipeline(const float4* in, float* out, int steps) {
  __shared__ float4 stages[3][128];
  const int thread = threadIdx.x;
  for (int i = 0; i < 2; ++i) {
    if (i < steps) __pipeline_memcpy_async(&stages[i][thread], &in[i * 128 + thread], 16);
    __pipeline_commit();
  }
  float sum = 0;
  for (int i = 0; i < steps; ++i) {
    if (i + 2 < steps) {
      __pipeline_memcpy_async(&stages[(i + 2) % 3][thread], &in[(i + 2) * 128 + thread], 16);
    }
    __pipeline_commit();
    __pipeline_wait_prior(2);
    __syncthreads();
    const float4 other = stages[i % 3][127 - thread];
    sum += other.x + 2 * other.y + 3 * other.z + 4 * other.w;
    __syncthreads();
  }
  out[thread] = sum;
}

// Copies of 4 and 8 bytes, and one that fills with zeros what lies beyond.
extern "C" __global__ void copy_small(const int* in, int* out, int n) {
  __shared__ __align__(16) int words[128];
  __shared__ __align__(16) long long pairs[128];
  __shared__ __align__(16) int4 filled[128];
  const int thread = threadIdx.x;
  const int bytes = max(0, min(16, 4 * n - 16 * thread));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(&words[thread])),
               "l"(__cvta_generic_to_global(&in[thread])));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared_address(&pairs[thread])),
               "l"(__cvta_generic_to_global(&in[2 * thread])));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   shared_address(&filled[thread])),
               "l"(__cvta_generic_to_global(&in[4 * thread])), "r"(bytes));
  asm volatile("cp.async.wait_all;" ::: "memory");
  out[thread] = words[thread] + static_cast<int>(pairs[thread] >> 32) * 3 + filled[thread].x * 5 +
                filled[thread].w * 7;
}

// Half of the block makes, half uses; mbarriers tell of full and empty slots.
extern "C" __global__ void produce_consume(const int* in, long long* out, int rounds) {
  __shared__ int slots[2][64];
  __shared__ __align__(8) unsigned long long full[2], empty[2];
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) {
      asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(shared_address(&full[i])));
      asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(shared_address(&empty[i])));
    }
  }
  __syncthreads();
  const auto arrive = [](unsigned long long* barrier) {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(
                     shared_address(barrier))
                 : "memory");
  };
  const auto wait = [](unsigned long long* barrier, unsigned parity) {
    asm volatile(
        "{ .reg .pred done;\n"
        "AGAIN: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
        "@!done bra AGAIN; }" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
  };
  const int thread = threadIdx.x % 64;
  if (threadIdx.x < 64) {
    for (int i = 0; i < rounds; ++i) {
      if (i >= 2) wait(&empty[i % 2], (i / 2 - 1) % 2);
      slots[i % 2][thread] = in[i * 64 + thread];
      arrive(&full[i % 2]);
    }
  } else {
    long long sum = 0;
    for (int i = 0; i < rounds; ++i) {
      wait(&full[i % 2], i / 2 % 2);
      sum = sum * 3 + slots[i % 2][63 - thread];
      arrive(&empty[i % 2]);
    }
    out[thread] = sum;
  }
}

// One thread asks for a whole array in shared memory; the barrier counts the bytes.
extern "C" __global__ void copy_bulk(const int* in, int* out, int count) {
  __shared__ __align__(128) int values[1024];
  __shared__ __align__(8) unsigned long long barrier;
  const unsigned bytes = count * 4;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1; }" ::
                     "r"(shared_address(&barrier)),
                 "r"(bytes)
                 : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(shared_address(values)),
        "l"(__cvta_generic_to_global(in)), "r"(bytes), "r"(shared_address(&barrier))
        : "memory");
  }
  __syncthreads();
  unsigned done = 0;
  while (!done) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(shared_address(&barrier))
        : "memory");
  }
  for (int i = threadIdx.x; i < count; i += blockDim.x) values[i] = values[i] * 2 + 1;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                     __cvta_generic_to_global(out)),
                 "r"(shared_address(values)), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}

// Two named barriers: the halves of a block go their own ways, then hand over.
extern "C" __global__ void named_barriers(int* out, int rounds) {
  __shared__ int values[128];
  const int half = threadIdx.x / 64, thread = threadIdx.x % 64;
  int value = threadIdx.x;
  for (int i = 0; i < rounds + half; ++i) {
    values[threadIdx.x] = value;
    asm volatile("bar.sync %0, 64;" ::"r"(half + 1) : "memory");
    value = values[half * 64 + (thread + 1) % 64] + 1;
    asm volatile("bar.sync %0, 64;" ::"r"(half + 1) : "memory");
  }
  // The first half only arrives, the second waits for both.
  values[threadIdx.x] = value;
  if (half == 0) {
    asm volatile("bar.arrive 5, 128;" ::: "memory");
    out[threadIdx.x] = value;
  } else {
    asm volatile("bar.sync 5, 128;" ::: "memory");
    out[threadIdx.x] = values[thread] * 1000 + value;
  }
}

extern "C" __global__ void reducing_barriers(const int* in, int* out) {
  const int value = in[blockIdx.x * blockDim.x + threadIdx.x];
  const int count = __syncthreads_count(value & 1);
  const int all = __syncthreads_and(value & 2);
  const int any = __syncthreads_or(value & 4);
  out[blockIdx.x * blockDim.x + threadIdx.x] = count * 4 + (all != 0) * 2 + (any != 0);
}

// Warps vote and compare; every lane reports what it learns.
extern "C" __global__ void warp_talk(const unsigned* in, unsigned* out) {
  const unsigned value = in[threadIdx.x];
  unsigned* to = out + threadIdx.x * 10;
  to[0] = __ballot_sync(0xffffffff, value & 1);
  to[1] = __any_sync(0xffffffff, value == 3);
  to[2] = __all_sync(0xffffffff, value < 8);
  to[3] = __match_any_sync(0xffffffff, value);
  int all = 0;
  to[4] = __match_all_sync(0xffffffff, value & 0, &all);
  to[5] = all;
  to[6] = __reduce_add_sync(0xffffffff, value);
  to[7] = __reduce_xor_sync(0xffffffff, value);
  to[8] = __shfl_sync(0xffffffff, value, threadIdx.x * 7 + 3);
  if (value & 1) {
    to[9] = __reduce_min_sync(__activemask(), value + threadIdx.x);
  } else {
    to[9] = __popc(__activemask());
  }
}

// A block waits for the one before it: all must be resident.
extern "C" __global__ void relay(volatile int* flags, int* out) {
  if (threadIdx.x == 0) {
    int value = 0;
    if (blockIdx.x > 0) {
      while ((value = flags[blockIdx.x - 1]) == 0) {}
    }
    out[blockIdx.x] = value * 2 + 1;
    __threadfence();
    flags[blockIdx.x] = value + 1;
  }
}

__device__ int load_acquire(const int* from) {
  int value;
  asm volatile("ld.acquire.sys.b32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
__device__ void store_release(int* to, int value) {
  asm volatile("st.release.sys.b32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

// Two launches of this on two streams throw a ball `rounds` times.
extern "C" __global__ void ping_pong(int* own, int* other, int* data, int first, int rounds) {
  if (threadIdx.x != 0) return;
  for (int i = 1; i <= rounds; ++i) {
    if (first) {
      *data = *data * 3 + i;
      store_release(other, i);
      while (load_acquire(own) < i) __nanosleep(100);
    } else {
      while (load_acquire(own) < i) __nanosleep(100);
      *data = *data + 5;
      store_release(other, i);
    }
  }
}
