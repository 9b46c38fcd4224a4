// Integer intrinsics: each thread writes a row of results.

extern "C" __global__ void integer_intrinsics(const unsigned* a, const unsigned* b,
                                              const unsigned* c, unsigned* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned x = a[i], y = b[i], z = c[i];
  unsigned* to = out + 24 * i;
  to[0] = __popc(x);
  to[1] = __clz(x);
  to[2] = __ffs(x);
  to[3] = __brev(x);
  to[4] = __byte_perm(x, y, z);
  to[5] = __umulhi(x, y);
  to[6] = __mulhi(x, y);
  to[7] = __usad(x, y, z);
  to[8] = __sad(x, y, z);
  to[9] = __uhadd(x, y);
  to[10] = __hadd(x, y);
  to[11] = __urhadd(x, y);
  to[12] = __rhadd(x, y);
  to[13] = __funnelshift_l(x, y, z);
  to[14] = __funnelshift_rc(x, y, z);
  to[15] = __mul24(x, y);
  to[16] = __umul24(x, y);
  to[17] = __dp4a(x, y, z);
  to[18] = __dp2a_lo((int)x, (int)y, (int)z);
  to[19] = __vadd4(x, y);
  to[20] = __vabsdiffu4(x, y);
  to[21] = __vmaxs2(x, y);
  to[22] = __vcmpgtu4(x, y);
  to[23] = __viaddmax_s32(x, y, z);
}

extern "C" __global__ void long_intrinsics(const unsigned long long* a, const unsigned long long* b,
                                           unsigned long long* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned long long x = a[i], y = b[i];
  unsigned long long* to = out + 10 * i;
  to[0] = __popcll(x);
  to[1] = __clzll(x);
  to[2] = __ffsll(x);
  to[3] = __brevll(x);
  to[4] = __umul64hi(x, y);
  to[5] = __mul64hi(x, y);
  to[6] = y ? x / y : 0;
  to[7] = y ? x % y : 0;
  to[8] = y && y + 1 ? (long long)x / (long long)y : 0;
  const unsigned __int128 product = (unsigned __int128)x * y + x;
  to[9] = (unsigned long long)(product >> 64) ^ (unsigned long long)product;
}

extern "C" __global__ void float_intrinsics(const float* a, const float* b, const float* c,
                                            float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float* to = out + 8 * i;
  to[0] = __fadd_rz(a[i], b[i]);
  to[1] = __fmul_ru(a[i], b[i]);
  to[2] = __fmaf_rd(a[i], b[i], c[i]);
  to[3] = __fsub_ru(a[i], b[i]);
  to[4] = __saturatef(a[i]);
  to[5] = fdimf(a[i], b[i]);
  to[6] = __int_as_float(__float_as_int(a[i]) ^ 1);
  to[7] = copysignf(a[i], b[i]);
}
