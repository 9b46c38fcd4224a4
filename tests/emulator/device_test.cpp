// Devices, contexts, entry points and error texts.

#include <cstring>
#include <string>
#include <thread>

#include "api_fixture.h"

namespace kiln::emulator_test {
namespace {

using DeviceTest = ApiTest;

TEST_F(DeviceTest, CountsAndNames) {
  int count = 0;
  ASSERT_EQ(cuDeviceGetCount(&count), CUDA_SUCCESS);
  EXPECT_EQ(count, 4);
  CUdevice device = -1;
  EXPECT_EQ(cuDeviceGet(&device, 3), CUDA_SUCCESS);
  EXPECT_EQ(device, 3);
  EXPECT_EQ(cuDeviceGet(&device, 4), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGet(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  char name[8];
  std::memset(name, 'x', sizeof name);
  EXPECT_EQ(cuDeviceGetName(name, sizeof name, 0), CUDA_SUCCESS);
  EXPECT_EQ(std::strlen(name), 7u);
  EXPECT_EQ(cuDeviceGetName(name, 0, 0), CUDA_ERROR_INVALID_VALUE);
  std::size_t bytes = 0;
  EXPECT_EQ(cuDeviceTotalMem_v2(&bytes, 1), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 256u << 20);
}

TEST_F(DeviceTest, AttributesAreThoseOfSm90) {
  struct Expected {
    int attribute, value;
  };
  // From the table of compute capabilities in NVIDIA's programming guide, and of the H100 SXM.
  for (const auto& [attribute, value] : {Expected{1, 1024},
                                         {4, 64},
                                         {8, 48 << 10},
                                         {10, 32},
                                         {16, 132},
                                         {39, 2048},
                                         {75, 9},
                                         {76, 0},
                                         {81, 228 << 10},
                                         {82, 65536},
                                         {97, 227 << 10},
                                         {106, 32},
                                         {111, 1024},
                                         {41, 1},
                                         {91, 0},
                                         {95, 1},
                                         {132, 1}}) {
    int found = -1;
    EXPECT_EQ(cuDeviceGetAttribute(&found, static_cast<CUdevice_attribute>(attribute), 0),
              CUDA_SUCCESS);
    EXPECT_EQ(found, value) << "attribute " << attribute;
  }
  int found = 0;
  EXPECT_EQ(cuDeviceGetAttribute(&found, static_cast<CUdevice_attribute>(100000), 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetAttribute(&found, static_cast<CUdevice_attribute>(0), 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetAttribute(nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceTest, UuidsDiffer) {
  CUuuid first, second;
  ASSERT_EQ(cuDeviceGetUuid_v2(&first, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuDeviceGetUuid_v2(&second, 1), CUDA_SUCCESS);
  EXPECT_NE(std::memcmp(&first, &second, sizeof first), 0);
}

TEST_F(DeviceTest, CurrentContextIsAStackOfEachThread) {
  CUcontext current = nullptr;
  EXPECT_EQ(cuCtxPushCurrent_v2(contexts[1]), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, contexts[1]);
  CUdevice device = -1;
  EXPECT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 1);
  std::thread([] {
    CUcontext other = reinterpret_cast<CUcontext>(1);
    EXPECT_EQ(cuCtxGetCurrent(&other), CUDA_SUCCESS);
    EXPECT_EQ(other, nullptr);
    EXPECT_EQ(cuCtxPopCurrent_v2(&other), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
  }).join();
  EXPECT_EQ(cuCtxPopCurrent_v2(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, contexts[1]);
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, contexts[0]);
}

TEST_F(DeviceTest, StaleAndForeignContextsAreRefused) {
  CUcontext made = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&made, 0, 2), CUDA_SUCCESS);
  CUcontext current = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, made);
  EXPECT_EQ(cuCtxDestroy_v2(made), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDestroy_v2(made), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxSetCurrent(made), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxPushCurrent_v2(reinterpret_cast<CUcontext>(&current)), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, contexts[0]);
  EXPECT_EQ(cuCtxDestroy_v2(contexts[0]), CUDA_ERROR_INVALID_CONTEXT) << "it is a primary one";
}

TEST_F(DeviceTest, PrimaryContextLivesWhileItIsRetained) {
  unsigned flags = 1;
  int active = 0;
  EXPECT_EQ(cuDevicePrimaryCtxGetState(3, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 1);
  CUcontext again = nullptr;
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&again, 3), CUDA_SUCCESS);
  EXPECT_EQ(again, contexts[3]);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(3), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(3), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxGetState(3, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(3), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxSetCurrent(contexts[3]), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(DeviceTest, ResetPrimaryContextBeginsAgainUnderItsHandle) {
  use(2);
  const CUdeviceptr address = allocate(16);
  ASSERT_EQ(launch(kernel("store_value"), nullptr, CUdeviceptr{8}, 1u), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  ASSERT_EQ(cuDevicePrimaryCtxReset_v2(2), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuCtxSetCurrent(contexts[2]), CUDA_ERROR_INVALID_CONTEXT);
  CUcontext again = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&again, 2), CUDA_SUCCESS);
  EXPECT_EQ(again, contexts[2]);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE) << "it went with the reset";
  ASSERT_EQ(launch(kernel("store_value"), nullptr, allocate(4), 1u), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(2), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(2), CUDA_SUCCESS) << "resetting releases nothing";
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(2), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(DeviceTest, MemoryEndsWithItsContext) {
  std::size_t before = 0, during = 0, after = 0, total = 0;
  ASSERT_EQ(cuMemGetInfo_v2(&before, &total), CUDA_SUCCESS);
  CUcontext made = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&made, 0, 0), CUDA_SUCCESS);
  allocate(64 << 20);
  ASSERT_EQ(cuMemGetInfo_v2(&during, &total), CUDA_SUCCESS);
  EXPECT_EQ(before - during, 64u << 20);
  ASSERT_EQ(cuCtxDestroy_v2(made), CUDA_SUCCESS);
  ASSERT_EQ(cuMemGetInfo_v2(&after, &total), CUDA_SUCCESS);
  EXPECT_EQ(after, before);
}

TEST_F(DeviceTest, LimitsAreKept) {
  std::size_t value = 0;
  EXPECT_EQ(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
  EXPECT_EQ(value, 4096u);
  EXPECT_EQ(cuCtxSetLimit(static_cast<CUlimit>(99), 1), CUDA_ERROR_UNSUPPORTED_LIMIT);
  EXPECT_EQ(cuCtxGetLimit(&value, static_cast<CUlimit>(-1)), CUDA_ERROR_UNSUPPORTED_LIMIT);
}

TEST_F(DeviceTest, EntryPointsGoByVersion) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status;
  const auto get = [&](const char* name, int version, std::uint64_t flags = 0) {
    return cuGetProcAddress_v2(name, &function, version, flags, &status);
  };
  EXPECT_EQ(get("cuMemAlloc", 12000), CUDA_SUCCESS);
  EXPECT_EQ(function, reinterpret_cast<void*>(cuMemAlloc_v2));
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
  EXPECT_EQ(get("cuMemAlloc", 3010), CUDA_SUCCESS);
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(get("cuCtxCreate", 12000), CUDA_SUCCESS);
  EXPECT_EQ(function, reinterpret_cast<void*>(cuCtxCreate_v3));
  EXPECT_EQ(get("cuCtxCreate", 13000), CUDA_SUCCESS);
  EXPECT_EQ(function, reinterpret_cast<void*>(cuCtxCreate_v4));
  EXPECT_EQ(get("cuGraphInstantiate", 10000), CUDA_SUCCESS);
  EXPECT_EQ(function, reinterpret_cast<void*>(cuGraphInstantiate));
  EXPECT_EQ(get("cuGraphInstantiate", 12000), CUDA_SUCCESS);
  EXPECT_EQ(function, reinterpret_cast<void*>(cuGraphInstantiateWithFlags));
  EXPECT_EQ(get("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
            CUDA_SUCCESS);
  EXPECT_EQ(function, reinterpret_cast<void*>(cuLaunchKernel_ptsz));
  EXPECT_EQ(get("cuInit", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM), CUDA_SUCCESS);
  EXPECT_EQ(function, reinterpret_cast<void*>(cuInit));
  EXPECT_EQ(get("cuTexRefCreate", 12000), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(get("cuMemAlloc_v2", 12000), CUDA_SUCCESS);
  EXPECT_EQ(function, nullptr) << "names are without version";
  EXPECT_EQ(cuGetProcAddress("cuTexRefCreate", &function, 12000, 0), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(get("cuInit", 14000), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(get("cuInit", 12000, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(get(nullptr, 12000), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceTest, EveryErrorHasNameAndText) {
  for (const int code : {0, 1, 2, 3, 100, 201, 400, 600, 700, 716, 719, 900, 906, 910, 999}) {
    const char *name = nullptr, *text = nullptr;
    EXPECT_EQ(cuGetErrorName(static_cast<CUresult>(code), &name), CUDA_SUCCESS);
    EXPECT_EQ(std::string(name).rfind(code == 0 ? "CUDA_SUCCESS" : "CUDA_ERROR_", 0), 0u);
    EXPECT_EQ(cuGetErrorString(static_cast<CUresult>(code), &text), CUDA_SUCCESS);
    EXPECT_GT(std::strlen(text), 3u);
  }
  const char* name = "x";
  EXPECT_EQ(cuGetErrorName(static_cast<CUresult>(12345), &name), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(name, nullptr);
}

TEST_F(DeviceTest, PeersSeeEachOthersMemoryOnceEnabled) {
  int can = 0;
  EXPECT_EQ(cuDeviceCanAccessPeer(&can, 0, 1), CUDA_SUCCESS);
  EXPECT_EQ(can, 1);
  EXPECT_EQ(cuDeviceCanAccessPeer(&can, 1, 1), CUDA_SUCCESS);
  EXPECT_EQ(can, 0);
  use(1);
  const CUdeviceptr early = allocate(4);
  EXPECT_EQ(cuMemsetD32_v2(early, 77, 1), CUDA_SUCCESS);
  use(0);
  EXPECT_EQ(cuCtxEnablePeerAccess(contexts[1], 0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxEnablePeerAccess(contexts[1], 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  EXPECT_EQ(cuCtxEnablePeerAccess(contexts[0], 0), CUDA_ERROR_INVALID_CONTEXT);
  use(1);
  const CUdeviceptr late = allocate(4 << 20);
  use(0);
  const CUdeviceptr own = allocate(4);
  const CUfunction copy_word = kernel("copy_word");
  EXPECT_EQ(launch(copy_word, nullptr, own, early), CUDA_SUCCESS);
  EXPECT_EQ(launch(copy_word, nullptr, late + (4 << 20) - 4, own), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(read_word(late + (4 << 20) - 4), 77u);
  EXPECT_EQ(cuCtxDisablePeerAccess(contexts[1]), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDisablePeerAccess(contexts[1]), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  EXPECT_EQ(launch(copy_word, nullptr, own, early), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

}  // namespace
}  // namespace kiln::emulator_test
