#include "kiln/driver/cuda/multicast.h"

#include <functional>
#include <string_view>

#include "kiln/driver/cuda/device.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::driver::cuda {
namespace {

/// Takes back, in reverse order, what was reserved, unless all went well.
class Undo {
 public:
  Undo() = default;
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  ~Undo() {
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) (*step)();
  }
  void add(std::function<void()> step) { steps_.push_back(std::move(step)); }
  void forget() { steps_.clear(); }

 private:
  std::vector<std::function<void()>> steps_;
};

/// A range of addresses with `handle` mapped to it, for the given devices to read and write.
DevicePointer map(MemoryHandle handle, std::uint64_t bytes, std::uint64_t alignment,
                  const std::vector<AccessDescription>& access, int device, Undo& undo) {
  const Library& driver = library();
  DevicePointer address = 0;
  check(driver.address_reserve(&address, bytes, alignment, 0, 0), "cuMemAddressReserve", device);
  undo.add([&driver, address, bytes] { driver.address_free(address, bytes); });
  check(driver.memory_map(address, bytes, 0, handle, 0), "cuMemMap", device);
  undo.add([&driver, address, bytes] { driver.memory_unmap(address, bytes); });
  check(driver.memory_set_access(address, bytes, access.data(), access.size()), "cuMemSetAccess",
        device);
  return address;
}

}  // namespace

MulticastMemory allocate_multicast(std::span<CudaDevice* const> devices, std::uint64_t bytes) {
  const Library& driver = library();
  const auto present = {driver.memory_create != nullptr,
                        driver.multicast_create != nullptr,
                        driver.multicast_add_device != nullptr,
                        driver.multicast_bind != nullptr,
                        driver.multicast_granularity != nullptr,
                        driver.address_reserve != nullptr,
                        driver.memory_map != nullptr,
                        driver.memory_set_access != nullptr};
  for (bool there : present)
    if (!there) throw RuntimeError("the driver has no multicast objects");
  MulticastProperties properties{.num_devices = static_cast<unsigned>(devices.size()),
                                 .size = bytes};
  std::size_t granularity = 0;
  check(driver.multicast_granularity(&granularity, &properties, kGranularityRecommended),
        "cuMulticastGetGranularity");
  if (granularity == 0 || bytes > std::uint64_t{1} << 62)
    throw RuntimeError(format("{} bytes are more than a device can have", bytes));
  properties.size = (bytes + granularity - 1) / granularity * granularity;

  Undo undo;
  const auto release = [&driver](MemoryHandle handle) {
    return [&driver, handle] { driver.memory_handle_release(handle); };
  };
  MemoryHandle object = 0;
  check(driver.multicast_create(&object, &properties), "cuMulticastCreate");
  undo.add(release(object));
  // All devices are added before memory of any is bound.
  std::vector<AccessDescription> everyone;
  for (CudaDevice* device : devices) {
    check(driver.multicast_add_device(object, device->number()), "cuMulticastAddDevice",
          device->id());
    everyone.push_back(
        {.location = {kLocationDevice, device->number()}, .flags = kAccessReadWrite});
  }
  MulticastMemory result;
  for (CudaDevice* device : devices) {
    const ContextScope scope(device->context());
    const AllocationProperties own{.type = kAllocationPinned,
                                   .location = {kLocationDevice, device->number()}};
    MemoryHandle memory = 0;
    check(driver.memory_create(&memory, properties.size, &own, 0), "cuMemCreate", device->id());
    undo.add(release(memory));
    check(driver.multicast_bind(object, 0, memory, 0, properties.size, 0), "cuMulticastBindMem",
          device->id());
    std::vector<AccessDescription> access;
    for (std::size_t i = 0; i < devices.size(); ++i)
      if (devices[i] == device || devices[i]->can_access(*device)) access.push_back(everyone[i]);
    result.unicast.push_back(map(memory, properties.size, granularity, access, device->id(), undo));
  }
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const ContextScope scope(devices[i]->context());
    result.multicast.push_back(
        map(object, properties.size, granularity, {everyone[i]}, devices[i]->id(), undo));
  }
  undo.forget();
  return result;
}

}  // namespace kiln::driver::cuda
