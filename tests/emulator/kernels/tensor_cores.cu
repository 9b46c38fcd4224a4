// Products by one warp with tensor cores: through the wmma interface, and mma as it stands in PTX.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

template <class In, class Out, int M, int N, int K, class ALayout, class BLayout>
__device__ void product(const In* a, const In* b, Out* c, int k) {
  wmma::fragment<wmma::matrix_a, M, N, K, In, ALayout> a_part;
  wmma::fragment<wmma::matrix_b, M, N, K, In, BLayout> b_part;
  wmma::fragment<wmma::accumulator, M, N, K, Out> sums;
  wmma::fill_fragment(sums, Out(0));
  constexpr bool a_rows = __is_same(ALayout, wmma::row_major);
  constexpr bool b_rows = __is_same(BLayout, wmma::row_major);
  for (int i = 0; i < k; i += K) {
    wmma::load_matrix_sync(a_part, a + (a_rows ? i : i * M), a_rows ? k : M);
    wmma::load_matrix_sync(b_part, b + (b_rows ? i * N : i), b_rows ? N : k);
    wmma::mma_sync(sums, a_part, b_part, sums);
  }
  wmma::store_matrix_sync(c, sums, N, wmma::mem_row_major);
}

using Rows = wmma::row_major;
using Columns = wmma::col_major;

extern "C" __global__ void wmma_f16_f32(const half* a, const half* b, float* c, int k) {
  product<half, float, 16, 16, 16, Rows, Rows>(a, b, c, k);
}
extern "C" __global__ void wmma_f16_f16(const half* a, const half* b, half* c, int k) {
  product<half, half, 16, 16, 16, Rows, Columns>(a, b, c, k);
}
extern "C" __global__ void wmma_f16_f32_wide(const half* a, const half* b, float* c, int k) {
  product<half, float, 8, 32, 16, Columns, Rows>(a, b, c, k);
}
extern "C" __global__ void wmma_f16_f32_tall(const half* a, const half* b, float* c, int k) {
  product<half, float, 32, 8, 16, Rows, Columns>(a, b, c, k);
}
extern "C" __global__ void wmma_bf16(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c,
                                     int k) {
  product<__nv_bfloat16, float, 16, 16, 16, Rows, Rows>(a, b, c, k);
}
extern "C" __global__ void wmma_s8(const signed char* a, const signed char* b, int* c, int k) {
  product<signed char, int, 16, 16, 16, Rows, Columns>(a, b, c, k);
}
extern "C" __global__ void wmma_u8(const unsigned char* a, const unsigned char* b, int* c, int k) {
  product<unsigned char, int, 16, 16, 16, Columns, Rows>(a, b, c, k);
}
extern "C" __global__ void wmma_tf32(const float* a, const float* b, float* c, int k) {
  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, Rows> a_part;
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, Rows> b_part;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> sums;
  wmma::fill_fragment(sums, 0.0f);
  for (int i = 0; i < k; i += 8) {
    wmma::load_matrix_sync(a_part, a + i, k);
    wmma::load_matrix_sync(b_part, b + i * 16, 16);
    for (int t = 0; t < a_part.num_elements; ++t) a_part.x[t] = wmma::__float_to_tf32(a_part.x[t]);
    for (int t = 0; t < b_part.num_elements; ++t) b_part.x[t] = wmma::__float_to_tf32(b_part.x[t]);
    wmma::mma_sync(sums, a_part, b_part, sums);
  }
  wmma::store_matrix_sync(c, sums, 16, wmma::mem_row_major);
}
extern "C" __global__ void wmma_f64(const double* a, const double* b, double* c, int k) {
  product<double, double, 8, 8, 4, Rows, Columns>(a, b, c, k);
}

// For the rest A is 16 x K by rows, B is K x 8 by columns, C is 16 x 8 by rows. A register of A or
// B holds neighbours along K; lane l works on row l/4 (and 8 more) and on column l/4 of B.

template <class Word>
__device__ Word pair(const void* matrix, int row, int k, int column, int bytes) {
  return *reinterpret_cast<const Word*>(static_cast<const char*>(matrix) + (row * k + column) * bytes);
}

template <int K, int Bytes>
__device__ void load(const void* a, const void* b, unsigned (&a_regs)[4], unsigned (&b_regs)[2]) {
  const int lane = threadIdx.x % 32, group = lane / 4, each = 4 / Bytes;
  const int column = lane % 4 * each;
  a_regs[0] = pair<unsigned>(a, group, K, column, Bytes);
  a_regs[1] = pair<unsigned>(a, group + 8, K, column, Bytes);
  a_regs[2] = pair<unsigned>(a, group, K, column + K / 2, Bytes);
  a_regs[3] = pair<unsigned>(a, group + 8, K, column + K / 2, Bytes);
  b_regs[0] = pair<unsigned>(b, group, K, column, Bytes);
  b_regs[1] = pair<unsigned>(b, group, K, column + K / 2, Bytes);
}

template <class Out>
__device__ void store(Out* c, const Out (&sums)[4]) {
  const int lane = threadIdx.x % 32, row = lane / 4, column = lane % 4 * 2;
  c[row * 8 + column] = sums[0];
  c[row * 8 + column + 1] = sums[1];
  c[(row + 8) * 8 + column] = sums[2];
  c[(row + 8) * 8 + column + 1] = sums[3];
}

#define MMA_FLOAT(name, text, K, Bytes)                                                     \
  extern "C" __global__ void name(const void* a, const void* b, float* c) {                 \
    unsigned x[4], y[2];                                                                     \
    load<K, Bytes>(a, b, x, y);                                                              \
    float s[4] = {};                                                                         \
    asm(text " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                       \
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])                                     \
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));                 \
    store(c, s);                                                                             \
  }

MMA_FLOAT(mma_f16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16, 2)
MMA_FLOAT(mma_bf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 16, 2)
MMA_FLOAT(mma_tf32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 8, 4)
MMA_FLOAT(mma_e4m3, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", 32, 1)
MMA_FLOAT(mma_e5m2, "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32", 32, 1)

#define MMA_INT(name, text)                                                                  \
  extern "C" __global__ void name(const void* a, const void* b, int* c) {                   \
    unsigned x[4], y[2];                                                                     \
    load<32, 1>(a, b, x, y);                                                                 \
    int s[4] = {};                                                                           \
    asm(text " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                       \
        : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3])                                     \
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));                 \
    store(c, s);                                                                             \
  }

MMA_INT(mma_s8, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32")
MMA_INT(mma_u8_s8, "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32")
MMA_INT(mma_s8_satfinite, "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32")

// Half the depth: two registers of A and one of B.
extern "C" __global__ void mma_f16_k8(const half* a, const half* b, float* c) {
  const int lane = threadIdx.x % 32, group = lane / 4, column = lane % 4 * 2;
  const unsigned x0 = pair<unsigned>(a, group, 8, column, 2);
  const unsigned x1 = pair<unsigned>(a, group + 8, 8, column, 2);
  const unsigned y = pair<unsigned>(b, group, 8, column, 2);
  float s[4] = {};
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
      : "r"(x0), "r"(x1), "r"(y));
  store(c, s);
}

// f16 sums: two registers of pairs.
extern "C" __global__ void mma_f16_f16(const half* a, const half* b, half* c) {
  unsigned x[4], y[2], s[2] = {};
  load<16, 2>(a, b, x, y);
  asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
      : "+r"(s[0]), "+r"(s[1])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  const int lane = threadIdx.x % 32, row = lane / 4, column = lane % 4 * 2;
  *reinterpret_cast<unsigned*>(&c[row * 8 + column]) = s[0];
  *reinterpret_cast<unsigned*>(&c[(row + 8) * 8 + column]) = s[1];
}

// ldmatrix hands out what mma wants: 16x16 of A by rows, 16x8 of B by rows, so turned.
extern "C" __global__ void mma_ldmatrix(const half* a, const half* b, float* c) {
  __shared__ __align__(16) half a_tile[16 * 16], b_tile[16 * 8];
  for (int i = threadIdx.x; i < 256; i += 32) a_tile[i] = a[i];
  for (int i = threadIdx.x; i < 128; i += 32) b_tile[i] = b[i];
  __syncwarp();
  const int lane = threadIdx.x;
  const unsigned a_address = __cvta_generic_to_shared(&a_tile[lane % 16 * 16 + lane / 16 * 8]);
  const unsigned b_address = __cvta_generic_to_shared(&b_tile[lane % 16 * 8]);
  unsigned x[4], y[2];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(a_address));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(y[0]), "=r"(y[1])
               : "r"(b_address));
  float s[4] = {};
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  store(c, s);
}

// A matrix of 8x8 of 16 bits turned in registers and through shared memory.
extern "C" __global__ void turn(const unsigned* in, unsigned* moved, unsigned* stored) {
  __shared__ __align__(16) unsigned tile[32];
  unsigned word = in[threadIdx.x], turned;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(word));
  moved[threadIdx.x] = turned;
  const unsigned address = __cvta_generic_to_shared(&tile[threadIdx.x % 8 * 4]);
  asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(address),
               "r"(word)
               : "memory");
  __syncwarp();
  stored[threadIdx.x] = tile[threadIdx.x];
}
