#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kiln/driver/cuda/library.h"

namespace kiln::driver::cuda {

class CudaDevice;

/// Addresses by device. Mapped until the process ends.
struct MulticastMemory {
  std::vector<DevicePointer> unicast, multicast;
};

/// Reserves `bytes`, rounded up to what the hardware asks for, on each device, and binds them to
/// one multicast object. Refused by the driver: RuntimeError; nothing is kept then.
MulticastMemory allocate_multicast(std::span<CudaDevice* const> devices, std::uint64_t bytes);

}  // namespace kiln::driver::cuda
