#pragma once

#include <memory>

#include "emulator/api/driver_types.h"
#include "emulator/memory/virtual_memory.h"

namespace kiln::emulator {

/// The memory, or multicast object, of a handle; null when there is none.
std::shared_ptr<PhysicalMemory> find_physical(CUmemGenericAllocationHandle handle);
/// Gives memory a handle; 0 when there are too many.
CUmemGenericAllocationHandle publish_physical(const std::shared_ptr<PhysicalMemory>& physical);

}  // namespace kiln::emulator
