// Kernels as clang writes them: other idioms of PTX than nvcc's for the same language.
#include "clang_device.h"

extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
  const int i = global_x();
  if (i < n) c[i] = a[i] + b[i];
}

extern "C" __global__ void sum_shuffle(const int* in, long long* out, int n) {
  __shared__ int warps[32];
  int value = 0;
  for (int i = global_x(); i < n; i += blocks_x() * threads_x()) value += in[i];
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __nvvm_shfl_sync_down_i32(0xffffffff, value, offset, 31);
  }
  if (thread_x() % 32 == 0) warps[thread_x() / 32] = value;
  barrier();
  if (thread_x() == 0) {
    long long sum = 0;
    for (unsigned i = 0; i < (threads_x() + 31) / 32; ++i) sum += warps[i];
    __nvvm_atom_add_gen_ll(out, sum);
  }
}

extern "C" __global__ void __launch_bounds__(256)
    matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float a_tile[16][16], b_tile[16][16];
  const int x = thread_x(), y = thread_y();
  const int row = block_y() * 16 + y, column = block_x() * 16 + x;
  float sum = 0;
  for (int first = 0; first < n; first += 16) {
    a_tile[y][x] = a[row * n + first + x];
    b_tile[y][x] = b[(first + y) * n + column];
    barrier();
    for (int i = 0; i < 16; ++i) sum += a_tile[y][i] * b_tile[i][x];
    barrier();
  }
  c[row * n + column] = sum;
}

__device__ __attribute__((noinline)) int ackermann(int m, int n) {
  if (m == 0) return n + 1;
  if (n == 0) return ackermann(m - 1, 1);
  return ackermann(m - 1, ackermann(m, n - 1));
}

extern "C" __global__ void recursion(int* out) {
  out[thread_x()] = ackermann(thread_x() % 3, thread_x() / 3);
}

struct Tree {
  const Tree* left;
  const Tree* right;
  int value;
};
__device__ const Tree leaf_a = {nullptr, nullptr, 3};
__device__ const Tree leaf_b = {nullptr, nullptr, 5};
__device__ const Tree inner = {&leaf_a, &leaf_b, 7};
__device__ const Tree tree = {&inner, &leaf_b, 11};

__device__ __attribute__((noinline)) int sum_of(const Tree* tree) {
  return tree ? tree->value + 2 * sum_of(tree->left) + 3 * sum_of(tree->right) : 0;
}

extern "C" __global__ void pointers(int* out) { out[thread_x()] = sum_of(&tree) + thread_x(); }

typedef int (*Operation)(int, int);
__device__ int sum(int a, int b) { return a + b; }
__device__ int difference(int a, int b) { return a - b; }
__device__ int product(int a, int b) { return a * b; }
__constant__ const Operation operations[] = {sum, difference, product};

extern "C" __global__ void indirect_calls(int* out) {
  const int i = thread_x();
  out[i] = operations[i % 3](i, 7);
}

extern "C" __global__ void choices(const int* in, int* out) {
  switch (in[thread_x()]) {
    case 0: out[thread_x()] = 10; break;
    case 1: out[thread_x()] = 20 + in[0]; break;
    case 2: out[thread_x()] = in[0] * in[1]; break;
    case 3: out[thread_x()] = in[1] - 9; break;
    case 4: out[thread_x()] = in[2] / 3; break;
    case 5: out[thread_x()] = in[3] % 4; break;
    default: out[thread_x()] = -1;
  }
}

extern "C" __global__ void half_arithmetic(const _Float16* a, const _Float16* b, _Float16* out,
                                           int n) {
  const int i = global_x();
  if (i < n) out[i] = a[i] * b[i] + (a[i] < b[i] ? (_Float16)1 : -b[i]);
}

extern "C" __global__ void wide_integers(const unsigned long long* a, const unsigned long long* b,
                                         unsigned long long* out, int n) {
  const int i = global_x();
  if (i >= n) return;
  const unsigned __int128 product = (unsigned __int128)a[i] * b[i] + a[i];
  out[2 * i] = (unsigned long long)product;
  out[2 * i + 1] = (unsigned long long)(product >> 64);
}

extern "C" __global__ void bits(const unsigned* a, unsigned* out, int n) {
  const int i = global_x();
  if (i >= n) return;
  const unsigned x = a[i];
  out[6 * i] = __builtin_popcount(x);
  out[6 * i + 1] = x ? __builtin_clz(x) : 32;
  out[6 * i + 2] = __builtin_bitreverse32(x);
  out[6 * i + 3] = x << 7 | x >> 25;
  out[6 * i + 4] = __builtin_bswap32(x);
  out[6 * i + 5] = (int)x / 10 + x % 7;
}

extern "C" __global__ void print_values(int count) {
  if ((int)thread_x() >= count) return;
  struct {
    int thread;
    double half;
    const char* word;
  } arguments = {(int)thread_x(), thread_x() / 2.0, "clang"};
  vprintf("%d: %.2f %s\n", &arguments);
}

extern "C" __global__ void bytes(const unsigned char* in, unsigned char* out, int n) {
  const int i = global_x();
  if (i >= n) return;
  unsigned char local[16];
  __builtin_memcpy(local, in + 16 * i, 16);
  for (int k = 0; k < 16; ++k) out[16 * i + k] = local[(k * 5 + i) % 16] + k;
}

extern "C" __global__ void ordered(int* flag, int* data) {
  if (thread_x() != 0) return;
  if (block_x() == 0) {
    __scoped_atomic_store_n(data, 42, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    __scoped_atomic_store_n(flag, 1, __ATOMIC_RELEASE, __MEMORY_SCOPE_DEVICE);
  } else {
    while (__scoped_atomic_load_n(flag, __ATOMIC_ACQUIRE, __MEMORY_SCOPE_DEVICE) == 0) {}
    const int value = __scoped_atomic_load_n(data, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    __scoped_atomic_fetch_add(data + block_x(), value, __ATOMIC_SEQ_CST, __MEMORY_SCOPE_SYSTEM);
  }
}
