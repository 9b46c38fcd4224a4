#pragma once

// What the tests of the driver's interface share: four emulated devices, and kernels whose effect
// is known without running them.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <vector>

#include "emulator/api/driver_api.h"

namespace kiln::emulator_test {

inline constexpr const char* kKernels = R"(
.version 8.0
.target sm_90
.address_size 64
.global .align 4 .u32 counter = 5;
.visible .entry empty() { ret; }
// *to = value
.visible .entry store_value(.param .u64 to, .param .u32 value) {
  .reg .u64 %rd<2>; .reg .u32 %r<2>;
  ld.param.u64 %rd1, [to]; ld.param.u32 %r1, [value];
  st.global.u32 [%rd1], %r1; ret;
}
// *to += value, by each thread
.visible .entry add_value(.param .u64 to, .param .u32 value) {
  .reg .u64 %rd<2>; .reg .u32 %r<3>;
  ld.param.u64 %rd1, [to]; ld.param.u32 %r1, [value];
  atom.global.add.u32 %r2, [%rd1], %r1; ret;
}
// *to = *from
.visible .entry copy_word(.param .u64 to, .param .u64 from) {
  .reg .u64 %rd<3>; .reg .u32 %r<2>;
  ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [from];
  ld.global.u32 %r1, [%rd2]; st.global.u32 [%rd1], %r1; ret;
}
// Waits until *flag >= value.
.visible .entry wait_flag(.param .u64 flag, .param .u32 value) {
  .reg .u64 %rd<2>; .reg .u32 %r<3>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [flag]; ld.param.u32 %r1, [value];
again:
  ld.acquire.sys.global.u32 %r2, [%rd1];
  setp.lt.u32 %p1, %r2, %r1;
  @%p1 bra again;
  ret;
}
// Counts *mine up to rounds, each time after *other has the count: two of them take turns.
.visible .entry take_turns(.param .u64 mine, .param .u64 other, .param .u32 rounds,
                           .param .u32 lead) {
  .reg .u64 %rd<3>; .reg .u32 %r<7>; .reg .pred %p<3>;
  ld.param.u64 %rd1, [mine]; ld.param.u64 %rd2, [other];
  ld.param.u32 %r1, [rounds]; ld.param.u32 %r2, [lead];
  mov.u32 %r3, 0;
next:
  sub.u32 %r4, %r3, %r2; add.u32 %r4, %r4, 1;
again:
  ld.acquire.sys.global.u32 %r5, [%rd2];
  setp.lt.u32 %p1, %r5, %r4;
  @%p1 bra again;
  add.u32 %r3, %r3, 1;
  st.release.sys.global.u32 [%rd1], %r3;
  setp.lt.u32 %p2, %r3, %r1;
  @%p2 bra next;
  ret;
}
.visible .entry trap_now() { trap; ret; }
.visible .entry count_up() {
  .reg .u64 %rd<2>; .reg .u32 %r<2>;
  mov.u64 %rd1, counter;
  atom.global.add.u32 %r1, [%rd1], 1; ret;
}
)";

/// Four devices with 256 MiB each; device 0's primary context is current. Afterwards all contexts
/// are reset.
class ApiTest : public ::testing::Test {
 protected:
  static constexpr int kDevices = 4;
  static void SetUpTestSuite() {
    setenv("KILN_EMULATOR_DEVICES", "4", 1);
    setenv("KILN_EMULATOR_MEMORY", "256M", 1);
    setenv("KILN_EMULATOR_TIMEOUT", "2", 1);
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  }
  void SetUp() override {
    for (int device = 0; device < kDevices; ++device)
      ASSERT_EQ(cuDevicePrimaryCtxRetain(&contexts[device], device), CUDA_SUCCESS);
    use(0);
  }
  void TearDown() override {
    cuCtxSetCurrent(nullptr);
    for (int device = 0; device < kDevices; ++device) {
      cuDevicePrimaryCtxReset_v2(device);
      while (cuDevicePrimaryCtxRelease_v2(device) == CUDA_SUCCESS) continue;
    }
  }

  void use(int device) { ASSERT_EQ(cuCtxSetCurrent(contexts[device]), CUDA_SUCCESS); }

  /// A kernel of kKernels in the current context.
  CUfunction kernel(const char* name) {
    CUmodule module = nullptr;
    EXPECT_EQ(cuModuleLoadData(&module, kKernels), CUDA_SUCCESS);
    CUfunction function = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&function, module, name), CUDA_SUCCESS);
    return function;
  }

  CUdeviceptr allocate(std::size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAlloc_v2(&address, bytes), CUDA_SUCCESS);
    return address;
  }
  /// Zeroed words in pinned memory; the pointer serves host and devices.
  std::uint32_t* pinned(std::size_t words) {
    void* memory = nullptr;
    EXPECT_EQ(cuMemHostAlloc(&memory, words * 4, 0), CUDA_SUCCESS);
    for (std::size_t i = 0; i < words; ++i) static_cast<std::uint32_t*>(memory)[i] = 0;
    return static_cast<std::uint32_t*>(memory);
  }
  static CUdeviceptr address_of(const void* memory) {
    return reinterpret_cast<CUdeviceptr>(memory);
  }

  /// Launches with one thread (or more blocks) and the parameters given.
  template <typename... Parameters>
  static CUresult launch_blocks(CUfunction function, CUstream stream, unsigned blocks,
                                Parameters... parameters) {
    void* pointers[] = {static_cast<void*>(&parameters)..., nullptr};
    return cuLaunchKernel(function, blocks, 1, 1, 1, 1, 1, 0, stream, pointers, nullptr);
  }
  template <typename... Parameters>
  static CUresult launch(CUfunction function, CUstream stream, Parameters... parameters) {
    return launch_blocks(function, stream, 1, parameters...);
  }

  static std::uint32_t read_word(CUdeviceptr address) {
    std::uint32_t word = 0;
    EXPECT_EQ(cuMemcpyDtoH_v2(&word, address, 4), CUDA_SUCCESS);
    return word;
  }
  static CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream made = nullptr;
    EXPECT_EQ(cuStreamCreate(&made, flags), CUDA_SUCCESS);
    return made;
  }
  static CUevent event(unsigned flags = 0) {
    CUevent made = nullptr;
    EXPECT_EQ(cuEventCreate(&made, flags), CUDA_SUCCESS);
    return made;
  }
  /// Sets a flag that a kernel on the device waits for.
  static void raise(std::uint32_t* flag, std::uint32_t value = 1) {
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
  }
  static std::uint32_t look(const std::uint32_t* word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
  }

  CUcontext contexts[kDevices] = {};
};

}  // namespace kiln::emulator_test
