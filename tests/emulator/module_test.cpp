// Modules, libraries, linking, functions, launches and occupancy.

#include <string>

#include "api_fixture.h"

namespace kiln::emulator_test {
namespace {

using ModuleTest = ApiTest;

TEST_F(ModuleTest, GlobalsHaveTheirFirstValuesInEachContext) {
  CUdeviceptr addresses[2] = {};
  for (int device = 0; device < 2; ++device) {
    use(device);
    CUmodule module = nullptr;
    ASSERT_EQ(cuModuleLoadData(&module, kKernels), CUDA_SUCCESS);
    std::size_t bytes = 0;
    ASSERT_EQ(cuModuleGetGlobal_v2(&addresses[device], &bytes, module, "counter"), CUDA_SUCCESS);
    EXPECT_EQ(bytes, 4u);
    EXPECT_EQ(read_word(addresses[device]), 5u);
    CUfunction count_up = nullptr;
    ASSERT_EQ(cuModuleGetFunction(&count_up, module, "count_up"), CUDA_SUCCESS);
    ASSERT_EQ(launch_blocks(count_up, nullptr, 10u + device), CUDA_SUCCESS);
    EXPECT_EQ(cuModuleGetGlobal_v2(&addresses[device], &bytes, module, "other"),
              CUDA_ERROR_NOT_FOUND);
    EXPECT_EQ(cuMemFree_v2(addresses[device]), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(read_word(addresses[device]), 15u + device);
  }
  EXPECT_NE(addresses[0], addresses[1]);
}

TEST_F(ModuleTest, WhatIsNoPtxIsRefused) {
  CUmodule module = nullptr;
  EXPECT_EQ(cuModuleLoadData(&module, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuModuleLoadData(nullptr, kKernels), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuModuleLoadData(&module, reinterpret_cast<void*>(0x1000)), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(cuModuleLoadData(&module,
                             "\x7f"
                             "ELF and more"),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
  char log[200] = {};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  EXPECT_EQ(cuModuleLoadDataEx(&module,
                               ".version 8.0\n.target sm_90\n.address_size 64\n"
                               ".entry bad() { frobnicate.u32 %r1; }",
                               2, options, values),
            CUDA_ERROR_INVALID_PTX);
  EXPECT_NE(std::string(log).find("frobnicate"), std::string::npos) << log;
  EXPECT_EQ(cuModuleLoadData(&module, ".version 99.0\n.target sm_90\n.address_size 64\n"),
            CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT_EQ(module, nullptr);
}

TEST_F(ModuleTest, UnloadedModulesAreGone) {
  CUmodule module = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, kKernels), CUDA_SUCCESS);
  CUfunction function = nullptr;
  EXPECT_EQ(cuModuleGetFunction(&function, module, "nothing"), CUDA_ERROR_NOT_FOUND);
  ASSERT_EQ(cuModuleGetFunction(&function, module, "empty"), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuModuleGetFunction(&function, module, "empty"), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(launch(function, nullptr), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ModuleTest, LibrariesServeEveryContext) {
  CUlibrary library = nullptr;
  ASSERT_EQ(cuLibraryLoadData(&library, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0),
            CUDA_SUCCESS);
  CUkernel kernel_handle = nullptr;
  ASSERT_EQ(cuLibraryGetKernel(&kernel_handle, library, "store_value"), CUDA_SUCCESS);
  std::uint32_t* words = pinned(2);
  for (int device = 0; device < 2; ++device) {
    use(device);
    CUfunction function = nullptr;
    ASSERT_EQ(cuKernelGetFunction(&function, kernel_handle), CUDA_SUCCESS);
    ASSERT_EQ(launch(device == 0 ? function : reinterpret_cast<CUfunction>(kernel_handle), nullptr,
                     address_of(words + device), 10u + device),
              CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(words[device], 10u + device);
  }
  int value = 0;
  EXPECT_EQ(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 << 10,
                                 kernel_handle, 1),
            CUDA_SUCCESS);
  EXPECT_EQ(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                 kernel_handle, 1),
            CUDA_SUCCESS);
  EXPECT_EQ(value, 100 << 10);
  EXPECT_EQ(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                 kernel_handle, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(value, 48 << 10);
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(cuLibraryGetGlobal(&address, &bytes, library, "counter"), CUDA_SUCCESS);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuLibraryGetKernel(&kernel_handle, library, "empty"), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ModuleTest, LinkedTextLoads) {
  CUlinkState state = nullptr;
  ASSERT_EQ(cuLinkCreate_v2(0, nullptr, nullptr, &state), CUDA_SUCCESS);
  const std::string text = kKernels;
  ASSERT_EQ(cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, const_cast<char*>(text.data()),
                             text.size() + 1, "kernels", 0, nullptr, nullptr),
            CUDA_SUCCESS);
  EXPECT_EQ(cuLinkAddData_v2(state, CU_JIT_INPUT_CUBIN, const_cast<char*>(text.data()), 4, "", 0,
                             nullptr, nullptr),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
  void* image = nullptr;
  std::size_t bytes = 0;
  ASSERT_EQ(cuLinkComplete(state, &image, &bytes), CUDA_SUCCESS);
  CUmodule module = nullptr;
  EXPECT_EQ(cuModuleLoadData(&module, image), CUDA_SUCCESS);
  EXPECT_EQ(cuLinkDestroy(state), CUDA_SUCCESS);
  EXPECT_EQ(cuLinkDestroy(state), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ModuleTest, ParametersAreDescribed) {
  const CUfunction function = kernel("store_value");
  std::size_t offset = 9, bytes = 9;
  EXPECT_EQ(cuFuncGetParamInfo(function, 1, &offset, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(offset, 8u);
  EXPECT_EQ(bytes, 4u);
  EXPECT_EQ(cuFuncGetParamInfo(function, 2, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
  const char* name = nullptr;
  EXPECT_EQ(cuFuncGetName(&name, function), CUDA_SUCCESS);
  EXPECT_STREQ(name, "store_value");
}

TEST_F(ModuleTest, LaunchesAreChecked) {
  const CUfunction empty = kernel("empty"), store_value = kernel("store_value");
  const auto shape = [&](unsigned grid_y, unsigned block_x, unsigned block_z, unsigned shared) {
    return cuLaunchKernel(empty, 1, grid_y, 1, block_x, 1, block_z, shared, nullptr, nullptr,
                          nullptr);
  };
  EXPECT_EQ(shape(1, 1, 1, 0), CUDA_SUCCESS);
  EXPECT_EQ(shape(1, 1024, 1, 0), CUDA_SUCCESS);
  EXPECT_EQ(shape(1, 1025, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(shape(1, 512, 4, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(shape(1, 1, 65, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(shape(65536, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(shape(0, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(shape(1, 1, 1, 48 << 10), CUDA_SUCCESS);
  EXPECT_EQ(shape(1, 1, 1, (48 << 10) + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncSetAttribute(empty, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 << 10),
            CUDA_SUCCESS);
  EXPECT_EQ(shape(1, 1, 1, 227 << 10), CUDA_SUCCESS);
  EXPECT_EQ(
      cuFuncSetAttribute(empty, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (227 << 10) + 1),
      CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunchKernel(store_value, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  void* missing[] = {nullptr, nullptr};
  EXPECT_EQ(cuLaunchKernel(store_value, 1, 1, 1, 1, 1, 1, 0, nullptr, missing, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
  use(1);
  EXPECT_EQ(launch(empty, nullptr), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(ModuleTest, PackedParameters) {
  std::uint32_t* word = pinned(1);
  struct {
    CUdeviceptr to;
    std::uint32_t value;
  } packed{address_of(word), 1234};
  std::size_t bytes = 12;
  void* extra[] = {reinterpret_cast<void*>(CU_LAUNCH_PARAM_BUFFER_POINTER), &packed,
                   reinterpret_cast<void*>(CU_LAUNCH_PARAM_BUFFER_SIZE), &bytes,
                   reinterpret_cast<void*>(CU_LAUNCH_PARAM_END)};
  const CUfunction store_value = kernel("store_value");
  const auto run = [&] {
    return cuLaunchKernel(store_value, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra);
  };
  EXPECT_EQ(run(), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(*word, 1234u);
  bytes = 8;
  EXPECT_EQ(run(), CUDA_ERROR_INVALID_VALUE);
  bytes = 400;
  EXPECT_EQ(run(), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ModuleTest, ExtendedLaunches) {
  const CUfunction empty = kernel("empty");
  CUlaunchAttribute attributes[2]{};
  CUlaunchConfig config{2, 1, 1, 32, 1, 1, 0, nullptr, attributes, 1};
  const auto run = [&] { return cuLaunchKernelEx(&config, empty, nullptr, nullptr); };
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attributes[0].value.programmaticStreamSerializationAllowed = 1;
  EXPECT_EQ(run(), CUDA_SUCCESS);
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attributes[0].value.clusterDim.x = 1;
  attributes[0].value.clusterDim.y = 1;
  attributes[0].value.clusterDim.z = 1;
  EXPECT_EQ(run(), CUDA_SUCCESS);
  attributes[0].value.clusterDim.x = 2;
  EXPECT_EQ(run(), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  attributes[0].id = static_cast<CUlaunchAttributeID>(1000);
  EXPECT_EQ(run(), CUDA_ERROR_INVALID_VALUE);
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attributes[0].value.cooperative = 1;
  EXPECT_EQ(run(), CUDA_SUCCESS);
  config.gridDimX = 132 * 32 + 1;
  EXPECT_EQ(run(), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
}

TEST_F(ModuleTest, OccupancyIsThatOfSm90) {
  const CUfunction empty = kernel("empty");
  ASSERT_EQ(cuFuncSetAttribute(empty, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 << 10),
            CUDA_SUCCESS);
  struct Expected {
    int threads;
    std::size_t shared;
    int blocks;
  };
  // By hand: 64 warps and 32 blocks a multiprocessor; 228 KiB of shared memory, of which each block
  // needs its own and 1 KiB.
  for (const auto& [threads, shared, blocks] : {Expected{1, 0, 32},
                                                {32, 0, 32},
                                                {64, 0, 32},
                                                {65, 0, 21},
                                                {128, 0, 16},
                                                {256, 0, 8},
                                                {1024, 0, 2},
                                                {32, 227 << 10, 1},
                                                {32, 113 << 10, 2},
                                                {32, (113 << 10) + 1, 1},
                                                {128, 56 << 10, 4},
                                                {32, 228 << 10, 0},
                                                {1025, 0, 0}}) {
    int found = -1;
    EXPECT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&found, empty, threads, shared),
              CUDA_SUCCESS);
    EXPECT_EQ(found, blocks) << threads << " threads, " << shared << " bytes";
  }
  int grid = 0, block = 0;
  EXPECT_EQ(cuOccupancyMaxPotentialBlockSize(&grid, &block, empty, nullptr, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(block, 1024);
  EXPECT_EQ(grid, 2 * 132);
  int value = 0;
  EXPECT_EQ(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, empty),
            CUDA_SUCCESS);
  EXPECT_EQ(value, 1024);
  EXPECT_EQ(cuFuncGetAttribute(&value, static_cast<CUfunction_attribute>(500), empty),
            CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace kiln::emulator_test
