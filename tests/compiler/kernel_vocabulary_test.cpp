// Each word of the vocabulary, on the emulated GPU and on the host.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "kernel_harness.h"
#include "kiln/dtype/float_formats.h"

namespace kiln::compiler::kernel_test {
namespace {

using emulator_test::Array;
using testing::Each;
using testing::ElementsAre;
using testing::ElementsAreArray;

/// Runs `f(T* data)`, which changes an array in place, on the host.
template <class T>
std::vector<T> on_host(const std::string& text, Size grid, Size block, std::vector<T> data) {
  T* pointer = data.data();
  HostKernel("f", text).launch(grid, block, 0, pointer);
  return data;
}

/// The same on the emulated GPU.
template <class T>
std::vector<T> on_device(const std::string& text, Size grid, Size block, const std::vector<T>& data,
                         const std::string& architecture = "sm_90") {
  DeviceKernel kernel("f", text, architecture);
  const Array<T> array(data);
  kernel.launch(grid, block, 0, array);
  return array.get();
}

TEST(KernelVocabulary, Indices) {
  const std::string text = R"(__global__ void f(unsigned* out) {
    unsigned block = (block_idx.z * grid_dim.y + block_idx.y) * grid_dim.x + block_idx.x;
    unsigned thread = (thread_idx.z * block_dim.y + thread_idx.y) * block_dim.x + thread_idx.x;
    unsigned* own = out + (block * block_dim.x * block_dim.y * block_dim.z + thread) * 4;
    own[0] = global_idx.x;
    own[1] = global_idx.y * 100 + global_idx.z;
    own[2] = threadIdx.x + 10 * blockIdx.y + 100 * blockDim.z + 1000 * gridDim.x;
    own[3] = cluster_dim.x + cluster_dim.y + cluster_dim.z + 10 * cluster_idx.y;
  })";
  std::vector<unsigned> expected;
  const Size grid{2, 3, 2}, block{3, 2, 4};
  for (unsigned bz = 0; bz < 2; ++bz)
    for (unsigned by = 0; by < 3; ++by)
      for (unsigned bx = 0; bx < 2; ++bx)
        for (unsigned z = 0; z < 4; ++z)
          for (unsigned y = 0; y < 2; ++y)
            for (unsigned x = 0; x < 3; ++x)
              expected.insert(expected.end(), {bx * 3 + x, (by * 2 + y) * 100 + bz * 4 + z,
                                               x + 10 * by + 400 + 2000, 3 + 10 * by});
  const std::vector<unsigned> zeros(expected.size());
  EXPECT_EQ(on_host(text, grid, block, zeros), expected);
  EXPECT_EQ(on_device(text, grid, block, zeros), expected);
  EXPECT_EQ(on_device(text, grid, block, zeros, "sm_80"), expected);
}

template <class T>
class KernelAtomics : public testing::Test {};
using AtomicTypes = testing::Types<int, unsigned, long long, unsigned long long, float, double>;
TYPED_TEST_SUITE(KernelAtomics, AtomicTypes);

TYPED_TEST(KernelAtomics, ChangeAndReturnWhatWas) {
  using T = TypeParam;
  const std::string type = std::is_same_v<T, int>                  ? "int"
                           : std::is_same_v<T, unsigned>           ? "unsigned"
                           : std::is_same_v<T, long long>          ? "long long"
                           : std::is_same_v<T, unsigned long long> ? "unsigned long long"
                           : std::is_same_v<T, float>              ? "float"
                                                                   : "double";
  std::string text = "typedef " + type + " T;\n" + R"(__global__ void f(T* p) {
    T i = global_idx.x;
    atomic_add(p, i);
    atomic_sub(p + 1, 2);
    atomic_max(p + 2, i);
    atomic_min(p + 3, 100 - i);
    if (i == 5) {
      p[4] = atomic_exchange(p + 5, 7);
      p[6] = atomic_compare_exchange(p + 7, 3, 9);
      p[8] = atomic_compare_exchange(p + 9, 4, 9);
      p[10] = atomic_add(p + 11, 1);
      p[12] = atomic_max(p + 13, 1);
    })";
  std::vector<T> before = {1, 200, 1, 90, 0, 6, 0, 3, 0, 5, 0, 10, 0, 2};
  std::vector<T> after = {
      static_cast<T>(1 + 63 * 32), 200 - 128, 63, 37, 6, 7, 3, 9, 5, 5, 10, 11, 2, 2};
  if constexpr (std::is_integral_v<T>) {
    text +=
        "atomic_and(p + 14, ~(T(1) << (int(i) % 8))); atomic_or(p + 15, T(1) << (int(i) % 8));\n"
        "atomic_xor(p + 16, 3);";
    before.insert(before.end(), {0x1ff, 0x200, 4});
    after.insert(after.end(), {0x100, 0x2ff, 4});
  }
  text += "}";
  EXPECT_EQ(on_host(text, {2}, {32}, before), after);
  EXPECT_EQ(on_device(text, {2}, {32}, before), after);
}

TEST(KernelVocabulary, AtomicsOfHalves) {
  const std::string text =
      "__global__ void f(float16* p) { atomic_add(p, float16(1)); atomic_max(p + 1, "
      "float16(global_idx.x)); }";
  const std::vector<std::uint16_t> before(2), after = {float16(64.0f).bits, float16(63.0f).bits};
  EXPECT_EQ(on_host(text, {2}, {32}, before), after);
  EXPECT_EQ(on_device(text, {2}, {32}, before), after);
}

TEST(KernelVocabulary, Warps) {
  const std::string text = R"(
  struct Wide { double a; int b; };
  __global__ void f(int* out) {
    int lane = lane_id(), *own = out + thread_idx.x * 9;
    own[0] = shuffle_idx(lane, 3);
    own[1] = shuffle_up(lane, 1);
    own[2] = shuffle_down(lane, 2);
    own[3] = shuffle_xor(lane, 5);
    own[4] = ballot(lane % 2 == 0);
    own[5] = warp_any(lane == 7) + 2 * warp_all(lane < 32) + 4 * warp_all(lane == 0);
    Wide wide = shuffle_xor(Wide{lane + 0.5, lane}, 1);
    own[6] = int(wide.a * 2) * 100 + wide.b;
    warp_sync();
    own[7] = warp_size();
    own[8] = shuffle_down(short(lane), 1);
  })";
  std::vector<int> expected;
  for (int lane = 0; lane < 32; ++lane)
    expected.insert(expected.end(),
                    {3, lane > 0 ? lane - 1 : 0, lane < 30 ? lane + 2 : lane, lane ^ 5, 0x55555555,
                     3, (2 * (lane ^ 1) + 1) * 100 + (lane ^ 1), 32, lane < 31 ? lane + 1 : lane});
  EXPECT_EQ(on_device(text, {1}, {32}, std::vector<int>(32 * 9)), expected);
  EXPECT_THAT(on_host(text, {1}, {1}, std::vector<int>(9)),
              ElementsAre(0, 0, 0, 0, 1, 2 + 4, 100, 1, 0));
}

TEST(KernelVocabulary, HalfTypes) {
  const std::string text = R"(__global__ void f(unsigned short* bits) {
    unsigned i = global_idx.x;
    auto* half = reinterpret_cast<float16*>(bits);
    auto* brain = reinterpret_cast<bfloat16*>(bits);
    float as_half = half[i], as_brain = brain[i];
    half[i + 65536] = as_half * 1.001f;
    brain[i + 2 * 65536] = as_brain * 1.001f;
    float16 sum = half[i];
    sum += 1;
    half[i + 3 * 65536] = max(sum, float16(-100.0));
    half[i + 4 * 65536] = as_brain;
    brain[i + 5 * 65536] = exp(half[i]);
  })";
  std::vector<std::uint16_t> before(6 * 65536);
  std::iota(before.begin(), before.begin() + 65536, 0);
  const auto check = [&](const std::vector<std::uint16_t>& after, const char* where) {
    int wrong = 0;
    for (unsigned i = 0; i < 65536; ++i) {
      const float half = static_cast<float>(float16::from_bits(i));
      const float brain = static_cast<float>(bfloat16::from_bits(i));
      const auto same = [&](unsigned place, auto expected) {
        using T = decltype(expected);
        const T got = T::from_bits(after[i + place * 65536]);
        const bool both_nan =
            std::isnan(static_cast<float>(got)) && std::isnan(static_cast<float>(expected));
        if (got.bits != expected.bits && !both_nan && wrong++ < 5)
          ADD_FAILURE() << where << " place " << place << " of " << i << ": " << got.bits
                        << " and not " << expected.bits;
      };
      same(1, float16(half * 1.001f));
      same(2, bfloat16(brain * 1.001f));
      if (!std::isnan(half))
        same(3, float16(std::max(static_cast<float>(float16(half + 1.0f)), -100.0f)));
      same(4, float16(brain));
    }
  };
  check(on_host(text, {512}, {128}, before), "host");
  check(on_device(text, {512}, {128}, before), "device");
  check(on_device(text, {512}, {128}, before, "sm_75"), "device 75");
}

template <class T>
class KernelBytes : public testing::Test {};
using ByteTypes = testing::Types<float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz>;
TYPED_TEST_SUITE(KernelBytes, ByteTypes);

TYPED_TEST(KernelBytes, ConvertAsOnTheHost) {
  using T = TypeParam;
  const std::string type = std::is_same_v<T, float8_e4m3fn>     ? "float8_e4m3fn"
                           : std::is_same_v<T, float8_e4m3fnuz> ? "float8_e4m3fnuz"
                           : std::is_same_v<T, float8_e5m2>     ? "float8_e5m2"
                                                                : "float8_e5m2fnuz";
  // Each float whose upper half is anything and whose lower half is a few things; then each code.
  const std::string text = "__global__ void f(float* values) {\n  using T = " + type + R"(;
    unsigned i = global_idx.x;
    T narrow = values[i];
    values[i] = narrow.bits;
    values[i + 4 * 65536] = __builtin_bit_cast(T, (unsigned char)i);
  })";
  std::vector<float> before;
  for (const std::uint32_t lower : {0u, 1u, 0x8000u, 0xffffu})
    for (std::uint32_t upper = 0; upper < 65536; ++upper)
      before.push_back(std::bit_cast<float>(upper << 16 | lower));
  before.resize(8 * 65536);
  const auto check = [&](const std::vector<float>& after, const char* where) {
    int wrong = 0;
    for (std::size_t i = 0; i < 4 * 65536; ++i) {
      const float expected = T(before[i]).bits;
      if (after[i] != expected && wrong++ < 5)
        ADD_FAILURE() << where << ": " << before[i] << " became " << after[i] << " and not "
                      << expected;
      const float value = static_cast<float>(T::from_bits(static_cast<std::uint8_t>(i)));
      const float got = after[i + 4 * 65536];
      if (got != value && !(std::isnan(got) && std::isnan(value)) && wrong++ < 5)
        ADD_FAILURE() << where << ": code " << (i & 255) << " is " << got << " and not " << value;
    }
  };
  check(on_host(text, {2048}, {128}, before), "host");
  check(on_device(text, {2048}, {128}, before), "device");
}

TEST(KernelVocabulary, NamesOfTheLibrary) {
  const std::string text = R"(
#include <cstdint>
#include <stdint.h>
#include <cmath>
#include <math.h>
#include <type_traits>
#include <limits>
#include <algorithm>
template <class T>
__device__ T twice(T x) {
  static_assert(std::is_same_v<std::remove_const_t<const T>, T>);
  if constexpr (std::is_floating_point_v<T>) return std::fma(x, T(2), T(0));
  return x + x;
}
__global__ void f(double* out) {
  std::int64_t big = std::numeric_limits<int64_t>::max();
  out[0] = double(big) == 9223372036854775807.0;
  out[1] = std::numeric_limits<std::uint8_t>::max() + std::numeric_limits<int>::min();
  out[2] = std::sqrt(16.0) + sqrtf(25.0f) + std::abs(-3) + fabs(-2.0) + std::min(1, 2);
  out[3] = twice(3) + twice(0.25) + twice(uint16_t(4));
  out[4] = pow(2, 3) + pow(2.0f, 2) + exp(0) + max(1, 2.5) + min(3u, 4u);
  out[5] = isnan(NAN) + 2 * isinf(INFINITY) + 4 * isfinite(1.0) + 8 * isfinite(-INFINITY);
  float s, c;
  sincosf(0.0f, &s, &c);
  out[6] = s + c + M_PI;
  out[7] = ldexp(3.0, 4) + lround(2.5) + hypot(3.0f, 4.0f);
  int v[4] = {4, 3, 2, 1};
  std::swap(v[0], v[3]);
  out[8] = v[0] * 10 + v[3];
})";
  const std::vector<double> expected = {
      1, 255.0 - 2147483648.0,       4 + 5 + 3 + 2 + 1, 6 + 0.5 + 8, 8 + 4 + 1 + 2.5 + 3,
      7, 1 + 3.14159265358979323846, 48 + 3 + 5,        14};
  EXPECT_EQ(on_host(text, {1}, {1}, std::vector<double>(9)), expected);
  EXPECT_EQ(on_device(text, {1}, {1}, std::vector<double>(9)), expected);
}

TEST(KernelVocabulary, NamesOfCuda) {
  const std::string text = R"(
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__constant__ float table[4] = {1, 2, 3, 4};
__device__ int counter = 5;
extern __shared__ int dynamic[];
__global__ __launch_bounds__(64) void f(float* out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = threadIdx.x;
  __syncthreads();
  float sum = tile[threadIdx.x ^ 1];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
  unsigned votes = __ballot_sync(__activemask(), threadIdx.x & 1);
  int all = __syncthreads_count(threadIdx.x < 10);
  if (threadIdx.x == 0) {
    out[0] = sum;
    out[1] = __popc(votes) + all;
    out[2] = table[2] + atomicAdd(&counter, 2) + counter;
    float4 v = make_float4(1, 2, 3, 4);
    out[3] = v.x + v.y * 10 + v.z * 100 + v.w * 1000;
    *reinterpret_cast<float4*>(out + 4) = v;
    out[8] = __half2float(__hadd(__float2half(1.5f), __float2half(2.0f)));
    out[9] = __bfloat162float(__float2bfloat16(3.14159f));
    out[10] = __expf(1.0f) + __fdividef(6.0f, 3.0f);
    out[11] = __float2int_rd(-1.5f) + __float_as_int(1.0f) / 1e9f + __clz(1) + __ffs(8) + __brev(1);
    unsigned lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    out[12] = lane + warpSize + atomicCAS(&counter, 7, 1) + counter;
    dim3 d(2, 3);
    out[13] = d.x + d.y + d.z + __umulhi(1u << 31, 4u) + __byte_perm(0x11, 0, 0);
    out[14] = __ldg(out + 3) + (clock64() > 0) + __hfma(half(2), half(3), half(1));
    unsigned wrapped = 4;
    out[15] = atomicInc(reinterpret_cast<unsigned*>(&counter), 1) + counter;
    __threadfence();
    assert(wrapped == 4);
  }
})";
  const auto out = on_device(text, {1}, {64}, std::vector<float>(16));
  const float brain = static_cast<float>(bfloat16(3.14159f));
  EXPECT_EQ(out[0], 31 * 16);
  EXPECT_EQ(out[1], 16 + 10);
  EXPECT_EQ(out[2], 3 + 5 + 7);
  EXPECT_EQ(out[3], 4321);
  EXPECT_EQ(out[7], 4);
  EXPECT_EQ(out[8], 3.5f);
  EXPECT_EQ(out[9], brain);
  EXPECT_NEAR(out[10], std::exp(1.0) + 2, 1e-5);
  EXPECT_EQ(out[12], 0 + 32 + 7 + 1);
  EXPECT_EQ(out[13], 6 + 2 + 0x11111111);
  EXPECT_EQ(out[14], 4321 + 1 + 7);
  EXPECT_EQ(out[15], 1);
}

TEST(KernelVocabulary, IntegersAndConversionsOfCuda) {
  const std::string text = R"(__global__ void f(long long* out) {
    int i = 0;
    out[i++] = __popc(0xf0f0) + __popcll(~0ull);
    out[i++] = __clz(1) + __clz(0) + __clzll(1);
    out[i++] = __ffs(0) + __ffs(8) + __ffsll(1ll << 40);
    out[i++] = __brev(1u) + (__brevll(1ull) >> 63);
    out[i++] = __byte_perm(0x33221100, 0x77665544, 0x7531);
    out[i++] = __funnelshift_l(0x80000000u, 1u, 1);
    out[i++] = __funnelshift_r(0x80000000u, 1u, 1);
    out[i++] = __mulhi(-1, 2) + __umulhi(~0u, 2u);
    out[i++] = __mul64hi(-1, 4) + __umul64hi(~0ull, 4);
    out[i++] = __mul24(-3, 5) + __umul24(3, 5);
    out[i++] = __sad(3, 10, 100);
    out[i++] = __dp4a(0x01020304, 0x01010101, 1);
    out[i++] = __float2int_rn(2.5f) * 1000 + __float2int_rz(2.9f) * 100 + __float2int_ru(2.1f) * 10 +
               __float2int_rd(-2.1f);
    out[i++] = __double2ll_rn(1e15 + 0.5);
    out[i++] = __float_as_int(__int2float_rz(16777217)) - __float_as_int(16777216.0f);
    out[i++] = __float_as_int(__fadd_ru(1.0f, 1e-10f)) - __float_as_int(1.0f);
    out[i++] = __float_as_int(__fmul_rz(1.1f, 1.1f)) - __float_as_int(1.21f);
    out[i++] = __double_as_longlong(__hiloint2double(0x3ff00000, 5)) & 0xff;
    out[i++] = __double2hiint(1.0) >> 20;
    out[i++] = __saturatef(2.0f) + __saturatef(-1.0f);
    out[i++] = __isGlobal(out) + 2 * __isShared(out);
    out[i++] = make_uchar4(1, 2, 3, 4).w + sizeof(float3) + alignof(float4) + alignof(double2);
    __half2 h = __hfma2(__floats2half2_rn(1, 2), __float2half2_rn(3), __half2half2(__half(0.5f)));
    out[i++] = __low2float(h) * 10 + __high2float(h) * 100;
    out[i++] = __half_as_ushort(hexp(__half(0.0f))) + __hgt(__half(2.0f), __half(1.0f));
    out[i++] = __syncthreads_or(0) + 2 * __syncthreads_and(1);
  })";
  const std::vector<long long> expected = {
      8 + 64,
      31 + 32 + 63,
      0 + 4 + 41,
      (1ll << 31) + 1,
      0x77553311,
      3,
      0xc0000000ll,
      -1 + 1,
      -1 + 3,
      -15 + 15,
      107,
      11,
      2000 + 200 + 30 - 3,
      1000000000000000ll,
      0,
      1,
      static_cast<int>(std::bit_cast<std::uint32_t>(std::nextafter(
                           static_cast<float>(1.1f * static_cast<double>(1.1f)),
                           1.1f * static_cast<double>(1.1f) <
                                   static_cast<float>(1.1f * static_cast<double>(1.1f))
                               ? 0.0f
                               : static_cast<float>(1.1f * static_cast<double>(1.1f)))) -
                       std::bit_cast<std::uint32_t>(1.21f)),
      5,
      0x3ff,
      1,
      1,
      4 + 12 + 16 + 16,
      35 + 650,
      0x3c00 + 1,
      2,
  };
  EXPECT_EQ(on_device(text, {1}, {1}, std::vector<long long>(expected.size())), expected);
}

}  // namespace
}  // namespace kiln::compiler::kernel_test
