// What the language can do besides arithmetic: calls, tables, memory of every kind, printing.
#include <cassert>
#include <cstdio>

extern "C" __global__ void print_lines(int count, double real, const char* text) {
  if (threadIdx.x < count) {
    printf("thread %d of %u: %s %.3f %c %lld %x %%\n", threadIdx.x, blockDim.x, text, real,
           'a' + threadIdx.x, -5000000000ll, 48879u);
  }
}

__device__ __noinline__ unsigned fibonacci(unsigned n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

extern "C" __global__ void recursion(unsigned* out) {
  out[threadIdx.x] = fibonacci(threadIdx.x);
}

// Depth differs by thread, and each level has memory of its own.
__device__ __noinline__ int descend(int depth, int* total) {
  int own[4];
  for (int i = 0; i < 4; ++i) own[i] = depth * 4 + i;
  if (depth == 0) return *total;
  *total += own[depth % 4];
  const int below = descend(depth - 1, total);
  return below + own[(depth + 1) % 4];
}

extern "C" __global__ void recursion_memory(int* out) {
  int total = 0;
  out[threadIdx.x] = descend(threadIdx.x % 17, &total) * 1000 + total;
}

// A recursion that waits: each level meets the whole block.
__device__ __noinline__ int meet(int depth, int* slots) {
  if (depth == 0) return slots[(threadIdx.x + 1) % blockDim.x];
  slots[threadIdx.x] += depth;
  __syncthreads();
  return meet(depth - 1, slots) + depth;
}

extern "C" __global__ void recursion_barrier(int* out, int depth) {
  __shared__ int slots[128];
  slots[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = meet(depth, slots);
}

__device__ __noinline__ int add_one(int x) { return x + 1; }
__device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ __noinline__ int square(int x) { return x * x; }
__device__ __noinline__ int minus(int x) { return -x; }
using Step = int (*)(int);
__device__ Step steps[4] = {add_one, twice, square, minus};

extern "C" __global__ void indirect_calls(const int* which, int* out, int count) {
  int value = threadIdx.x + 1;
  for (int i = 0; i < count; ++i) value = steps[which[i] ^ (threadIdx.x & 1)](value);
  out[threadIdx.x] = value;
}

__device__ __noinline__ int wait_then(int x) {
  __syncthreads();
  return x + 1;
}
__device__ __noinline__ int wait_and_vote(int x) { return x + __syncthreads_count(x & 1); }
__device__ Step waits[2] = {wait_then, wait_and_vote};

extern "C" __global__ void indirect_barrier(int* out, int which) {
  out[threadIdx.x] = waits[which](threadIdx.x) + waits[1 - which](threadIdx.x);
}

struct Shape {
  __device__ virtual float area() const = 0;
};
struct Square : Shape {
  float side;
  __device__ Square(float side) : side(side) {}
  __device__ float area() const override { return side * side; }
};
struct Disc : Shape {
  float radius;
  __device__ Disc(float radius) : radius(radius) {}
  __device__ float area() const override { return 3.0f * radius * radius; }
};

extern "C" __global__ void virtual_calls(float* out) {
  Square square(threadIdx.x);
  Disc disc(threadIdx.x);
  const Shape* shapes[2] = {&square, &disc};
  out[threadIdx.x] = shapes[threadIdx.x % 2]->area();
}

__constant__ int primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};
__constant__ double scale = 0.5;
__device__ int table[2][3] = {{1, 2, 3}, {-4, -5, -6}};
__device__ float one_third = 1.0f / 3;
__device__ const char* words[3] = {"zero", "one", "two"};
__device__ int target = 99;
__device__ int* pointer = &target;
__device__ int* inside = &table[1][1];
struct Record {
  char tag;
  double weight;
  const int* of;
  unsigned short rest[3];
};
__device__ Record record = {'k', 2.25, &table[0][2], {1, 2, 3}};
__device__ int zeros[5];

extern "C" __global__ void variables(double* out) {
  const int i = threadIdx.x;
  out[0] = primes[i + 3];
  out[1] = scale;
  out[2] = table[i + 1][i + 2];
  out[3] = one_third;
  out[4] = words[i + 1][i + 1];
  out[5] = *pointer;
  out[6] = *inside;
  out[7] = record.tag;
  out[8] = record.weight;
  out[9] = *record.of;
  out[10] = record.rest[i + 2];
  out[11] = zeros[i + 4];
  zeros[i + 4] = 5;
  target = 100;
}

// An array that only memory can hold, read at places known late.
extern "C" __global__ void local_array(const int* places, int* out, int count) {
  int values[64];
  for (int i = 0; i < 64; ++i) values[i] = i * threadIdx.x;
  for (int i = 0; i < count; ++i) {
    values[places[i]] += values[places[(i + 1) % count]];
  }
  int sum = 0;
  for (int i = 0; i < 64; ++i) sum += values[i] * (i + 1);
  out[threadIdx.x] = sum;
}

// Two arrays of different types in the shared memory that a launch asks for.
extern "C" __global__ void dynamic_shared(const double* in, double* out, int doubles) {
  extern __shared__ __align__(16) char bytes[];
  double* first = reinterpret_cast<double*>(bytes);
  short* second = reinterpret_cast<short*>(bytes + doubles * sizeof(double));
  for (int i = threadIdx.x; i < doubles; i += blockDim.x) {
    first[i] = in[i];
    second[i] = static_cast<short>(i);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < doubles; i += blockDim.x) {
    out[i] = first[doubles - 1 - i] + second[doubles - 1 - i];
  }
}

extern "C" __global__ void choices(const int* in, int* out) {
  const int x = in[threadIdx.x];
  int y;
  switch (x) {
    case 0: y = 7; break;
    case 1: y = x * 3 + 1; break;
    case 2: y = x * x * x; break;
    case 3: y = -x; break;
    case 4: y = x ^ 0x55; break;
    case 5: y = 1000 / (x + 1); break;
    case 6: y = x << 9; break;
    case 9: y = threadIdx.x; break;
    default: y = -1;
  }
  out[threadIdx.x] = y;
}

// Loops of different length in one warp, with breaks, then all together again.
extern "C" __global__ void divergence(const unsigned* in, unsigned* out) {
  unsigned x = in[threadIdx.x], count = 0;
  while (x != 1) {
    x = x % 2 == 0 ? x / 2 : 3 * x + 1;
    if (++count == 1000) break;
  }
  const unsigned most = __reduce_max_sync(0xffffffff, count);
  out[threadIdx.x] = count | most << 16;
}

extern "C" __global__ void assertion(int* out, int limit) {
  assert(threadIdx.x < limit && "the thread is beyond the limit");
  out[threadIdx.x] = 1;
}

extern "C" __global__ void trap_at(int* out, int which) {
  if (threadIdx.x == which) __trap();
  out[threadIdx.x] = 1;
}

extern "C" __global__ void out_of_bounds(int* out, long long offset) { out[offset] = 1; }

extern "C" __global__ void misaligned(char* out) { *reinterpret_cast<int*>(out + 2) = 1; }

struct Big {
  int values[20];
};
__device__ __noinline__ Big shifted(Big big, int by) {
  Big result;
  for (int i = 0; i < 20; ++i) result.values[i] = big.values[(i + by) % 20] + by;
  return result;
}

extern "C" __global__ void structures(const Big* in, Big* out, int by) {
  out[threadIdx.x] = shifted(in[threadIdx.x], by + threadIdx.x);
}

extern "C" __global__ void allocate_local(int* out, int count) {
  int* values = static_cast<int*>(__builtin_alloca(count * sizeof(int)));
  for (int i = 0; i < count; ++i) values[i] = i + threadIdx.x;
  int sum = 0;
  for (int i = count - 1; i >= 0; --i) sum = sum * 3 + values[i];
  out[threadIdx.x] = sum;
}
