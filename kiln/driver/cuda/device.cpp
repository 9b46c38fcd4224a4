#include "kiln/driver/cuda/device.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <vector>

#include "kiln/driver/cuda/completion.h"
#include "kiln/driver/cuda/event.h"
#include "kiln/driver/cuda/queue.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::driver::cuda {
namespace {

struct Devices {
  std::mutex mutex;
  std::vector<CudaDevice*> opened;  // leaked: everything may hold plain pointers to them
};

Devices& devices() {
  static auto* instance = new Devices;
  return *instance;
}

/// What `cuMemHostAlloc` has to draw from.
std::size_t host_bytes() {
  struct sysinfo info{};
  if (sysinfo(&info) != 0) return std::size_t{4} << 30;
  return std::size_t{info.totalram} * info.mem_unit;
}

std::size_t free_host_bytes() {
  struct sysinfo info{};
  return sysinfo(&info) == 0 ? std::size_t{info.freeram} * info.mem_unit : 0;
}

}  // namespace

int device_count() noexcept {
  static const int count = [] {
    int found = 0;
    const Library* driver = find_library();
    if (!driver || driver->device_count(&found) != kSuccess) return 0;
    return found;
  }();
  return count;
}

DeviceBackend& device(int id) {
  Devices& all = devices();
  const std::lock_guard lock(all.mutex);
  all.opened.resize(static_cast<std::size_t>(device_count()));
  CudaDevice*& device = all.opened.at(static_cast<std::size_t>(id));
  if (device) return *device;
  try {
    device = new CudaDevice(id);
  } catch (const RuntimeError& error) {
    throw ValueError(format("failed to create device: {}", error.message()));
  }
  // Peers that cannot be reached are no failure here; enable_all_peer_access says so.
  for (CudaDevice* other : all.opened) {
    if (!other || other == device) continue;
    for (auto [from, to] : {std::pair(device, other), std::pair(other, device)}) {
      if (!from->can_access(*to)) continue;
      const ContextScope scope(from->context());
      library().context_enable_peer_access(to->context(), 0);
    }
  }
  return *device;
}

CudaDevice::CudaDevice(int id) : DeviceBackend(false), id_(id) {
  const Library& driver = library();
  check(driver.device_get(&number_, id), "cuDeviceGet", id);
  std::array<char, 256> name{};
  check(driver.device_name(name.data(), static_cast<int>(name.size()), number_), "cuDeviceGetName",
        id);
  name_ = name.data();
  check(driver.device_total_memory(&total_, number_), "cuDeviceTotalMem", id);
  const auto attribute = [&](int which) {
    int value = 0;
    check(driver.device_attribute(&value, which, number_), "cuDeviceGetAttribute", id);
    return value;
  };
  major_ = attribute(kComputeCapabilityMajor);
  minor_ = attribute(kComputeCapabilityMinor);
  integrated_ = attribute(kIntegrated) != 0;
  check(driver.primary_context_retain(&context_, number_), "cuDevicePrimaryCtxRetain", id);
  const ContextScope scope(context_);
  check(driver.stream_create(&copies_, kStreamNonBlocking, 0), "cuStreamCreateWithPriority", id);

  const std::string text = format("Device(type=gpu,id={})", id);
  memory_ = std::make_unique<MemoryManager>(
      MemoryManager::Source{
          .pool = "device memory",
          .device = text,
          .allocate = [this](std::size_t bytes) -> void* {
            const ContextScope current(context_);
            DevicePointer memory = 0;
            if (library().memory_allocate(&memory, bytes) != kSuccess) return nullptr;
            return reinterpret_cast<void*>(memory);
          },
          .release =
              [this](void* memory) {
                const ContextScope current(context_);
                library().memory_free(reinterpret_cast<std::uintptr_t>(memory));
              },
          .available =
              [this] {
                const ContextScope current(context_);
                std::size_t free = 0, total = 0;
                library().memory_info(&free, &total);
                return free;
              },
          .settle = [this] { settle(); },
      },
      MemorySettings::for_device(total_));
  host_memory_ = std::make_unique<MemoryManager>(
      MemoryManager::Source{
          .pool = "page-locked host memory",
          .device = text,
          .allocate = [this](std::size_t bytes) -> void* {
            const ContextScope current(context_);
            void* memory = nullptr;
            if (library().host_allocate(&memory, bytes, kHostPortable | kHostDeviceMap) != kSuccess)
              return nullptr;
            return memory;
          },
          .release =
              [this](void* memory) {
                const ContextScope current(context_);
                library().host_free(memory);
              },
          .available = [] { return free_host_bytes(); },
          .settle = [this] { settle(); },
      },
      MemorySettings::for_host(host_bytes()));
}

/// Memory that was dropped while work used it comes back when the queues have done that work.
void CudaDevice::settle() { wait_for_all(std::chrono::steady_clock::time_point::max()); }

std::string CudaDevice::format_architecture() const { return format("sm_{}{}", major_, minor_); }

std::map<std::string, std::int64_t> CudaDevice::stats() const {
  const ContextScope scope(context_);
  std::size_t free = 0, total = 0;
  check(library().memory_info(&free, &total), "cuMemGetInfo", id_);
  std::uint64_t reserved = 0, used = 0;
  if (library().device_graph_memory_attribute) {
    library().device_graph_memory_attribute(number_, kGraphMemoryReserved, &reserved);
    library().device_graph_memory_attribute(number_, kGraphMemoryUsed, &used);
  }
  return {{"free_memory", static_cast<std::int64_t>(std::min(free + memory_->free_bytes(), total))},
          {"total_memory", static_cast<std::int64_t>(total)},
          {"graph_mem_reserved", static_cast<std::int64_t>(reserved)},
          {"graph_mem_used", static_cast<std::int64_t>(used)}};
}

std::size_t CudaDevice::trim() { return memory_->trim() + host_memory_->trim(); }

bool CudaDevice::can_access(const DeviceBackend& other) const {
  const auto* peer = dynamic_cast<const CudaDevice*>(&other);
  if (!peer || peer == this) return false;
  int answer = 0;
  return library().device_can_access_peer(&answer, number_, peer->number_) == kSuccess &&
         answer != 0;
}

QueueBackend* CudaDevice::default_queue() {
  std::call_once(default_queue_made_, [&] {
    auto* queue = new CudaQueue(*this);
    queue->make_immortal();
    queue->timeline().make_immortal();
    default_queue_ = queue;
  });
  return default_queue_;
}

Ref<QueueBackend> CudaDevice::make_queue(int priority) {
  const auto [least, greatest] = priority_range();
  return Ref<QueueBackend>::adopt(new CudaQueue(*this, std::clamp(priority, greatest, least)));
}

Ref<QueueBackend> CudaDevice::wrap_stream(Stream stream) {
  return Ref<QueueBackend>::adopt(new CudaQueue(*this, stream, std::true_type()));
}

std::pair<int, int> CudaDevice::priority_range() const {
  const ContextScope scope(context_);
  int least = 0, greatest = 0;
  check(library().stream_priority_range(&least, &greatest), "cuCtxGetStreamPriorityRange", id_);
  return {least, greatest};
}

int CudaDevice::attribute(int which) const {
  int value = 0;
  const Result result = library().device_attribute(&value, which, number_);
  if (result == kInvalidValue)
    throw ValueError(
        format("The driver of Device(type=gpu,id={}) does not know attribute {}.", id_, which));
  check(result, "cuDeviceGetAttribute", id_);
  return value;
}

bool CudaDevice::supports_multicast() const {
  int value = 0;
  return library().multicast_create != nullptr &&
         library().device_attribute(&value, kMulticastSupported, number_) == kSuccess && value != 0;
}

Ref<EventBackend> CudaDevice::make_event(bool enable_timing) {
  return Ref<EventBackend>::adopt(new CudaEvent(*this, enable_timing));
}

void CudaDevice::set_fault(const std::exception_ptr& fault) {
  const std::lock_guard lock(fault_mutex_);
  if (faulted_.load(std::memory_order_relaxed)) return;
  fault_ = fault;
  faulted_.store(true, std::memory_order_release);
}

void* CudaDevice::allocate(std::size_t bytes, QueueBackend& queue, Usage usage) {
  throw_if_faulted();
  if (has(usage, Usage::STAGING)) return host_memory_->allocate(bytes);
  void* memory = memory_->allocate(bytes);
  if (const auto poison = memory_->settings().poison) [[unlikely]] {
    const ContextScope scope(context_);
    check(library().fill_async(reinterpret_cast<std::uintptr_t>(memory), *poison, bytes,
                               static_cast<CudaQueue&>(queue).stream()),
          "cuMemsetD8Async", id_);
  }
  return memory;
}

void CudaDevice::release(void* memory, std::size_t bytes, Usage usage) noexcept {
  (has(usage, Usage::STAGING) ? *host_memory_ : *memory_).release(memory, bytes);
}

void CudaDevice::copy_now(void* destination, const void* source, std::size_t bytes) {
  const std::lock_guard lock(copies_mutex_);
  const ContextScope scope(context_);
  check(library().copy_async(reinterpret_cast<std::uintptr_t>(destination),
                             reinterpret_cast<std::uintptr_t>(source), bytes, copies_),
        "cuMemcpyAsync", id_);
  check(library().stream_synchronize(copies_), "cuStreamSynchronize", id_);
}

}  // namespace kiln::driver::cuda
