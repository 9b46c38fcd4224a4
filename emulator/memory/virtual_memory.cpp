#include "emulator/memory/virtual_memory.h"

#include <algorithm>
#include <map>

namespace kiln::emulator {
namespace {

// Reserved ranges: first address -> bytes. Under the lock of Memory.
std::map<std::uint64_t, std::uint64_t>& reservations() {
  static auto& ranges = *new std::map<std::uint64_t, std::uint64_t>;
  return ranges;
}

bool within_reservation(std::uint64_t address, std::uint64_t bytes) {
  auto next = reservations().upper_bound(address);
  if (next == reservations().begin()) return false;
  const auto& [first, length] = *std::prev(next);
  return address - first < length && bytes <= length - (address - first);
}

// The first mapping that overlaps a range, or the end.
std::map<std::uint64_t, Region>::iterator first_mapping(Memory& memory, std::uint64_t address) {
  auto it = memory.regions_locked().upper_bound(address);
  if (it != memory.regions_locked().begin() && std::prev(it)->second.end() > address) --it;
  return it;
}

bool is_mapping(const Region& region) {
  return region.kind == RegionKind::mapping || region.kind == RegionKind::multicast;
}

// Whether the range is exactly a sequence of whole mappings.
bool whole_mappings(Memory& memory, std::uint64_t address, std::uint64_t bytes) {
  std::uint64_t at = address;
  for (auto it = memory.regions_locked().find(address); at < address + bytes; ++it) {
    if (it == memory.regions_locked().end() || it->first != at || !is_mapping(it->second))
      return false;
    at = it->second.end();
  }
  return at == address + bytes;
}

bool map_for(Memory& memory, const Region& region, std::uint32_t device) {
  const std::uint8_t access = region.access[device];
  if (access == CU_MEM_ACCESS_FLAGS_PROT_NONE || region.kind == RegionKind::multicast) {
    memory.window_locked().unmap(device, region.address, region.bytes);
    return true;
  }
  return memory.window_locked().map(device, region.address, region.bytes,
                                    region.physical->file->descriptor(), region.physical_offset,
                                    access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

}  // namespace

// Nobody lets go of the last reference under the lock of Memory.
PhysicalMemory::~PhysicalMemory() {
  Memory* memory = process_memory();
  if (!charged || memory == nullptr) return;
  std::unique_lock lock(memory->mutex());
  memory->refund_locked(device, bytes);
}

CUresult reserve_range(Memory& memory, std::uint64_t bytes, std::uint64_t alignment,
                       std::uint64_t wanted, std::uint64_t& address) {
  if (bytes == 0 || bytes % kPhysicalPage != 0 || (alignment & (alignment - 1)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (bytes > memory.window().bytes() || alignment > memory.window().bytes())
    return CUDA_ERROR_OUT_OF_MEMORY;
  std::unique_lock lock(memory.mutex());
  FreeRanges& free = memory.addresses_locked();
  const std::uint64_t unit = std::max(alignment, kPhysicalPage);
  // A gap behind, which nobody can map: an access behind the range shows.
  const bool granted = wanted != 0 && wanted % unit == 0 &&
                       memory.window().contains(wanted, bytes + kPhysicalPage) &&
                       free.take_at(wanted, bytes + kPhysicalPage);
  const auto found = granted ? std::optional(wanted) : free.take(bytes + kPhysicalPage, unit);
  if (!found) return CUDA_ERROR_OUT_OF_MEMORY;
  address = *found;
  reservations().emplace(address, bytes);
  return CUDA_SUCCESS;
}

CUresult free_range(Memory& memory, std::uint64_t address, std::uint64_t bytes) {
  std::unique_lock lock(memory.mutex());
  const auto range = reservations().find(address);
  if (range == reservations().end() || range->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  const auto mapping = first_mapping(memory, address);
  if (mapping != memory.regions_locked().end() && mapping->first < address + bytes)
    return CUDA_ERROR_INVALID_VALUE;
  reservations().erase(range);
  memory.addresses_locked().add(address, bytes + kPhysicalPage);
  return CUDA_SUCCESS;
}

CUresult map_range(Memory& memory, std::uint64_t address, std::uint64_t bytes,
                   const std::shared_ptr<PhysicalMemory>& physical) {
  if (bytes == 0 || bytes > physical->bytes || bytes % kPhysicalPage != 0 ||
      address % kPhysicalPage != 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::unique_lock lock(memory.mutex());
  if (!within_reservation(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const auto mapping = first_mapping(memory, address);
  if (mapping != memory.regions_locked().end() && mapping->first < address + bytes)
    return CUDA_ERROR_INVALID_VALUE;
  Region region;
  region.address = address;
  region.bytes = bytes;
  region.kind = physical->multicast ? RegionKind::multicast : RegionKind::mapping;
  region.device = physical->device;
  region.id = memory.next_id_locked();
  region.call = "cuMemMap";
  region.physical = physical;
  memory.regions_locked().emplace(address, std::move(region));
  return CUDA_SUCCESS;
}

CUresult unmap_range(Memory& memory, std::uint64_t address, std::uint64_t bytes) {
  std::vector<std::shared_ptr<PhysicalMemory>> ended;  // outlive the lock
  std::unique_lock lock(memory.mutex());
  if (bytes == 0 || !whole_mappings(memory, address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  bool multicast = false;
  for (auto it = memory.regions_locked().find(address);
       it != memory.regions_locked().end() && it->first < address + bytes;) {
    const auto region = it++;
    for (std::uint32_t device = 0; device < memory.window().devices(); ++device)
      memory.window_locked().unmap(device, region->second.address, region->second.bytes);
    multicast |= region->second.kind == RegionKind::multicast;
    ended.push_back(region->second.physical);
    memory.forget_locked(region);
  }
  if (multicast) publish_multicast_locked(memory);
  return CUDA_SUCCESS;
}

CUresult set_access(Memory& memory, std::uint64_t address, std::uint64_t bytes,
                    std::uint32_t device, CUmemAccess_flags flags) {
  std::unique_lock lock(memory.mutex());
  if (bytes == 0 || !whole_mappings(memory, address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  bool multicast = false;
  for (auto it = memory.regions_locked().find(address);
       it != memory.regions_locked().end() && it->first < address + bytes; ++it) {
    Region& region = it->second;
    if (region.kind == RegionKind::multicast) {
      // Every member must be there before somebody writes to all of them.
      if (__builtin_popcount(region.physical->members) !=
          static_cast<int>(region.physical->members_wanted))
        return CUDA_ERROR_INVALID_VALUE;
      multicast = true;
    }
    region.access[device] = static_cast<std::uint8_t>(flags);
    if (!map_for(memory, region, device)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (multicast) publish_multicast_locked(memory);
  return CUDA_SUCCESS;
}

}  // namespace kiln::emulator
