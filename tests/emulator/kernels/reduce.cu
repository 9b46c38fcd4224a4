// Sums, scans and sorts of a block, and of a grid that waits for itself.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

extern "C" __global__ void sum_shared(const float* in, float* out, int n) {
  extern __shared__ float partial[];
  const int thread = threadIdx.x;
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + thread; i < n; i += gridDim.x * blockDim.x) sum += in[i];
  partial[thread] = sum;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (thread < half) partial[thread] += partial[thread + half];
    __syncthreads();
  }
  if (thread == 0) out[blockIdx.x] = partial[0];
}

__device__ int warp_sum(int value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_down_sync(0xffffffff, value, offset);
  }
  return value;
}

extern "C" __global__ void sum_shuffle(const int* in, long long* out, int n) {
  __shared__ int warps[32];
  int value = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    value += in[i];
  }
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x < 32) {
    value = warp_sum(threadIdx.x < (blockDim.x + 31) / 32 ? warps[threadIdx.x] : 0);
    if (threadIdx.x == 0) atomicAdd((unsigned long long*)out, (unsigned long long)(long long)value);
  }
}

extern "C" __global__ void sum_atomic(const unsigned* in, unsigned* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(out, in[i]);
}

// All blocks add, the last one to end knows the whole: the fence makes their parts visible.
__device__ unsigned finished;
extern "C" __global__ void sum_last_block(const double* in, double* parts, double* out, int n) {
  __shared__ double partial[256];
  __shared__ bool last;
  double sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    sum += in[i];
  }
  partial[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    double whole = 0;
    for (int i = 0; i < blockDim.x; ++i) whole += partial[i];
    parts[blockIdx.x] = whole;
    __threadfence();
    last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    double whole = 0;
    for (int i = 0; i < gridDim.x; ++i) whole += ((volatile double*)parts)[i];
    *out = whole;
  }
}

extern "C" __global__ void sum_grid(const int* in, int* parts, int* out, int n) {
  cg::grid_group grid = cg::this_grid();
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block);
  int value = 0;
  for (int i = grid.thread_rank(); i < n; i += grid.size()) value += in[i];
  for (int offset = tile.size() / 2; offset > 0; offset /= 2) value += tile.shfl_down(value, offset);
  if (tile.thread_rank() == 0) atomicAdd(&parts[blockIdx.x], value);
  grid.sync();
  for (int stride = 1; stride < gridDim.x; stride *= 2) {
    const int other = blockIdx.x + stride;
    if (block.thread_rank() == 0 && blockIdx.x % (2 * stride) == 0 && other < gridDim.x) {
      parts[blockIdx.x] += ((volatile int*)parts)[other];
    }
    grid.sync();
  }
  if (grid.thread_rank() == 0) *out = parts[0];
}

// The sums before each element, of one block of up to 1024 threads with two elements each.
extern "C" __global__ void scan_block(const int* in, int* out, int n) {
  __shared__ int values[2048];
  const int thread = threadIdx.x, count = 2 * blockDim.x;
  values[2 * thread] = 2 * thread < n ? in[2 * thread] : 0;
  values[2 * thread + 1] = 2 * thread + 1 < n ? in[2 * thread + 1] : 0;
  int offset = 1;
  for (int d = count >> 1; d > 0; d >>= 1) {
    __syncthreads();
    if (thread < d) {
      values[offset * (2 * thread + 2) - 1] += values[offset * (2 * thread + 1) - 1];
    }
    offset *= 2;
  }
  if (thread == 0) values[count - 1] = 0;
  for (int d = 1; d < count; d *= 2) {
    offset >>= 1;
    __syncthreads();
    if (thread < d) {
      const int left = offset * (2 * thread + 1) - 1, right = offset * (2 * thread + 2) - 1;
      const int value = values[left];
      values[left] = values[right];
      values[right] += value;
    }
  }
  __syncthreads();
  if (2 * thread < n) out[2 * thread] = values[2 * thread];
  if (2 * thread + 1 < n) out[2 * thread + 1] = values[2 * thread + 1];
}

// Sums of any number of elements in one pass: each block waits for the sum of those before it.
__device__ unsigned next_block;
extern "C" __global__ void scan_chained(const unsigned* in, unsigned* out, volatile unsigned* state,
                                        volatile unsigned* sums, int n) {
  __shared__ unsigned number, before;
  __shared__ unsigned warps[8];
  if (threadIdx.x == 0) number = atomicAdd(&next_block, 1u);
  __syncthreads();
  const int i = number * blockDim.x + threadIdx.x;
  const unsigned own = i < n ? in[i] : 0;
  unsigned value = own;
  for (int offset = 1; offset < 32; offset *= 2) {
    const unsigned other = __shfl_up_sync(0xffffffff, value, offset);
    if (threadIdx.x % 32 >= offset) value += other;
  }
  if (threadIdx.x % 32 == 31) warps[threadIdx.x / 32] = value;
  __syncthreads();
  for (int w = 0; w < threadIdx.x / 32; ++w) value += warps[w];
  if (threadIdx.x == blockDim.x - 1) {
    before = 0;
    if (number > 0) {
      while (state[number - 1] == 0) {}
      __threadfence();
      before = sums[number - 1];
    }
    sums[number] = before + value;
    __threadfence();
    state[number] = 1;
  }
  __syncthreads();
  if (i < n) out[i] = before + value - own;
}

// One block sorts up to 4096 keys by four bits a pass: counts, their sums, then moves.
extern "C" __global__ void radix_sort(unsigned* keys, unsigned* values, unsigned* other_keys,
                                      unsigned* other_values, int n) {
  __shared__ unsigned counts[16 * 128 + 1];
  const int threads = blockDim.x, thread = threadIdx.x;
  const int each = (n + threads - 1) / threads;
  const int first = min(thread * each, n), last = min(first + each, n);
  for (int shift = 0; shift < 32; shift += 4) {
    for (int digit = 0; digit < 16; ++digit) counts[digit * threads + thread] = 0;
    for (int i = first; i < last; ++i) ++counts[(keys[i] >> shift & 15) * threads + thread];
    __syncthreads();
    if (thread == 0) {
      unsigned sum = 0;
      for (int i = 0; i < 16 * threads; ++i) {
        const unsigned count = counts[i];
        counts[i] = sum;
        sum += count;
      }
    }
    __syncthreads();
    for (int i = first; i < last; ++i) {
      const unsigned place = counts[(keys[i] >> shift & 15) * threads + thread]++;
      other_keys[place] = keys[i];
      other_values[place] = values[i];
    }
    __syncthreads();
    unsigned* swap = keys;
    keys = other_keys;
    other_keys = swap;
    swap = values;
    values = other_values;
    other_values = swap;
  }
}
