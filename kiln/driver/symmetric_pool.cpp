#include "kiln/driver/symmetric_pool.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "kiln/driver/cuda/device.h"
#include "kiln/driver/cuda/multicast.h"
#include "kiln/driver/queue.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/process.h"

namespace kiln::driver {

struct SymmetricPool::State {
  std::vector<Device> devices;
  std::int64_t byte_size = 0;
  cuda::MulticastMemory memory;
};

namespace {

/// Devices in an order of their own, so that a set is found however it was listed.
using Key = std::vector<const DeviceBackend*>;

Key key_of(std::span<const Device> devices) {
  Key key;
  for (const Device& device : devices) key.push_back(device.backend());
  std::sort(key.begin(), key.end());
  return key;
}

bool has_multicast(const Device& device) {
  const auto* cuda_device = dynamic_cast<const cuda::CudaDevice*>(device.backend());
  return cuda_device != nullptr && cuda_device->supports_multicast();
}

}  // namespace

/// All pools, by their set of devices.
struct SymmetricPool::Registry {
  std::mutex mutex;
  std::map<Key, std::unique_ptr<const State>> pools;

  static Registry& instance() {
    static auto* registry = new Registry;  // leaked: pools live as long as the process
    return *registry;
  }
};

SymmetricPool SymmetricPool::allocate(std::span<const Device> devices, std::int64_t byte_size) {
  check_call("SymmetricPool.allocate");
  if (devices.size() < 2)
    throw RuntimeError(
        format("SymmetricPool: at least two devices are needed, got {}", devices.size()));
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (std::find(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(i), devices[i]) !=
        devices.begin() + static_cast<std::ptrdiff_t>(i))
      throw RuntimeError(
          format("SymmetricPool: device {} is listed twice", devices[i].to_string()));
  for (const Device& device : devices)
    if (!has_multicast(device))
      throw RuntimeError(
          format("SymmetricPool: {} does not support multicast", device.to_string()));
  Registry& registry = Registry::instance();
  // Held throughout, so that two callers cannot both make the pool of a set.
  const std::lock_guard lock(registry.mutex);
  const Key key = key_of(devices);
  if (const auto found = registry.pools.find(key); found != registry.pools.end())
    throw RuntimeError(
        format("SymmetricPool: a pool of {} bytes is already registered for these devices",
               found->second->byte_size));
  if (byte_size <= 0)
    throw RuntimeError(format("SymmetricPool: byte_size must be positive, got {}", byte_size));
  auto state = std::make_unique<State>();
  state->devices.assign(devices.begin(), devices.end());
  state->byte_size = byte_size;
  std::vector<cuda::CudaDevice*> members;
  for (const Device& device : devices)
    members.push_back(static_cast<cuda::CudaDevice*>(device.backend()));
  try {
    state->memory = cuda::allocate_multicast(members, static_cast<std::uint64_t>(byte_size));
  } catch (const RuntimeError& error) {
    throw RuntimeError(format("SymmetricPool: allocation of {} bytes per device failed: {}",
                              byte_size, error.message()));
  }
  const State* made = state.get();
  registry.pools.emplace(key, std::move(state));
  return SymmetricPool(made);
}

std::optional<SymmetricPool> SymmetricPool::lookup(std::span<const Device> devices) {
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.pools.find(key_of(devices));
  if (found == registry.pools.end()) return std::nullopt;
  return SymmetricPool(found->second.get());
}

bool SymmetricPool::is_supported(std::span<const Device> devices) noexcept {
  if (devices.size() < 2) return false;
  try {
    return std::all_of(devices.begin(), devices.end(), has_multicast);
  } catch (...) {
    return false;
  }
}

std::int64_t SymmetricPool::byte_size() const { return state_->byte_size; }

std::size_t SymmetricPool::index_of(const Device& device) const {
  const auto found = std::find(state_->devices.begin(), state_->devices.end(), device);
  if (found == state_->devices.end())
    throw RuntimeError(format("SymmetricPool: {} is not one the pool spans", device.to_string()));
  return static_cast<std::size_t>(found - state_->devices.begin());
}

Buffer SymmetricPool::unicast_view(const Device& device) const {
  const std::size_t index = index_of(device);
  return Buffer::adopt_on(reinterpret_cast<void*>(state_->memory.unicast[index]), DType::uint8,
                          state_->byte_size, device.default_queue(), false, nullptr);
}

Buffer SymmetricPool::multicast_view(const Device& device) const {
  const std::size_t index = index_of(device);
  return Buffer::adopt_on(reinterpret_cast<void*>(state_->memory.multicast[index]), DType::uint8,
                          state_->byte_size, device.default_queue(), false, nullptr);
}

}  // namespace kiln::driver
