#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "emulator/memory/call_chain.h"
#include "emulator/memory/heap.h"
#include "emulator/memory/window.h"

namespace kiln::emulator {

/// What a range of device addresses is.
enum class RegionKind : std::uint8_t { device, pool, host, registered, mapping, multicast };

struct PhysicalMemory;

/// A range of device addresses that means something: an allocation or a mapping.
struct Region {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  RegionKind kind = RegionKind::device;
  std::uint32_t device = 0;   // the owner
  std::uint64_t id = 0;       // of the allocation, never used again
  std::uint64_t context = 0;  // handle of the context that it belongs to; 0: to the device
  std::uint64_t pool = 0;     // handle of the pool
  unsigned flags = 0;         // as the host memory was asked for
  const char* call = "";      // the driver call that made it
  CallChain site;             // who made it, when that is recorded
  Heap* heap = nullptr;
  std::uint64_t host = 0;  // registered: the address that the process uses
  bool moved = false;      // registered: the pages were private and shall be so again
  std::shared_ptr<PhysicalMemory> physical;        // mapping, multicast: what is mapped,
  std::uint64_t physical_offset = 0;               // from here
  std::array<std::uint8_t, kMaxDevices> access{};  // mapping: CUmemAccess_flags of each device

  std::uint64_t end() const { return address + bytes; }
};

/// Every allocation and mapping of the process, and the pages behind them. Thread-safe.
class Memory {
 public:
  struct Options {
    std::uint32_t devices = 1;
    std::uint64_t bytes = 0;  // of each device
    bool check_bounds = false;
    bool check_written = false;
    bool record_sites = false;  // who allocates, for reports; costs microseconds each time
  };
  /// Throws ValueError when the process has too few addresses or the system gives no memory files.
  explicit Memory(const Options& options);

  const Window& window() const { return window_; }
  const DeviceView& view(std::uint32_t device) const { return window_.view(device); }
  std::uint64_t capacity() const { return options_.bytes; }
  std::uint64_t used(std::uint32_t device) const;

  /// What an allocation is for, beyond its size.
  struct Request {
    RegionKind kind = RegionKind::device;
    std::uint32_t device = 0;
    std::uint64_t context = 0;
    std::uint64_t pool = 0;
    unsigned flags = 0;
    const char* call = "";
    Heap* heap = nullptr;  // null: the device's, or the host's
  };
  /// Memory that nobody else has; nullopt when the device's memory does not suffice.
  std::optional<std::uint64_t> allocate(std::uint64_t bytes, const Request& request);
  /// Frees the allocation of `kind` that begins at `address`; false when there is none.
  bool free(std::uint64_t address, RegionKind kind);
  /// Frees what a context has, and says how many allocations that were.
  std::size_t free_of_context(std::uint64_t context);

  /// The region that holds `address`.
  std::optional<Region> find(std::uint64_t address) const;
  /// The registered region whose host addresses hold `address`.
  std::optional<Region> find_host(std::uint64_t address) const;
  /// Regions of a kind, such as for a report of leaks.
  std::vector<Region> regions() const;

  /// Where the process reaches [address, address + bytes) on behalf of `device`: null when the
  /// range is not within one allocation (or adjacent mappings) or may not be read (written).
  std::byte* reach(std::uint64_t address, std::uint64_t bytes, std::uint32_t device,
                   bool write) const;

  /// Heaps of pools: memory of `device`, seen by it alone at first.
  std::unique_ptr<Heap> make_heap(std::uint32_t device);
  /// Lets `device` see a heap or no longer; the default one when `heap` is null.
  bool set_reach(Heap* heap, std::uint32_t owner, std::uint32_t device, bool reach);
  void trim(Heap& heap, std::uint64_t bytes);
  void clear(std::unique_ptr<Heap> heap);

  /// Marks bytes as written by the host or a copy, for the check of uninitialised reads.
  void mark_written(std::uint64_t address, std::uint64_t bytes);

  /// A hash of all bytes of device and pinned memory that were ever touched; takes as long as
  /// reading them.
  std::uint64_t contents() const;

  /// The text of describe_address.
  std::string describe(std::uint64_t address) const;

  // The pieces of virtual and registered memory use these.
  std::shared_mutex& mutex() const { return mutex_; }
  Window& window_locked() { return window_; }
  FreeRanges& addresses_locked() { return addresses_; }
  std::map<std::uint64_t, Region>& regions_locked() { return regions_; }
  const Region* find_locked(std::uint64_t address) const;
  bool charge_locked(std::uint32_t device, std::uint64_t bytes);
  void refund_locked(std::uint32_t device, std::uint64_t bytes) { used_[device] -= bytes; }
  std::uint64_t next_id_locked() { return next_id_++; }
  /// The addresses that the process uses for registered memory -> their device addresses.
  std::map<std::uint64_t, std::uint64_t>& registered_locked() { return registered_; }
  void forget_locked(std::map<std::uint64_t, Region>::iterator region);

 private:
  std::map<std::uint64_t, Region>::iterator free_locked(
      std::map<std::uint64_t, Region>::iterator region);
  void mark_allocated(const Region& region, std::uint64_t taken);
  void mark_freed(const Region& region, std::uint64_t taken);

  Options options_;
  Window window_;
  mutable std::shared_mutex mutex_;
  FreeRanges addresses_;
  std::vector<std::unique_ptr<MemoryFile>> files_;  // of each device, then of the host
  std::vector<std::unique_ptr<Heap>> heaps_;        // likewise
  std::array<std::uint64_t, kMaxDevices> used_{};
  std::map<std::uint64_t, Region> regions_;
  std::map<std::uint64_t, std::uint64_t> registered_;
  std::deque<Region> freed_;  // the last ones, for descriptions
  std::uint64_t next_id_ = 1;
  std::uint8_t* bounds_ = nullptr;
  std::uint8_t* written_ = nullptr;
};

/// The memory of the process; null before cuInit.
Memory* process_memory();
void set_process_memory(Memory* memory);

}  // namespace kiln::emulator
