// Registered host memory: pages that the program made, seen by kernels at a device address.
//
// Kernels read at a constant distance from a device address, so the pages must have a second place
// in each view, and the kernel of the system shares no private page within a process. So:
// * Pages that are shared already (a shared mapping) get further mappings, by mremap with size 0.
// * Private pages move into a memory file once: their bytes are copied and the file is mapped where
//   they were, in one step. While that happens the pages are read-only; a thread that writes to one
//   of them faults, waits in the handler and repeats its write. On unregistering, the way back
//   is the same.
// The device address differs from the host's (attribute CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM is
// 0): programs ask for it with cuMemHostGetDevicePointer.
//
// Traps: whole pages move, so neighbours of the range come along, and two ranges may share a page;
// pages are counted by how many ranges need them. A system call that writes into a page in that
// moment fails with EFAULT. The stack that the call itself runs on cannot be read-only even for a
// moment, so it is refused. A child made by fork shares registered pages with its parent.

#include "emulator/memory/registration.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <vector>

#include "emulator/memory/guarded_copy.h"

namespace kiln::emulator {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kStackReserve = 256 << 10;

struct PageRange {
  std::uint64_t first = 0, bytes = 0;
  std::uint64_t end() const { return first + bytes; }
};

PageRange pages_of(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t first = address / kPage * kPage;
  return {first, (address + bytes + kPage - 1) / kPage * kPage - first};
}

// The addresses that a range takes, a gap behind it included.
std::uint64_t span_of(const PageRange& range) {
  return (range.bytes + Heap::kBlock - 1) / Heap::kBlock * Heap::kBlock + Heap::kBlock;
}

enum class Sharing : std::uint8_t { missing, closed, shared, owned };

// What the system says about a range of pages; one answer for all of it, or `missing`.
Sharing sharing_of(const PageRange& range) {
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return Sharing::missing;
  std::uint64_t covered = range.first;
  Sharing answer = Sharing::missing;
  char line[512];
  while (covered < range.end() && std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long long first = 0, last = 0;
    char rights[5] = {};
    if (std::sscanf(line, "%llx-%llx %4s", &first, &last, rights) != 3) continue;
    if (last <= covered) continue;
    if (first > covered) break;
    const Sharing part = rights[0] != 'r' || rights[1] != 'w' ? Sharing::closed
                         : rights[3] == 's'                   ? Sharing::shared
                                                              : Sharing::owned;
    if (covered != range.first && part != answer) break;
    answer = part;
    covered = last;
  }
  std::fclose(maps);
  return covered >= range.end() ? answer : Sharing::missing;
}

void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }

// Puts `file` (or private pages, for -1) where the range is, with the same bytes.
bool replace_pages(const PageRange& range, int file) {
  // Made elsewhere and moved over the range, so that nobody sees a state between.
  void* made = mmap(nullptr, range.bytes, PROT_READ | PROT_WRITE,
                    file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file, 0);
  if (made == MAP_FAILED) return false;
  begin_replacing(range.first, range.bytes);
  bool well = mprotect(pointer(range.first), range.bytes, PROT_READ) == 0;
  if (well) {
    // Past sanitizers: the neighbours in these pages are nobody's business but their owners'.
    well = guarded_copy(made, pointer(range.first), range.bytes) &&
           mremap(made, range.bytes, range.bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                  pointer(range.first)) != MAP_FAILED;
    if (!well) mprotect(pointer(range.first), range.bytes, PROT_READ | PROT_WRITE);
  }
  end_replacing();
  if (!well) munmap(made, range.bytes);
  return well;
}

// The program's pages at another place, too.
bool mirror(std::uint64_t from, std::uint64_t to, std::uint64_t bytes) {
  return mremap(pointer(from), 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pointer(to)) != MAP_FAILED;
}

// Runs of pages of a range that no other registered range has.
std::vector<PageRange> own_pages(Memory& memory, const PageRange& range, std::uint64_t except) {
  std::vector<PageRange> parts{range};
  for (const auto& [host, address] : memory.registered_locked()) {
    if (host == except) continue;
    const PageRange other = pages_of(host, memory.regions_locked().at(address).bytes);
    std::vector<PageRange> left;
    for (const PageRange& part : parts) {
      const std::uint64_t begin = std::max(part.first, other.first);
      const std::uint64_t end = std::min(part.end(), other.end());
      if (begin >= end) {
        left.push_back(part);
        continue;
      }
      if (part.first < begin) left.push_back({part.first, begin - part.first});
      if (end < part.end()) left.push_back({end, part.end() - end});
    }
    parts.swap(left);
  }
  return parts;
}

void make_private(Memory& memory, const PageRange& range, std::uint64_t except) {
  for (const PageRange& part : own_pages(memory, range, except)) replace_pages(part, -1);
}

}  // namespace

CUresult register_host(Memory& memory, std::uint64_t host, std::uint64_t bytes, unsigned flags,
                       std::uint32_t device, std::uint64_t context) {
  if (host == 0 || bytes == 0 || bytes > memory.window().bytes() || host > UINT64_MAX - bytes)
    return CUDA_ERROR_INVALID_VALUE;
  const auto here = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  const PageRange range = pages_of(host, bytes);
  if (range.first < here + kStackReserve && range.end() > here - kStackReserve)
    return CUDA_ERROR_NOT_SUPPORTED;
  std::unique_lock lock(memory.mutex());
  if (memory.window().contains(host)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  for (const auto& [first, address] : memory.registered_locked())
    if (host < first + memory.regions_locked().at(address).bytes && first < host + bytes)
      return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  Region region;
  region.kind = RegionKind::registered;
  region.device = device;
  region.context = context;
  region.flags = flags;
  region.call = "cuMemHostRegister";
  region.host = host;
  region.bytes = bytes;
  for (const PageRange& part : own_pages(memory, range, 0)) {
    const Sharing sharing = sharing_of(part);
    if (sharing == Sharing::missing) return CUDA_ERROR_INVALID_VALUE;
    if (sharing == Sharing::closed) return CUDA_ERROR_NOT_SUPPORTED;
    region.moved |= sharing == Sharing::owned;
  }
  for (const PageRange& part : own_pages(memory, range, 0)) {
    if (sharing_of(part) != Sharing::owned) continue;
    const MemoryFile file("kiln-registered", part.bytes);
    if (file.descriptor() < 0 || !replace_pages(part, file.descriptor()))
      return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const std::uint64_t span = span_of(range);
  const auto place = memory.addresses_locked().take(span, Heap::kBlock);
  if (!place) return CUDA_ERROR_OUT_OF_MEMORY;
  for (std::uint32_t each = 0; each < memory.window().devices(); ++each) {
    const auto at = reinterpret_cast<std::uint64_t>(memory.view(each).base + *place);
    if (!mirror(range.first, at, range.bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    if ((flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0) mprotect(pointer(at), range.bytes, PROT_READ);
  }
  region.address = *place + (host - range.first);
  region.id = memory.next_id_locked();
  memory.registered_locked().emplace(host, region.address);
  memory.regions_locked().emplace(region.address, std::move(region));
  return CUDA_SUCCESS;
}

CUresult unregister_host(Memory& memory, std::uint64_t host) {
  std::unique_lock lock(memory.mutex());
  const auto found = memory.registered_locked().find(host);
  if (found == memory.registered_locked().end()) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  const auto region = memory.regions_locked().find(found->second);
  const PageRange range = pages_of(host, region->second.bytes);
  const std::uint64_t place = region->second.address - (host - range.first);
  for (std::uint32_t each = 0; each < memory.window().devices(); ++each)
    memory.window_locked().unmap(each, place, range.bytes);
  memory.addresses_locked().add(place, span_of(range));
  if (region->second.moved) make_private(memory, range, host);
  memory.registered_locked().erase(found);
  memory.forget_locked(region);
  return CUDA_SUCCESS;
}

}  // namespace kiln::emulator
