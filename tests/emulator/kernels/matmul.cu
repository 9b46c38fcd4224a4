// Products of matrices, row by row in memory: tiles in shared memory, then tiles in registers.

extern "C" __global__ void matmul_tiled(const float* a, const float* b, float* c, int m, int n,
                                        int k) {
  __shared__ float a_tile[16][16], b_tile[16][16];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
  float sum = 0;
  for (int first = 0; first < k; first += 16) {
    a_tile[y][x] = row < m && first + x < k ? a[row * k + first + x] : 0;
    b_tile[y][x] = column < n && first + y < k ? b[(first + y) * n + column] : 0;
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += a_tile[y][i] * b_tile[i][x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}

// 256 threads make a tile of 64x64; each holds 4x4 of it. Sizes are multiples of 64, depths of 16.
extern "C" __global__ void __launch_bounds__(256)
    matmul_blocked(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                   int n, int k) {
  __shared__ float a_tile[16][64];
  __shared__ float b_tile[16][64];
  const int thread = threadIdx.x;
  const int row = thread / 16 * 4, column = thread % 16 * 4;
  const float* a_block = a + blockIdx.y * 64 * k;
  const float* b_block = b + blockIdx.x * 64;
  float sums[4][4] = {};
  for (int first = 0; first < k; first += 16) {
    const float4 from_a =
        *reinterpret_cast<const float4*>(&a_block[thread / 4 * k + first + thread % 4 * 4]);
    a_tile[thread % 4 * 4 + 0][thread / 4] = from_a.x;
    a_tile[thread % 4 * 4 + 1][thread / 4] = from_a.y;
    a_tile[thread % 4 * 4 + 2][thread / 4] = from_a.z;
    a_tile[thread % 4 * 4 + 3][thread / 4] = from_a.w;
    *reinterpret_cast<float4*>(&b_tile[thread / 16][thread % 16 * 4]) =
        *reinterpret_cast<const float4*>(&b_block[(first + thread / 16) * n + thread % 16 * 4]);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float4 left = *reinterpret_cast<float4*>(&a_tile[i][row]);
      const float4 right = *reinterpret_cast<float4*>(&b_tile[i][column]);
      const float lefts[4] = {left.x, left.y, left.z, left.w};
      const float rights[4] = {right.x, right.y, right.z, right.w};
#pragma unroll
      for (int y = 0; y < 4; ++y) {
#pragma unroll
        for (int x = 0; x < 4; ++x) sums[y][x] += lefts[y] * rights[x];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int y = 0; y < 4; ++y) {
    float* to = &c[(blockIdx.y * 64 + row + y) * n + blockIdx.x * 64 + column];
    *reinterpret_cast<float4*>(to) = make_float4(sums[y][0], sums[y][1], sums[y][2], sums[y][3]);
  }
}
