// Reserved addresses, physical memory, access rights, sharing, multicast objects.

#include <unistd.h>

#include <cstring>

#include "api_fixture.h"
#include "emulator/memory/memory.h"

namespace kiln::emulator_test {
namespace {

constexpr std::size_t kPage = 2 << 20;

class VirtualMemoryTest : public ApiTest {
 protected:
  static CUmemAllocationProp properties(int device, int types = 0) {
    CUmemAllocationProp made{};
    made.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    made.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    made.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(types);
    return made;
  }
  static CUmemGenericAllocationHandle create(int device, std::size_t bytes, int types = 0) {
    const CUmemAllocationProp wanted = properties(device, types);
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, bytes, &wanted, 0), CUDA_SUCCESS);
    return handle;
  }
  static CUdeviceptr reserve(std::size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAddressReserve(&address, bytes, 0, 0, 0), CUDA_SUCCESS);
    return address;
  }
  static CUresult allow(CUdeviceptr address, std::size_t bytes, int device,
                        CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
    return cuMemSetAccess(address, bytes, &access, 1);
  }
  /// What a kernel on a device says when it writes a word.
  CUresult store(int device, CUdeviceptr address, std::uint32_t value) {
    use(device);
    EXPECT_EQ(launch(kernel("store_value"), nullptr, address, value), CUDA_SUCCESS);
    return cuCtxSynchronize();
  }
};

TEST_F(VirtualMemoryTest, GranularityAndArguments) {
  std::size_t bytes = 0;
  const CUmemAllocationProp wanted = properties(0);
  EXPECT_EQ(cuMemGetAllocationGranularity(&bytes, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
            CUDA_SUCCESS);
  EXPECT_EQ(bytes, kPage);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, kPage + 1, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&handle, 0, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&handle, 1ull << 40, &wanted, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemCreate(&handle, kPage, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  const CUmemAllocationProp elsewhere = properties(9);
  EXPECT_EQ(cuMemCreate(&handle, kPage, &elsewhere, 0), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuMemRelease(12345), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAddressReserve(&address, 100, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&address, 1ull << 60, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemMap(4096, kPage, 0, create(0, kPage), 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VirtualMemoryTest, MemoryIsSeenWhereAccessIsSet) {
  const CUdeviceptr range = reserve(2 * kPage);
  const CUmemGenericAllocationHandle first = create(0, kPage), second = create(1, kPage);
  ASSERT_EQ(cuMemMap(range, kPage, 0, first, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(range, kPage, 0, second, 0), CUDA_ERROR_INVALID_VALUE) << "taken";
  ASSERT_EQ(cuMemMap(range + kPage, kPage, 0, second, 0), CUDA_SUCCESS);
  ASSERT_EQ(allow(range, 2 * kPage, 0), CUDA_SUCCESS);
  EXPECT_EQ(store(0, range + 2 * kPage - 4, 21), CUDA_SUCCESS);
  EXPECT_EQ(store(0, range + kPage - 4, 20), CUDA_SUCCESS);
  use(0);
  std::uint32_t both[2];
  ASSERT_EQ(cuMemcpyDtoH_v2(both, range + kPage - 4, 8), CUDA_SUCCESS) << "over the border";
  EXPECT_EQ(both[0], 20u);
  EXPECT_EQ(read_word(range + 2 * kPage - 4), 21u);
  unsigned long long flags = 9;
  const CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, 1};
  EXPECT_EQ(cuMemGetAccess(&flags, &here, range), CUDA_SUCCESS);
  EXPECT_EQ(flags, 0u);
  EXPECT_EQ(store(1, range, 1), CUDA_ERROR_ILLEGAL_ADDRESS) << "device 1 has no access";
  EXPECT_EQ(allow(range, kPage, 2, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_SUCCESS);
  EXPECT_EQ(store(2, range, 1), CUDA_ERROR_ILLEGAL_ADDRESS) << "device 2 may only read";
  EXPECT_EQ(cuMemAddressFree(range, 2 * kPage), CUDA_ERROR_INVALID_VALUE) << "still mapped";
  use(0);
  EXPECT_EQ(cuMemUnmap(range + 4096, kPage), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(range, 2 * kPage), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(range, 2 * kPage), CUDA_SUCCESS);
}

TEST_F(VirtualMemoryTest, MemoryLastsWhileItIsMapped) {
  std::size_t before = 0, now = 0, total = 0;
  ASSERT_EQ(cuMemGetInfo_v2(&before, &total), CUDA_SUCCESS);
  const CUdeviceptr range = reserve(kPage), other = reserve(kPage);
  const CUmemGenericAllocationHandle handle = create(0, kPage);
  ASSERT_EQ(cuMemMap(range, kPage, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(other, kPage, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(allow(range, kPage, 0), CUDA_SUCCESS);
  ASSERT_EQ(allow(other, kPage, 0), CUDA_SUCCESS);
  CUmemGenericAllocationHandle again = 0;
  ASSERT_EQ(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(other)), CUDA_SUCCESS);
  EXPECT_EQ(again, handle);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemsetD32_v2(range, 5, 10), CUDA_SUCCESS);
  EXPECT_EQ(read_word(other + 36), 5u) << "the same memory at another address";
  ASSERT_EQ(cuMemUnmap(range, kPage), CUDA_SUCCESS);
  ASSERT_EQ(cuMemGetInfo_v2(&now, &total), CUDA_SUCCESS);
  EXPECT_EQ(before - now, kPage);
  ASSERT_EQ(cuMemUnmap(other, kPage), CUDA_SUCCESS);
  ASSERT_EQ(cuMemGetInfo_v2(&now, &total), CUDA_SUCCESS);
  EXPECT_EQ(before, now);
  EXPECT_EQ(cuMemcpyDtoH_v2(&now, other, 4), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VirtualMemoryTest, DescriptorsShareMemory) {
  const CUmemGenericAllocationHandle handle =
      create(1, kPage, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  int descriptor = -1;
  ASSERT_EQ(cuMemExportToShareableHandle(&descriptor, handle,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
  CUmemGenericAllocationHandle imported = 0;
  ASSERT_EQ(cuMemImportFromShareableHandle(
                &imported, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_SUCCESS);
  close(descriptor);
  const CUdeviceptr first = reserve(kPage), second = reserve(kPage);
  ASSERT_EQ(cuMemMap(first, kPage, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(second, kPage, 0, imported, 0), CUDA_SUCCESS);
  ASSERT_EQ(allow(first, kPage, 1), CUDA_SUCCESS);
  ASSERT_EQ(allow(second, kPage, 0), CUDA_SUCCESS);
  EXPECT_EQ(store(1, first + 40, 12), CUDA_SUCCESS);
  use(0);
  EXPECT_EQ(read_word(second + 40), 12u);
  const CUmemGenericAllocationHandle closed = create(1, kPage);
  EXPECT_EQ(cuMemExportToShareableHandle(&descriptor, closed,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(-1),
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VirtualMemoryTest, MulticastAddressesLeadToEveryMember) {
  CUmulticastObjectProp wanted{3, 2 * kPage, 0, 0};
  CUmemGenericAllocationHandle object = 0;
  ASSERT_EQ(cuMulticastCreate(&object, &wanted), CUDA_SUCCESS);
  CUmemGenericAllocationHandle memory[3];
  CUdeviceptr own[3];
  for (int device = 0; device < 3; ++device) {
    memory[device] = create(device, kPage);
    if (device == 2)
      EXPECT_EQ(cuMulticastBindMem(object, 0, memory[0], 0, kPage, 0), CUDA_ERROR_INVALID_VALUE)
          << "a member is missing";
    ASSERT_EQ(cuMulticastAddDevice(object, device), CUDA_SUCCESS);
    EXPECT_EQ(cuMulticastAddDevice(object, device), CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(cuMulticastAddDevice(object, 3), CUDA_ERROR_INVALID_VALUE) << "three are enough";
  const CUdeviceptr range = reserve(2 * kPage);
  ASSERT_EQ(cuMemMap(range, 2 * kPage, 0, object, 0), CUDA_SUCCESS);
  ASSERT_EQ(allow(range, 2 * kPage, 0), CUDA_SUCCESS);
  const auto& view = emulator::process_memory()->view(0);
  const auto& other = emulator::process_memory()->view(1);
  std::byte* replicas[emulator::kMaxDevices];
  for (int device = 0; device < 3; ++device) {
    EXPECT_EQ(emulator::multicast_replicas(view, range, 4, replicas), 0u) << "not all are bound";
    ASSERT_EQ(cuMulticastBindMem(object, 0, memory[device], 0, kPage, 0), CUDA_SUCCESS);
    own[device] = reserve(kPage);
    ASSERT_EQ(cuMemMap(own[device], kPage, 0, memory[device], 0), CUDA_SUCCESS);
    ASSERT_EQ(allow(own[device], kPage, device), CUDA_SUCCESS);
  }
  EXPECT_EQ(cuMulticastBindMem(object, 0, memory[0], 0, kPage, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(emulator::multicast_replicas(view, range + 24, 8, replicas), 3u);
  EXPECT_EQ(emulator::multicast_replicas(other, range + 24, 8, replicas), 0u) << "no access";
  ASSERT_EQ(emulator::multicast_replicas(view, range + kPage - 8, 8, replicas), 3u);
  EXPECT_EQ(emulator::multicast_replicas(view, range + kPage - 4, 8, replicas), 0u);
  EXPECT_EQ(emulator::multicast_replicas(view, range + kPage, 8, replicas), 0u);
  ASSERT_EQ(emulator::multicast_replicas(view, range + 24, 4, replicas), 3u);
  for (int device = 0; device < 3; ++device) {
    const std::uint32_t value = 100 + device;
    std::memcpy(replicas[device], &value, 4);
    use(device);
    EXPECT_EQ(read_word(own[device] + 24), value);
  }
  EXPECT_EQ(store(0, range, 1), CUDA_ERROR_ILLEGAL_ADDRESS) << "plain stores are not for it";
  EXPECT_EQ(cuMulticastUnbind(object, 1, 0, kPage), CUDA_SUCCESS);
  EXPECT_EQ(emulator::multicast_replicas(view, range, 4, replicas), 0u);
  EXPECT_EQ(cuMulticastUnbind(object, 1, 0, kPage), CUDA_ERROR_INVALID_VALUE);
  use(3);
  EXPECT_EQ(cuMemUnmap(range, 2 * kPage), CUDA_SUCCESS);
}

}  // namespace
}  // namespace kiln::emulator_test
