#pragma once

#include "emulator/api/driver_types.h"
#include "emulator/memory/memory.h"

namespace kiln::emulator {

/// Makes [host, host + bytes) of the program's memory reachable for all devices.
CUresult register_host(Memory& memory, std::uint64_t host, std::uint64_t bytes, unsigned flags,
                       std::uint32_t device, std::uint64_t context);

/// Takes that back; `host` is where the range began.
CUresult unregister_host(Memory& memory, std::uint64_t host);

}  // namespace kiln::emulator
