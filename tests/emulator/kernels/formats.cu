// Halves, bfloat16 and 8-bit floats through the headers of the toolkit.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void half_axpy(const half2* x, half2* y, float alpha, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __hfma2(__float2half2_rn(alpha), x[i], y[i]);
}

extern "C" __global__ void bfloat_axpy(const __nv_bfloat162* x, __nv_bfloat162* y, float alpha,
                                       int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __hfma2(__float2bfloat162_rn(alpha), x[i], y[i]);
}

// Sums of halves in float, through pairs.
extern "C" __global__ void half_dot(const half2* a, const half2* b, float* out, int n) {
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 32) {
    const float2 x = __half22float2(a[i]), y = __half22float2(b[i]);
    sum += x.x * y.x + x.y * y.y;
  }
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
  if (threadIdx.x == 0) *out = sum;
}

// A float through each format and back.
extern "C" __global__ void round_trips(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[5 * i] = __half2float(__float2half(in[i]));
  out[5 * i + 1] = __bfloat162float(__float2bfloat16(in[i]));
  out[5 * i + 2] = static_cast<float>(__nv_fp8_e4m3(in[i]));
  out[5 * i + 3] = static_cast<float>(__nv_fp8_e5m2(in[i]));
  out[5 * i + 4] = __half2float(__float2half_rz(in[i]));
}

// What a half does in conditions and in functions.
extern "C" __global__ void half_functions(const half* a, const half* b, half* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  half* to = out + 8 * i;
  to[0] = __hmax(a[i], b[i]);
  to[1] = __hmin_nan(a[i], b[i]);
  to[2] = __habs(__hneg(a[i]));
  to[3] = __hlt(a[i], b[i]) ? a[i] : b[i];
  to[4] = hrint(a[i]);
  to[5] = __hsub_sat(a[i], b[i]);
  to[6] = __int2half_rn(__half2int_rz(a[i]));
  to[7] = __ushort_as_half(__hisnan(a[i]) ? 1 : 0);
}
