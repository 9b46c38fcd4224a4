// Random numbers of cuRAND's device code.
#include <curand_kernel.h>

extern "C" __global__ void philox(unsigned long long seed, unsigned long long offset, unsigned* out,
                                  int each) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  curandStatePhilox4_32_10_t state;
  curand_init(seed, i, offset, &state);
  for (int k = 0; k < each; ++k) out[i * each + k] = curand(&state);
}

extern "C" __global__ void philox_four(unsigned long long seed, uint4* out, float4* uniform) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  curandStatePhilox4_32_10_t state;
  curand_init(seed, i, 0, &state);
  out[i] = curand4(&state);
  uniform[i] = curand_uniform4(&state);
}

extern "C" __global__ void philox_normal(unsigned long long seed, float* out, int each) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  curandStatePhilox4_32_10_t state;
  curand_init(seed, i, 0, &state);
  for (int k = 0; k < each; ++k) out[i * each + k] = curand_normal(&state);
}

// Sequence 0 of a seed of its own for each thread: no tables are needed to skip ahead.
extern "C" __global__ void xorwow(unsigned long long seed, unsigned* out, float* uniform, int each) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  curandStateXORWOW_t state;
  curand_init(seed + i, 0, 0, &state);
  for (int k = 0; k < each; ++k) {
    out[i * each + k] = curand(&state);
    uniform[i * each + k] = curand_uniform(&state);
  }
}
