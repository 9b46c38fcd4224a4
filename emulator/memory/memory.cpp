#include "emulator/memory/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "emulator/memory/guarded_copy.h"
#include "emulator/memory/virtual_memory.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::emulator {
namespace {

constexpr std::size_t kFreedRemembered = 1024;
std::atomic<Memory*> memory_of_process = nullptr;

// Pages that cost nothing until they are touched.
std::uint8_t* reserve_marks(std::uint64_t bytes) {
  void* marks = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (marks == MAP_FAILED)
    throw ValueError(
        format("The emulator could not reserve {} bytes of addresses for the marks of "
               "KILN_EMULATOR_CHECK: the process has a limit. Raise it (ulimit -v) or drop the "
               "check.",
               bytes));
  return static_cast<std::uint8_t*>(marks);
}

bool reaches(const Region& region, std::uint32_t device, bool write) {
  if (region.kind == RegionKind::multicast) return false;
  if (region.kind != RegionKind::mapping) return true;
  return region.access[device] >= (write ? 3 : 1);
}

const char* name_of(RegionKind kind) {
  switch (kind) {
    case RegionKind::device:
      return "memory";
    case RegionKind::pool:
      return "pool memory";
    case RegionKind::host:
      return "pinned host memory";
    case RegionKind::registered:
      return "registered host memory";
    case RegionKind::mapping:
      return "mapped memory";
    case RegionKind::multicast:
      return "multicast memory";
  }
  return "memory";
}

std::string describe_region(const Region& region, std::uint64_t address, bool freed) {
  std::string where =
      address >= region.end()
          ? format("{} bytes behind", address - region.end())
          : (address < region.address ? format("{} bytes before", region.address - address)
                                      : format("byte {} of", address - region.address));
  const std::string site = region.site.text();
  return format("{} the {} bytes of {} at {:#x} of device {} ({}, allocation {}{}{}{})", where,
                region.bytes, name_of(region.kind), region.address, region.device, region.call,
                region.id, freed ? ", freed since" : "", site.empty() ? "" : ", by ", site);
}

}  // namespace

Memory* process_memory() { return memory_of_process.load(std::memory_order_acquire); }
void set_process_memory(Memory* memory) {
  memory_of_process.store(memory, std::memory_order_release);
}

std::string describe_address(std::uint64_t address) {
  const Memory* memory = process_memory();
  return memory == nullptr ? std::string() : memory->describe(address);
}

Memory::Memory(const Options& options) : options_(options), window_(options.devices) {
  const DeviceView& view = window_.view(0);
  // The first pages stay free, so that null plus a small offset never meets an allocation.
  addresses_.add(window_.first() + Heap::kBlock,
                 view.scratch_first - window_.first() - 2 * Heap::kBlock);
  for (std::uint32_t place = 0; place <= options.devices; ++place) {
    const bool host = place == options.devices;
    const std::string name = host ? "kiln-host" : format("kiln-device-{}", place);
    files_.push_back(std::make_unique<MemoryFile>(name.c_str(), window_.bytes()));
    if (files_.back()->descriptor() < 0)
      throw ValueError(
          "The emulator needs files in memory (memfd_create), which this system refuses. "
          "Allow the system call in the sandbox that the process runs in.");
    heaps_.push_back(std::make_unique<Heap>(window_, addresses_, *files_.back(),
                                            host ? Window::kHost : place,
                                            host ? (1u << options.devices) - 1 : 1u << place));
  }
  if (options.check_bounds) bounds_ = reserve_marks(window_.bytes() / 8);
  if (options.check_written) written_ = reserve_marks(window_.bytes());
  for (std::uint32_t device = 0; device < options.devices; ++device) {
    window_.view(device).bounds = bounds_;
    window_.view(device).written = written_;
  }
}

std::uint64_t Memory::used(std::uint32_t device) const {
  std::shared_lock lock(mutex_);
  return used_[device];
}

bool Memory::charge_locked(std::uint32_t device, std::uint64_t bytes) {
  if (bytes > options_.bytes - used_[device]) return false;
  used_[device] += bytes;
  return true;
}

std::optional<std::uint64_t> Memory::allocate(std::uint64_t bytes, const Request& request) {
  if (bytes > window_.bytes()) return std::nullopt;
  const bool host = request.kind == RegionKind::host;
  const CallChain site = options_.record_sites ? CallChain::here() : CallChain{};
  std::unique_lock lock(mutex_);
  Heap& heap = request.heap ? *request.heap : *heaps_[host ? options_.devices : request.device];
  const std::uint64_t taken = Heap::taken(bytes);
  if (!host && !charge_locked(request.device, taken)) return std::nullopt;
  const auto address = heap.allocate(bytes);
  if (!address) {
    if (!host) refund_locked(request.device, taken);
    return std::nullopt;
  }
  Region region;
  region.address = *address;
  region.bytes = bytes;
  region.kind = request.kind;
  region.device = request.device;
  region.id = next_id_++;
  region.context = request.context;
  region.pool = request.pool;
  region.flags = request.flags;
  region.call = request.call;
  region.site = site;
  region.heap = &heap;
  mark_allocated(region, taken);
  regions_.emplace(*address, std::move(region));
  return address;
}

void Memory::mark_allocated(const Region& region, std::uint64_t taken) {
  const std::uint64_t offset = region.address - window_.first();
  if (bounds_ != nullptr) {
    std::uint8_t* marks = bounds_ + (offset >> 3);
    const std::uint64_t whole = region.bytes >> 3;
    std::memset(marks, 0, whole);
    std::memset(marks + whole, 255, (taken >> 3) - whole);
    if ((region.bytes & 7) != 0) marks[whole] = region.bytes & 7;
  }
  if (written_ != nullptr)
    std::memset(written_ + offset, region.kind == RegionKind::host ? 1 : 0, region.bytes);
}

void Memory::mark_freed(const Region& region, std::uint64_t taken) {
  const std::uint64_t offset = region.address - window_.first();
  if (bounds_ != nullptr) std::memset(bounds_ + (offset >> 3), 255, taken >> 3);
  if (written_ != nullptr && region.bytes > Heap::kLargestShared)
    madvise(written_ + offset, taken, MADV_DONTNEED);
}

void Memory::mark_written(std::uint64_t address, std::uint64_t bytes) {
  if (written_ != nullptr && window_.contains(address, bytes))
    std::memset(written_ + (address - window_.first()), 1, bytes);
}

void Memory::forget_locked(std::map<std::uint64_t, Region>::iterator region) {
  freed_.push_back(region->second);
  freed_.back().physical.reset();
  if (freed_.size() > kFreedRemembered) freed_.pop_front();
  regions_.erase(region);
}

std::map<std::uint64_t, Region>::iterator Memory::free_locked(
    std::map<std::uint64_t, Region>::iterator region) {
  const Region& freed = region->second;
  const std::uint64_t taken = Heap::taken(freed.bytes);
  mark_freed(freed, taken);
  freed.heap->free(freed.address, freed.bytes);
  if (freed.kind != RegionKind::host) refund_locked(freed.device, taken);
  const auto next = std::next(region);
  forget_locked(region);
  return next;
}

bool Memory::free(std::uint64_t address, RegionKind kind) {
  std::unique_lock lock(mutex_);
  const auto region = regions_.find(address);
  if (region == regions_.end() || region->second.kind != kind) return false;
  free_locked(region);
  return true;
}

std::size_t Memory::free_of_context(std::uint64_t context) {
  std::unique_lock lock(mutex_);
  std::size_t count = 0;
  for (auto it = regions_.begin(); it != regions_.end();) {
    const Region& region = it->second;
    const bool owned = region.context == context &&
                       (region.kind == RegionKind::device || region.kind == RegionKind::host);
    it = owned ? (++count, free_locked(it)) : std::next(it);
  }
  return count;
}

const Region* Memory::find_locked(std::uint64_t address) const {
  auto it = regions_.upper_bound(address);
  if (it == regions_.begin()) return nullptr;
  const Region& region = std::prev(it)->second;
  return address < region.end() ? &region : nullptr;
}

std::optional<Region> Memory::find(std::uint64_t address) const {
  std::shared_lock lock(mutex_);
  const Region* region = find_locked(address);
  return region ? std::optional(*region) : std::nullopt;
}

std::optional<Region> Memory::find_host(std::uint64_t address) const {
  std::shared_lock lock(mutex_);
  const auto next = registered_.upper_bound(address);
  if (next == registered_.begin()) return std::nullopt;
  const Region* region = find_locked(std::prev(next)->second);
  return region != nullptr && address - region->host < region->bytes ? std::optional(*region)
                                                                     : std::nullopt;
}

std::vector<Region> Memory::regions() const {
  std::shared_lock lock(mutex_);
  std::vector<Region> found;
  for (const auto& [address, region] : regions_) found.push_back(region);
  return found;
}

std::byte* Memory::reach(std::uint64_t address, std::uint64_t bytes, std::uint32_t device,
                         bool write) const {
  std::shared_lock lock(mutex_);
  const Region* region = find_locked(address);
  if (region == nullptr) return nullptr;
  std::uint32_t through = region->kind == RegionKind::mapping ? device : region->device;
  // Copies of mapped memory go through any device that may reach it, as the driver stages them.
  for (std::uint32_t other = 0; !reaches(*region, through, write); ++other) {
    if (other == window_.devices()) return nullptr;
    through = other;
  }
  std::uint64_t left = bytes;
  for (const Region* part = region; left > part->end() - address;) {
    left -= part->end() - address;
    address = part->end();
    part = part->kind == RegionKind::mapping ? find_locked(address) : nullptr;
    if (part == nullptr || part->kind != RegionKind::mapping || !reaches(*part, through, write))
      return nullptr;
  }
  address = address + left - bytes;
  if (region->kind == RegionKind::host) return reinterpret_cast<std::byte*>(address);
  if (region->kind == RegionKind::registered)
    return reinterpret_cast<std::byte*>(region->host + (address - region->address));
  return window_.view(through).base + address;
}

std::unique_ptr<Heap> Memory::make_heap(std::uint32_t device) {
  return std::make_unique<Heap>(window_, addresses_, *files_[device], device, 1u << device);
}

bool Memory::set_reach(Heap* heap, std::uint32_t owner, std::uint32_t device, bool reach) {
  std::unique_lock lock(mutex_);
  Heap& changed = heap ? *heap : *heaps_[owner];
  if (((changed.reach() >> device & 1) != 0) == reach) return true;
  if (reach) return changed.add_reach(device);
  changed.remove_reach(device);
  return true;
}

void Memory::trim(Heap& heap, std::uint64_t bytes) {
  std::unique_lock lock(mutex_);
  heap.trim(bytes);
}

void Memory::clear(std::unique_ptr<Heap> heap) {
  std::unique_lock lock(mutex_);
  for (auto it = regions_.begin(); it != regions_.end();)
    it = it->second.heap == heap.get() ? free_locked(it) : std::next(it);
  heap.reset();
}

namespace {

// FNV-1a over words, over the parts of a file that have pages.
void hash_file(int file, std::uint64_t& hash) {
  std::vector<std::uint64_t> words(1 << 15);
  for (off_t at = lseek(file, 0, SEEK_DATA); at >= 0; at = lseek(file, at, SEEK_DATA)) {
    const off_t end = lseek(file, at, SEEK_HOLE);
    while (at < end) {
      const std::size_t wanted = std::min<std::size_t>(end - at, words.size() * 8);
      const ssize_t bytes = pread(file, words.data(), wanted, at);
      if (bytes <= 0) return;
      for (std::size_t i = 0; i < static_cast<std::size_t>(bytes) / 8; ++i)
        hash = (hash ^ words[i]) * 0x100000001B3;
      at += bytes;
    }
  }
}

}  // namespace

std::uint64_t Memory::contents() const {
  std::shared_lock lock(mutex_);
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const auto& file : files_) hash_file(file->descriptor(), hash);
  for (const auto& [address, region] : regions_) {
    if (region.kind == RegionKind::mapping) hash_file(region.physical->file->descriptor(), hash);
    if (region.kind != RegionKind::registered) continue;
    std::vector<std::uint8_t> bytes(region.bytes);
    guarded_copy(bytes.data(), reinterpret_cast<const void*>(region.host), bytes.size());
    for (const std::uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001B3;
  }
  return hash;
}

std::string Memory::describe(std::uint64_t address) const {
  // The thread may be inside of one of our own calls: a report is not worth a deadlock.
  std::shared_lock lock(mutex_, std::try_to_lock);
  if (!lock || !window_.contains(address)) return {};
  if (const Region* region = find_locked(address)) return describe_region(*region, address, false);
  for (auto freed = freed_.rbegin(); freed != freed_.rend(); ++freed)
    if (address - freed->address < freed->bytes) return describe_region(*freed, address, true);
  const auto next = regions_.upper_bound(address);
  if (next != regions_.begin()) return describe_region(std::prev(next)->second, address, false);
  return next == regions_.end() ? std::string() : describe_region(next->second, address, false);
}

}  // namespace kiln::emulator
