// Row kernels of a network: softmax, layer norm, attention.
#include <math.h>

template <class Combine>
__device__ float across_block(float value, Combine combine, float neutral) {
  __shared__ float warps[32];
  for (int offset = 16; offset > 0; offset /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffff, value, offset));
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = neutral;
  for (int i = 0; i < (blockDim.x + 31) / 32; ++i) value = combine(value, warps[i]);
  return value;
}

// A block a row; threads are a multiple of 32.
extern "C" __global__ void softmax(const float* in, float* out, int columns) {
  const float* row = in + (size_t)blockIdx.x * columns;
  float largest = -INFINITY;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) largest = fmaxf(largest, row[i]);
  largest = across_block(largest, [](float a, float b) { return fmaxf(a, b); }, -INFINITY);
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(row[i] - largest);
  sum = across_block(sum, [](float a, float b) { return a + b; }, 0);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    out[(size_t)blockIdx.x * columns + i] = expf(row[i] - largest) / sum;
  }
}

extern "C" __global__ void layer_norm(const float* in, const float* scale, const float* shift,
                                      float* out, int columns, float epsilon) {
  const float* row = in + (size_t)blockIdx.x * columns;
  const auto add = [](float a, float b) { return a + b; };
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += row[i];
  const float mean = across_block(sum, add, 0) / columns;
  float squares = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    squares += (row[i] - mean) * (row[i] - mean);
  }
  const float factor = rsqrtf(across_block(squares, add, 0) / columns + epsilon);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    out[(size_t)blockIdx.x * columns + i] = (row[i] - mean) * factor * scale[i] + shift[i];
  }
}

// Attention with the sums of the softmax kept while keys pass by: a warp a query of 64 numbers.
extern "C" __global__ void attention(const float* queries, const float* keys, const float* values,
                                     float* out, int length, int causal) {
  const int lane = threadIdx.x % 32;
  const int query = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (query >= length) return;
  const float2 q = reinterpret_cast<const float2*>(queries)[query * 32 + lane];
  float2 sum = {0, 0};
  float largest = -INFINITY, weight = 0;
  const int last = causal ? query + 1 : length;
  for (int key = 0; key < last; ++key) {
    const float2 k = reinterpret_cast<const float2*>(keys)[key * 32 + lane];
    float score = q.x * k.x + q.y * k.y;
    for (int offset = 16; offset > 0; offset /= 2) {
      score += __shfl_xor_sync(0xffffffff, score, offset);
    }
    score *= 0.125f;
    const float next = fmaxf(largest, score);
    const float old = __expf(largest - next), fresh = __expf(score - next);
    const float2 v = reinterpret_cast<const float2*>(values)[key * 32 + lane];
    weight = weight * old + fresh;
    sum.x = sum.x * old + v.x * fresh;
    sum.y = sum.y * old + v.y * fresh;
    largest = next;
  }
  reinterpret_cast<float2*>(out)[query * 32 + lane] = make_float2(sum.x / weight, sum.y / weight);
}
