// Multicast memory: one range of addresses, a replica of it on each member device.
//
// A member's pages are mapped once more, at addresses that only this file knows, so that replica
// number i of an address is replicas[i] + offset, whatever else is mapped where. Kernels look
// ranges up in a table that is never changed: each change publishes a new one, and old ones stay,
// as a kernel may be reading one (a few hundred bytes for each change of a mapping).

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "emulator/memory/virtual_memory.h"

namespace kiln::emulator {
namespace {

struct Range {
  std::uint64_t first = 0, last = 0;
  std::uint32_t reach = 0;  // bit of each device that may use it
  std::uint32_t count = 0;
  std::byte* replicas[kMaxDevices] = {};  // of `first`, in the order of devices
  std::vector<std::pair<std::uint64_t, std::uint64_t>> bound;  // where all members have memory
};
using Table = std::vector<Range>;

std::atomic<const Table*> published = nullptr;

// The parts of [0, bytes) for which every member has memory.
std::vector<std::pair<std::uint64_t, std::uint64_t>> bound_parts(const PhysicalMemory& object) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> parts{{0, object.bytes}};
  for (std::uint32_t device = 0; device < kMaxDevices; ++device) {
    if ((object.members >> device & 1) == 0) continue;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> both;
    for (const auto& [first, last] : parts)
      for (const MulticastBinding& binding : object.bindings)
        if (binding.device == device &&
            std::max(first, binding.offset) < std::min(last, binding.offset + binding.bytes))
          both.emplace_back(std::max(first, binding.offset),
                            std::min(last, binding.offset + binding.bytes));
    parts.swap(both);
  }
  std::sort(parts.begin(), parts.end());
  // Neighbours become one.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> merged;
  for (const auto& part : parts) {
    if (!merged.empty() && merged.back().second == part.first) {
      merged.back().second = part.second;
    } else {
      merged.push_back(part);
    }
  }
  return merged;
}

bool overlaps(const PhysicalMemory& object, std::uint32_t device, std::uint64_t offset,
              std::uint64_t bytes) {
  return std::any_of(object.bindings.begin(), object.bindings.end(),
                     [&](const MulticastBinding& each) {
                       return each.device == device && offset < each.offset + each.bytes &&
                              each.offset < offset + bytes;
                     });
}

}  // namespace

void publish_multicast_locked(Memory& memory) {
  auto* table = new Table;
  for (const auto& [address, region] : memory.regions_locked()) {
    if (region.kind != RegionKind::multicast) continue;
    const PhysicalMemory& object = *region.physical;
    Range range;
    range.first = address;
    range.last = region.end();
    for (std::uint32_t device = 0; device < kMaxDevices; ++device) {
      if (region.access[device] == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) range.reach |= 1u << device;
      if ((object.members >> device & 1) != 0)
        range.replicas[range.count++] = object.replicas[device];
    }
    range.bound = bound_parts(object);
    table->push_back(std::move(range));
  }
  static auto& tables = *new std::vector<std::unique_ptr<const Table>>;
  tables.emplace_back(table);
  published.store(table, std::memory_order_release);
}

std::uint32_t multicast_replicas(const DeviceView& view, std::uint64_t address, std::uint64_t bytes,
                                 std::byte* replicas[kMaxDevices]) {
  const Table* table = published.load(std::memory_order_acquire);
  if (table == nullptr) return 0;
  const auto next =
      std::upper_bound(table->begin(), table->end(), address,
                       [](std::uint64_t value, const Range& range) { return value < range.first; });
  if (next == table->begin()) return 0;
  const Range& range = *std::prev(next);
  if (address >= range.last || (range.reach >> view.device & 1) == 0) return 0;
  const std::uint64_t offset = address - range.first;
  const bool bound = std::any_of(range.bound.begin(), range.bound.end(), [&](const auto& part) {
    return offset >= part.first && offset < part.second && bytes <= part.second - offset;
  });
  if (!bound) return 0;
  for (std::uint32_t i = 0; i < range.count; ++i) replicas[i] = range.replicas[i] + offset;
  return range.count;
}

CUresult bind_multicast(Memory& memory, PhysicalMemory& object, std::uint64_t offset,
                        const PhysicalMemory& physical, std::uint64_t memory_offset,
                        std::uint64_t bytes) {
  if (bytes == 0 || (offset | memory_offset | bytes) % kPhysicalPage != 0 ||
      offset > object.bytes || bytes > object.bytes - offset || memory_offset > physical.bytes ||
      bytes > physical.bytes - memory_offset || physical.multicast)
    return CUDA_ERROR_INVALID_VALUE;
  std::unique_lock lock(memory.mutex());
  if ((object.members >> physical.device & 1) == 0 ||
      __builtin_popcount(object.members) != static_cast<int>(object.members_wanted))
    return CUDA_ERROR_INVALID_VALUE;
  if (overlaps(object, physical.device, offset, bytes)) return CUDA_ERROR_INVALID_VALUE;
  std::byte*& replica = object.replicas[physical.device];
  if (replica == nullptr)
    replica = reinterpret_cast<std::byte*>(reserve_addresses(object.bytes, kPhysicalPage));
  if (replica == nullptr ||
      mmap(replica + offset, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
           physical.file->descriptor(), static_cast<off_t>(memory_offset)) == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  object.bindings.push_back({physical.device, offset, bytes});
  publish_multicast_locked(memory);
  return CUDA_SUCCESS;
}

CUresult unbind_multicast(Memory& memory, PhysicalMemory& object, std::uint32_t device,
                          std::uint64_t offset, std::uint64_t bytes) {
  std::unique_lock lock(memory.mutex());
  const auto unbound = std::erase_if(object.bindings, [&](const MulticastBinding& each) {
    return each.device == device && each.offset >= offset &&
           each.offset + each.bytes <= offset + bytes;
  });
  if (unbound == 0) return CUDA_ERROR_INVALID_VALUE;
  publish_multicast_locked(memory);
  // Kernels that run still know the old table, so the pages stay readable, but no longer anybody's.
  mmap(object.replicas[device] + offset, bytes, PROT_READ | PROT_WRITE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return CUDA_SUCCESS;
}

}  // namespace kiln::emulator
