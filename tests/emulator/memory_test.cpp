// Allocation, copies, fills, host memory, pools, pointers.

#include <sys/mman.h>

#include <array>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>

#include "api_fixture.h"

namespace kiln::emulator_test {
namespace {

using MemoryTest = ApiTest;

std::vector<unsigned char> pattern(std::size_t bytes) {
  std::vector<unsigned char> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i) values[i] = static_cast<unsigned char>(i * 7 + i / 251);
  return values;
}

TEST_F(MemoryTest, AllocationsAreAlignedAndApart) {
  std::set<CUdeviceptr> seen;
  CUdeviceptr last_end = 0;
  for (const std::size_t bytes : {1u, 3u, 511u, 512u, 513u, 4096u, 600u << 10, 5u << 20}) {
    const CUdeviceptr address = allocate(bytes);
    EXPECT_EQ(address % 256, 0u);
    EXPECT_TRUE(seen.insert(address).second);
    EXPECT_GE(address, last_end);
    last_end = address + bytes;
    CUdeviceptr base = 0;
    std::size_t range = 0;
    EXPECT_EQ(cuMemGetAddressRange_v2(&base, &range, address + bytes - 1), CUDA_SUCCESS);
    EXPECT_EQ(base, address);
    EXPECT_EQ(range, bytes);
  }
  for (const CUdeviceptr address : seen) EXPECT_EQ(cuMemFree_v2(address), CUDA_SUCCESS);
}

TEST_F(MemoryTest, WrongFreesAreRefused) {
  const CUdeviceptr address = allocate(1000);
  EXPECT_EQ(cuMemFree_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(address + 1), CUDA_ERROR_INVALID_VALUE);
  int local = 0;
  EXPECT_EQ(cuMemFree_v2(address_of(&local)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree_v2(~0ull), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree_v2(address), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAlloc_v2(nullptr, 4), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr none = 0;
  EXPECT_EQ(cuMemAlloc_v2(&none, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryTest, CapacityIsEnforcedAndGivenBack) {
  CUdeviceptr first = 0, second = 0;
  EXPECT_EQ(cuMemAlloc_v2(&first, 200 << 20), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc_v2(&second, 100 << 20), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAlloc_v2(&second, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAlloc_v2(&second, 1ull << 50), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemFree_v2(first), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc_v2(&second, 200 << 20), CUDA_SUCCESS);
}

TEST_F(MemoryTest, CopiesRoundTrip) {
  const auto source = pattern(3 << 20);
  const CUdeviceptr first = allocate(source.size()), second = allocate(source.size());
  std::vector<unsigned char> back(source.size());
  ASSERT_EQ(cuMemcpyHtoD_v2(first, source.data(), source.size()), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoD_v2(second + 1, first, source.size() - 1), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoH_v2(back.data(), second + 1, source.size() - 1), CUDA_SUCCESS);
  EXPECT_EQ(std::memcmp(back.data(), source.data(), source.size() - 1), 0);
  ASSERT_EQ(cuMemcpy(address_of(back.data()), first, 100), CUDA_SUCCESS);
  EXPECT_EQ(std::memcmp(back.data(), source.data(), 100), 0);
}

TEST_F(MemoryTest, AsyncCopyKeepsWhatTheHostHadAtTheCall) {
  std::uint32_t* flag = pinned(1);
  const CUdeviceptr address = allocate(1 << 20);
  const CUstream busy = stream();
  ASSERT_EQ(launch(kernel("wait_flag"), busy, address_of(flag), 1u), CUDA_SUCCESS);
  std::vector<unsigned char> source(1 << 20, 0x11);
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(address, source.data(), source.size(), busy), CUDA_SUCCESS);
  std::memset(source.data(), 0x22, source.size());
  EXPECT_EQ(cuStreamQuery(busy), CUDA_ERROR_NOT_READY);
  raise(flag);
  ASSERT_EQ(cuStreamSynchronize(busy), CUDA_SUCCESS);
  EXPECT_EQ(read_word(address + (1 << 20) - 4), 0x11111111u);
}

TEST_F(MemoryTest, WildPointersAreAnswersOfTheCall) {
  const CUdeviceptr address = allocate(100);
  void* closed = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* constant = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::array<char, 200> host{};
  EXPECT_EQ(cuMemcpyHtoD_v2(address, nullptr, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD_v2(address, closed, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD_v2(address, constant, 4), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoH_v2(constant, address, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD_v2(address, reinterpret_cast<void*>(~0ull - 2), 100),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD_v2(address, host.data(), 101), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD_v2(address, host.data(), SIZE_MAX), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD_v2(address_of(host.data()), host.data(), 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoH_v2(host.data(), 0, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(address, closed, 4, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD8_v2(address, 0, 101), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD32_v2(address + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD32_v2(address, 0, SIZE_MAX / 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD_v2(address, host.data(), 0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS) << "the context is as well as before";
  munmap(closed, 4096);
  munmap(constant, 4096);
}

TEST_F(MemoryTest, FillsOfAllWidths) {
  const CUdeviceptr address = allocate(64);
  std::array<unsigned char, 64> host{};
  ASSERT_EQ(cuMemsetD8_v2(address, 0xAB, 64), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD16Async(address + 2, 0x1234, 3, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32Async(address + 8, 0xCAFEBABE, 2, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD2D8Async(address + 32, 8, 0x55, 3, 3, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoH_v2(host.data(), address, 64), CUDA_SUCCESS);
  std::array<unsigned char, 64> expected;
  expected.fill(0xAB);
  for (int i = 0; i < 3; ++i) expected[2 + 2 * i] = 0x34, expected[3 + 2 * i] = 0x12;
  const unsigned char word[] = {0xBE, 0xBA, 0xFE, 0xCA};
  for (int i = 0; i < 8; ++i) expected[8 + i] = word[i % 4];
  for (int row = 0; row < 3; ++row)
    for (int i = 0; i < 3; ++i) expected[32 + row * 8 + i] = 0x55;
  EXPECT_EQ(host, expected);
}

TEST_F(MemoryTest, BoxesMeetTheirFormula) {
  // Element (x, y, z) of a box lies at x + pitch * (y + height * z) on either side.
  constexpr std::size_t kPitch = 32, kHeight = 5, kToPitch = 48, kToHeight = 4;
  const auto source = pattern(kPitch * kHeight * 4);
  std::vector<unsigned char> target(kToPitch * kToHeight * 3, 0), expected = target;
  const CUdeviceptr from = allocate(source.size()), to = allocate(target.size());
  ASSERT_EQ(cuMemcpyHtoD_v2(from, source.data(), source.size()), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8_v2(to, 0, target.size()), CUDA_SUCCESS);
  CUDA_MEMCPY3D box{};
  box.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = from;
  box.srcPitch = kPitch;
  box.srcHeight = kHeight;
  box.srcXInBytes = 3;
  box.srcY = 1;
  box.srcZ = 1;
  box.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  box.dstDevice = to;
  box.dstPitch = kToPitch;
  box.dstHeight = kToHeight;
  box.dstXInBytes = 7;
  box.dstY = 1;
  box.dstZ = 0;
  box.WidthInBytes = 11;
  box.Height = 3;
  box.Depth = 3;
  ASSERT_EQ(cuMemcpy3D_v2(&box), CUDA_SUCCESS);
  for (std::size_t z = 0; z < 3; ++z)
    for (std::size_t y = 0; y < 3; ++y)
      for (std::size_t x = 0; x < 11; ++x)
        expected[7 + x + kToPitch * (1 + y + kToHeight * z)] =
            source[3 + x + kPitch * (1 + y + kHeight * (1 + z))];
  ASSERT_EQ(cuMemcpyDtoH_v2(target.data(), to, target.size()), CUDA_SUCCESS);
  EXPECT_EQ(target, expected);
  box.dstHeight = 3;
  EXPECT_EQ(cuMemcpy3D_v2(&box), CUDA_ERROR_INVALID_VALUE) << "rows 1..3 of 3";
  box.dstHeight = kToHeight;
  box.srcPitch = SIZE_MAX / 2;
  EXPECT_EQ(cuMemcpy3D_v2(&box), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpy3D_v2(nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryTest, RectanglesFromTheHost) {
  const auto source = pattern(100);
  const CUdeviceptr to = allocate(100);
  ASSERT_EQ(cuMemsetD8_v2(to, 0, 100), CUDA_SUCCESS);
  CUDA_MEMCPY2D rectangle{};
  rectangle.srcMemoryType = CU_MEMORYTYPE_HOST;
  rectangle.srcHost = source.data();
  rectangle.srcPitch = 20;
  rectangle.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  rectangle.dstDevice = to;
  rectangle.dstPitch = 10;
  rectangle.WidthInBytes = 10;
  rectangle.Height = 5;
  const CUstream own = stream();
  ASSERT_EQ(cuMemcpy2DAsync_v2(&rectangle, own), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(own), CUDA_SUCCESS);
  std::vector<unsigned char> found(50);
  ASSERT_EQ(cuMemcpyDtoH_v2(found.data(), to, 50), CUDA_SUCCESS);
  for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(found[i], source[i / 10 * 20 + i % 10]);
  rectangle.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  EXPECT_EQ(cuMemcpy2DAsync_v2(&rectangle, own), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryTest, CopiesBetweenDevices) {
  const CUdeviceptr first = allocate(16);
  ASSERT_EQ(cuMemsetD32_v2(first, 99, 4), CUDA_SUCCESS);
  use(2);
  const CUdeviceptr second = allocate(16);
  const CUstream own = stream();
  ASSERT_EQ(cuMemcpyPeerAsync(second, contexts[2], first, contexts[0], 16, own), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(own), CUDA_SUCCESS);
  EXPECT_EQ(read_word(second + 12), 99u);
  EXPECT_EQ(cuMemcpyPeerAsync(second, nullptr, first, contexts[0], 16, own),
            CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(MemoryTest, BatchOfCopies) {
  const CUdeviceptr first = allocate(8), second = allocate(8);
  std::uint32_t* host = pinned(2);
  host[0] = 5, host[1] = 6;
  CUdeviceptr to[] = {first, second}, from[] = {address_of(host), address_of(host + 1)};
  std::size_t bytes[] = {4, 4}, starts[] = {0};
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  const CUstream own = stream();
  ASSERT_EQ(cuMemcpyBatchAsync_v2(to, from, bytes, 2, &attributes, starts, 1, own), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(own), CUDA_SUCCESS);
  EXPECT_EQ(read_word(first), 5u);
  EXPECT_EQ(read_word(second), 6u);
  EXPECT_EQ(cuMemcpyBatchAsync_v2(to, from, bytes, 2, &attributes, starts, 1, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(MemoryTest, PinnedMemoryHasOneAddress) {
  std::uint32_t* words = pinned(1000);
  words[999] = 31;
  const CUdeviceptr own = allocate(4);
  ASSERT_EQ(launch(kernel("copy_word"), nullptr, own, address_of(words + 999)), CUDA_SUCCESS);
  EXPECT_EQ(read_word(own), 31u);
  use(3);
  ASSERT_EQ(launch(kernel("store_value"), nullptr, address_of(words), 8u), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(words[0], 8u);
  CUdeviceptr device = 0;
  EXPECT_EQ(cuMemHostGetDevicePointer_v2(&device, words + 3, 0), CUDA_SUCCESS);
  EXPECT_EQ(device, address_of(words + 3));
  unsigned flags = 0;
  EXPECT_EQ(cuMemHostGetFlags(&flags, words), CUDA_SUCCESS);
  EXPECT_EQ(flags, CU_MEMHOSTALLOC_DEVICEMAP);
  EXPECT_EQ(cuMemFreeHost(words + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeHost(words), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(words), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryTest, RegisteredMemoryIsSharedBothWays) {
  // In the middle of a larger piece, so that its pages have neighbours.
  std::vector<std::uint32_t> words(10000);
  std::iota(words.begin(), words.end(), 0u);
  std::uint32_t* part = words.data() + 1500;
  ASSERT_EQ(cuMemHostRegister_v2(part, 5000 * 4, CU_MEMHOSTREGISTER_DEVICEMAP), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostRegister_v2(part + 10, 4, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  for (std::uint32_t i = 0; i < words.size(); ++i) ASSERT_EQ(words[i], i);
  CUdeviceptr device = 0;
  ASSERT_EQ(cuMemHostGetDevicePointer_v2(&device, part, 0), CUDA_SUCCESS);
  const CUdeviceptr own = allocate(4);
  part[4999] = 4711;
  ASSERT_EQ(launch(kernel("copy_word"), nullptr, own, device + 4999 * 4), CUDA_SUCCESS);
  EXPECT_EQ(read_word(own), 4711u);
  use(1);
  ASSERT_EQ(launch(kernel("store_value"), nullptr, device + 40, 12u), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(part[10], 12u);
  use(0);
  EXPECT_EQ(cuMemHostUnregister(part + 1), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  ASSERT_EQ(cuMemHostUnregister(part), CUDA_SUCCESS);
  EXPECT_EQ(part[10], 12u);
  EXPECT_EQ(part[4999], 4711u);
  EXPECT_EQ(cuMemHostGetDevicePointer_v2(&device, part, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryTest, RegisteringWhileOthersWriteLosesNothing) {
  std::vector<std::uint32_t> words(1 << 16);
  std::atomic<bool> over = false;
  std::uint32_t rounds = 0;
  std::thread writer([&] {
    for (; !over; ++rounds)
      for (std::uint32_t i = 0; i < words.size(); i += 64) {
        // Every count must find the one before it, whichever pages hold it.
        if (words[i] != rounds) {
          ADD_FAILURE() << "word " << i << " is " << words[i] << " in round " << rounds;
          over = true;
          return;
        }
        words[i] = rounds + 1;
      }
  });
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(cuMemHostRegister_v2(words.data(), words.size() * 4, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemHostUnregister(words.data()), CUDA_SUCCESS);
  }
  over = true;
  writer.join();
  EXPECT_EQ(cuMemHostRegister_v2(nullptr, 4, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostRegister_v2(reinterpret_cast<void*>(0x1000), 4, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryTest, PoolsKeepTheOrderOfStreams) {
  const CUstream own = stream();
  std::uint32_t* flag = pinned(1);
  CUdeviceptr address = 0;
  ASSERT_EQ(cuMemAllocAsync(&address, 8 << 20, own), CUDA_SUCCESS);
  ASSERT_EQ(launch(kernel("wait_flag"), own, address_of(flag), 1u), CUDA_SUCCESS);
  ASSERT_EQ(launch(kernel("store_value"), own, address, 5u), CUDA_SUCCESS);
  CUdeviceptr copy = allocate(4);
  ASSERT_EQ(cuMemcpyDtoDAsync_v2(copy, address, 4, own), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFreeAsync(address, own), CUDA_SUCCESS);
  CUmemoryPool pool = nullptr;
  ASSERT_EQ(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
  std::uint64_t used = 0;
  ASSERT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used), CUDA_SUCCESS);
  EXPECT_EQ(used, 8u << 20) << "the stream has not come to the free";
  raise(flag);
  ASSERT_EQ(cuStreamSynchronize(own), CUDA_SUCCESS);
  EXPECT_EQ(read_word(copy), 5u);
  ASSERT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used), CUDA_SUCCESS);
  EXPECT_EQ(used, 0u);
  EXPECT_EQ(cuMemFreeAsync(address, own), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAllocAsync(&address, 300 << 20, own), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(MemoryTest, PoolsLiveAsLongAsTheirMemory) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  CUmemoryPool pool = nullptr;
  ASSERT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
  use(1);
  const CUstream own = stream();
  CUdeviceptr address = 0;
  ASSERT_EQ(cuMemAllocFromPoolAsync(&address, 4, pool, own), CUDA_SUCCESS);
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(cuMemPoolSetAccess(pool, &access, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);
  EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_HANDLE);
  use(0);
  ASSERT_EQ(launch(kernel("store_value"), nullptr, address, 9u), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  use(1);
  EXPECT_EQ(read_word(address), 9u);
  ASSERT_EQ(cuMemFreeAsync(address, own), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(own), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryTest, PointersTellWhatTheyAre) {
  const CUdeviceptr device = allocate(1000);
  std::uint32_t* host = pinned(10);
  unsigned type = 0;
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 5),
            CUDA_SUCCESS);
  EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address_of(host)),
            CUDA_SUCCESS);
  EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_HOST));
  CUcontext context = nullptr;
  EXPECT_EQ(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, device), CUDA_SUCCESS);
  EXPECT_EQ(context, contexts[0]);
  int local = 0;
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address_of(&local)),
            CUDA_ERROR_INVALID_VALUE);
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  std::size_t range = 1;
  int ordinal = 7;
  void* data[] = {&type, &range, &ordinal};
  EXPECT_EQ(cuPointerGetAttributes(3, attributes, data, device), CUDA_SUCCESS);
  EXPECT_EQ(range, 1000u);
  EXPECT_EQ(ordinal, 0);
  EXPECT_EQ(cuPointerGetAttributes(3, attributes, data, address_of(&local)), CUDA_SUCCESS);
  EXPECT_EQ(type, 0u);
  EXPECT_EQ(range, 0u);
  EXPECT_EQ(ordinal, -2);
}

}  // namespace
}  // namespace kiln::emulator_test
