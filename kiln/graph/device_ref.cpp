#include "kiln/driver/device.h"
#include "kiln/graph/type.h"

namespace kiln::graph {

DeviceRef::DeviceRef(const driver::Device& device)
    : DeviceRef(device.is_host() ? DeviceKind::cpu : DeviceKind::gpu, device.id()) {}

driver::Device DeviceRef::to_device() const {
  return is_cpu() ? driver::CPU(id) : driver::Accelerator(id);
}

}  // namespace kiln::graph
