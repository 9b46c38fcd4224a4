// Several devices on one task: a ring through peer memory, and multicast.

__device__ void signal(int* flag, int value) {
  asm volatile("st.release.sys.global.b32 [%0], %1;" ::"l"(__cvta_generic_to_global(flag)),
               "r"(value)
               : "memory");
}
__device__ void await(const int* flag, int value) {
  int seen;
  do {
    asm volatile("ld.acquire.sys.global.b32 %0, [%1];"
                 : "=r"(seen)
                 : "l"(__cvta_generic_to_global(flag))
                 : "memory");
  } while (seen < value);
}

// One block a device. `count` numbers are a multiple of `devices`; a device adds what comes from
// the left into its own array and hands a chunk to the right, then the whole sums go around.
extern "C" __global__ void ring_all_reduce(float* own, float* right_inbox, const float* inbox,
                                           int* right_flag, const int* flag, int* left_taken,
                                           const int* taken, int rank, int devices, int count) {
  const int chunk = count / devices;
  for (int step = 0; step < 2 * (devices - 1); ++step) {
    const bool adding = step < devices - 1;
    const int turn = adding ? step : step - (devices - 1) - 1;
    const int send = ((rank - turn) % devices + devices) % devices;
    const int receive = ((rank - turn - 1) % devices + devices) % devices;
    if (threadIdx.x == 0 && step > 0) await(taken, step);
    __syncthreads();
    for (int i = threadIdx.x; i < chunk; i += blockDim.x) right_inbox[i] = own[send * chunk + i];
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) {
      signal(right_flag, step + 1);
      await(flag, step + 1);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < chunk; i += blockDim.x) {
      float* to = &own[receive * chunk + i];
      const float value = ((volatile const float*)inbox)[i];
      *to = adding ? *to + value : value;
    }
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) signal(left_taken, step + 1);
  }
}

// All devices run this; `shared` is the multicast address of the array that each has. A device
// adds up its part of all replicas and writes the sums into all of them.
extern "C" __global__ void multicast_all_reduce(float* shared, unsigned* arrivals,
                                                const unsigned* own_arrivals, int rank, int devices,
                                                int count) {
  const auto meet = [&](unsigned expected) {
    __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile("multimem.red.release.sys.global.add.u32 [%0], 1;" ::"l"(
                       __cvta_generic_to_global(arrivals))
                   : "memory");
      unsigned seen;
      do {
        asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
                     : "=r"(seen)
                     : "l"(__cvta_generic_to_global(own_arrivals))
                     : "memory");
      } while (seen < expected);
    }
    __syncthreads();
  };
  meet(gridDim.x * devices);
  const int quads = count / 4;
  const int stride = devices * gridDim.x * blockDim.x;
  for (int i = (rank * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x; i < quads; i += stride) {
    float4 sum;
    const size_t address = __cvta_generic_to_global(shared + 4 * i);
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(sum.x), "=f"(sum.y), "=f"(sum.z), "=f"(sum.w)
                 : "l"(address)
                 : "memory");
    asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(address),
                 "f"(sum.x), "f"(sum.y), "f"(sum.z), "f"(sum.w)
                 : "memory");
  }
  meet(2 * gridDim.x * devices);
}

// Other types of multimem: integers, minima, pairs of halves.
extern "C" __global__ void multicast_kinds(unsigned* words, unsigned long long* longs,
                                           unsigned* halves, long long* out) {
  unsigned word;
  unsigned long long number;
  const size_t at = __cvta_generic_to_global(words);
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.u32 %0, [%1];" : "=r"(word) : "l"(at));
  out[0] = word;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.min.s32 %0, [%1];" : "=r"(word) : "l"(at));
  out[1] = (int)word;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.or.b32 %0, [%1];" : "=r"(word) : "l"(at));
  out[2] = word;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.u64 %0, [%1];"
               : "=l"(number)
               : "l"(__cvta_generic_to_global(longs)));
  out[3] = number;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f16x2 %0, [%1];"
               : "=r"(word)
               : "l"(__cvta_generic_to_global(halves)));
  out[4] = word;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.max.bf16x2 %0, [%1];"
               : "=r"(word)
               : "l"(__cvta_generic_to_global(halves + 1)));
  out[5] = word;
  asm volatile("multimem.red.relaxed.sys.global.max.u32 [%0], %1;" ::"l"(at + 4), "r"(1000u));
  asm volatile("multimem.st.relaxed.sys.global.u32 [%0], %1;" ::"l"(at + 8), "r"(4242u));
}
