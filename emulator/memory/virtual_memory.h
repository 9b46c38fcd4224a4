#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "emulator/api/driver_types.h"
#include "emulator/device/handles.h"
#include "emulator/memory/memory.h"

namespace kiln::emulator {

/// A part of a multicast object that a device has memory for.
struct MulticastBinding {
  std::uint32_t device = 0;
  std::uint64_t offset = 0, bytes = 0;
};

/// Memory without an address, or a multicast object: the replicas that its members bind.
struct PhysicalMemory : Object {
  static constexpr ObjectKind kKind = ObjectKind::physical;
  PhysicalMemory() : Object(kKind) {}
  ~PhysicalMemory() override;

  std::uint64_t bytes = 0;
  std::uint32_t device = 0;
  CUmemAllocationHandleType types = CU_MEM_HANDLE_TYPE_NONE;
  std::shared_ptr<MemoryFile> file;
  bool charged = false;          // counts as used memory of the device
  std::uint32_t references = 1;  // of the handle; under the lock of Memory

  // Multicast objects: under the lock of Memory.
  bool multicast = false;
  std::uint32_t members_wanted = 0;
  std::uint32_t members = 0;                       // bit of each device that was added
  std::array<std::byte*, kMaxDevices> replicas{};  // pages of each member, `bytes` of addresses
  std::vector<MulticastBinding> bindings;
};

inline constexpr std::uint64_t kPhysicalPage = 2ull << 20;

/// Addresses of the window that nothing else uses. `wanted` is a wish; 0: none.
CUresult reserve_range(Memory& memory, std::uint64_t bytes, std::uint64_t alignment,
                       std::uint64_t wanted, std::uint64_t& address);
CUresult free_range(Memory& memory, std::uint64_t address, std::uint64_t bytes);

/// Maps memory at reserved addresses; nobody may reach it before set_access.
CUresult map_range(Memory& memory, std::uint64_t address, std::uint64_t bytes,
                   const std::shared_ptr<PhysicalMemory>& physical);
/// Ends whole mappings within the range.
CUresult unmap_range(Memory& memory, std::uint64_t address, std::uint64_t bytes);
CUresult set_access(Memory& memory, std::uint64_t address, std::uint64_t bytes,
                    std::uint32_t device, CUmemAccess_flags flags);

/// Gives a multicast object memory of a member: [offset, offset + bytes) of the object is
/// [memory_offset, …) of `physical`.
CUresult bind_multicast(Memory& memory, PhysicalMemory& object, std::uint64_t offset,
                        const PhysicalMemory& physical, std::uint64_t memory_offset,
                        std::uint64_t bytes);
CUresult unbind_multicast(Memory& memory, PhysicalMemory& object, std::uint32_t device,
                          std::uint64_t offset, std::uint64_t bytes);
/// Makes the mappings of multicast objects known to kernels; after each change of one.
void publish_multicast_locked(Memory& memory);

}  // namespace kiln::emulator
