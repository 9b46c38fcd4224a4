// Settings, in processes of their own: they are read once, by cuInit.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "api_fixture.h"
#include "emulator/memory/memory.h"

namespace kiln::emulator_test {
namespace {

// Each body runs in a new process that never called cuInit.
class SettingsTest : public ::testing::Test {
 protected:
  SettingsTest() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

CUcontext start() {
  CUcontext context = nullptr;
  if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
      cuCtxSetCurrent(context) != CUDA_SUCCESS)
    std::_Exit(90);
  return context;
}

CUfunction kernel(const char* name) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  if (cuModuleLoadData(&module, kKernels) != CUDA_SUCCESS ||
      cuModuleGetFunction(&function, module, name) != CUDA_SUCCESS)
    std::_Exit(91);
  return function;
}

TEST_F(SettingsTest, NothingWorksBeforeInit) {
  EXPECT_EXIT(
      {
        int count = 0;
        CUdeviceptr address = 0;
        const bool right = cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                           cuMemAlloc_v2(&address, 4) == CUDA_ERROR_NOT_INITIALIZED &&
                           cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED &&
                           cuStreamQuery(nullptr) == CUDA_ERROR_NOT_INITIALIZED &&
                           cuInit(1) == CUDA_ERROR_INVALID_VALUE;
        std::_Exit(right ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(SettingsTest, DevicesAndMemory) {
  EXPECT_EXIT(
      {
        setenv("KILN_EMULATOR_DEVICES", "8", 1);
        setenv("KILN_EMULATOR_MEMORY", "64M", 1);
        setenv("KILN_EMULATOR_ARCH", "80", 1);
        setenv("KILN_EMULATOR_PEERS", "0", 1);
        setenv("KILN_EMULATOR_MULTICAST", "0", 1);
        start();
        int count = 0;
        int major = 0;
        int peers = 1;
        int multicast = 1;
        std::size_t bytes = 0;
        cuDeviceGetCount(&count);
        cuDeviceTotalMem_v2(&bytes, 7);
        cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 7);
        cuDeviceGetAttribute(&multicast, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 7);
        cuDeviceCanAccessPeer(&peers, 0, 1);
        std::fprintf(stderr, "%d %zu %d %d %d", count, bytes, major, peers, multicast);
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "8 67108864 8 0 0");
}

TEST_F(SettingsTest, WrongSettingsAreExplained) {
  EXPECT_EXIT(
      {
        setenv("KILN_EMULATOR_DEVICES", "9", 1);
        std::_Exit(cuInit(0));
      },
      ::testing::ExitedWithCode(999 & 255), "KILN_EMULATOR_DEVICES='9'.*from 1 to 8");
  EXPECT_EXIT(
      {
        setenv("KILN_EMULATOR_CHECK", "memory,typo", 1);
        std::_Exit(cuInit(0));
      },
      ::testing::ExitedWithCode(999 & 255), "memory, init and leak");
}

TEST_F(SettingsTest, TheNthCallFails) {
  EXPECT_EXIT(
      {
        setenv("KILN_EMULATOR_FAIL", "5:2", 1);
        start();  // calls 1 to 3
        CUdeviceptr address = 0;
        const bool right = cuMemAlloc_v2(&address, 4) == CUDA_SUCCESS &&
                           cuMemFree_v2(address) == CUDA_ERROR_OUT_OF_MEMORY &&
                           cuMemFree_v2(address) == CUDA_SUCCESS;
        std::_Exit(right ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(SettingsTest, ForkedChildrenAreRefused) {
  EXPECT_EXIT(
      {
        start();
        const pid_t child = fork();
        if (child == 0) {
          CUdeviceptr address = 0;
          std::_Exit(cuMemAlloc_v2(&address, 4) == CUDA_ERROR_NOT_INITIALIZED &&
                             cuInit(0) == CUDA_ERROR_NOT_INITIALIZED
                         ? 0
                         : 1);
        }
        int status = 1;
        waitpid(child, &status, 0);
        CUdeviceptr address = 0;
        std::_Exit(status == 0 && cuMemAlloc_v2(&address, 4) == CUDA_SUCCESS ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "forked after cuInit");
}

TEST_F(SettingsTest, HostAccessToDeviceMemoryNamesTheBuffer) {
  EXPECT_EXIT(
      {
        start();
        CUdeviceptr address = 0;
        cuMemAlloc_v2(&address, 1000);
        *reinterpret_cast<volatile int*>(address + 12) = 1;
        std::_Exit(0);
      },
      ::testing::KilledBySignal(SIGSEGV),
      "the host touched the device address.*byte 12 of the 1000 bytes.*device 0.*cuMemAlloc");
}

TEST_F(SettingsTest, LeaksAreReportedAtExit) {
  EXPECT_EXIT(
      {
        setenv("KILN_EMULATOR_CHECK", "leak", 1);
        start();
        CUdeviceptr kept = 0;
        CUdeviceptr freed = 0;
        cuMemAlloc_v2(&kept, 1234);
        cuMemAlloc_v2(&freed, 99);
        cuMemFree_v2(freed);
        std::exit(0);
      },
      ::testing::ExitedWithCode(66), "1 allocations of 1234 bytes.*cuMemAlloc, allocation");
  EXPECT_EXIT(
      {
        setenv("KILN_EMULATOR_CHECK", "leak", 1);
        start();
        kernel("empty");
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(SettingsTest, ChecksOfMemoryKnowTheBounds) {
  EXPECT_EXIT(
      {
        setenv("KILN_EMULATOR_CHECK", "memory,init", 1);
        start();
        CUdeviceptr address = 0;
        cuMemAlloc_v2(&address, 13);
        const auto& view = emulator::process_memory()->view(0);
        const std::uint8_t* bounds = view.bounds + ((address - view.first) >> 3);
        const std::uint8_t* written = view.written + (address - view.first);
        bool right = bounds[0] == 0 && bounds[1] == 5 && bounds[2] == 255 && written[3] == 0;
        cuMemsetD8_v2(address + 3, 1, 2);
        right = right && written[2] == 0 && written[3] == 1 && written[4] == 1 && written[5] == 0;
        cuMemFree_v2(address);
        right = right && bounds[0] == 255;
        std::_Exit(right ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

[[noreturn]] void take_turns_with_one_worker() {
  setenv("KILN_EMULATOR_WORKERS", "1", 1);
  start();
  void* memory = nullptr;
  cuMemHostAlloc(&memory, 8, 0);
  auto* words = static_cast<std::uint32_t*>(memory);
  words[0] = words[1] = 0;
  const CUfunction take_turns = kernel("take_turns");
  for (std::uint32_t i = 0; i < 2; ++i) {
    CUstream stream = nullptr;
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    std::uint32_t *mine = words + i, *other = words + 1 - i;
    std::uint32_t rounds = 100, lead = 1 - i;
    void* parameters[] = {&mine, &other, &rounds, &lead};
    cuLaunchKernel(take_turns, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
  }
  const CUresult result = cuCtxSynchronize();
  std::_Exit(result == CUDA_SUCCESS && words[0] == 100 && words[1] == 100 ? 0 : 1);
}

TEST_F(SettingsTest, OneWorkerServesKernelsThatWaitForEachOther) {
  EXPECT_EXIT(take_turns_with_one_worker(), ::testing::ExitedWithCode(0), "");
}

// The order in which two streams count up: "ABBA…", written by their host functions.
std::string order_with_seed(const char* seed) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    setenv("KILN_EMULATOR_SEED", seed, 1);
    start();
    void* memory = nullptr;
    cuMemHostAlloc(&memory, 256, 0);
    auto* words = static_cast<std::uint32_t*>(memory);
    for (int i = 0; i < 64; ++i) words[i] = 0;
    const CUfunction add_value = kernel("add_value");
    const CUfunction copy_word = kernel("copy_word");
    // Every step of a stream adds 1 to the count of both and notes what it saw.
    CUstream streams[2] = {};
    for (CUstream& stream : streams) cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    for (int step = 0; step < 12; ++step)
      for (int i = 0; i < 2; ++i) {
        std::uint32_t* count = words;
        std::uint32_t one = 1;
        std::uint32_t* note = words + 1 + 2 * step + i;
        void* add[] = {&count, &one};
        void* copy[] = {&note, &count};
        cuLaunchKernel(add_value, 1, 1, 1, 1, 1, 1, 0, streams[i], add, nullptr);
        cuLaunchKernel(copy_word, 1, 1, 1, 1, 1, 1, 0, streams[i], copy, nullptr);
      }
    if (cuCtxSynchronize() != CUDA_SUCCESS) std::_Exit(1);
    std::string text;
    for (int i = 1; i <= 24; ++i) text += static_cast<char>('A' + words[i]);
    (void)!write(ends[1], text.data(), text.size());
    std::_Exit(0);
  }
  close(ends[1]);
  char text[64] = {};
  (void)!read(ends[0], text, sizeof text - 1);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return text;
}

TEST_F(SettingsTest, SeedsRepeatTheOrder) {
  EXPECT_EXIT(
      {
        const std::string first = order_with_seed("7");
        bool right = first.size() == 24;
        for (int i = 0; i < 3; ++i) right = right && order_with_seed("7") == first;
        bool other = false;
        for (const char* seed : {"1", "2", "3"}) other = other || order_with_seed(seed) != first;
        std::fprintf(stderr, "%s", first.c_str());
        std::_Exit(right && other ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace kiln::emulator_test
