#pragma once

#include <cstdint>
#include <optional>

namespace kiln::emulator {

/// The environment variables KILN_EMULATOR_…, read once by cuInit; docs/design/emulated-driver.md
/// lists them.
struct Settings {
  std::uint32_t devices = 1;          // _DEVICES
  std::uint64_t memory = 0;           // _MEMORY: bytes of each device
  std::uint32_t architecture = 90;    // _ARCH
  bool multicast = true;              // _MULTICAST
  bool peers = true;                  // _PEERS
  std::uint32_t workers = 1;          // _WORKERS: threads that run kernels
  double timeout = 10;                // _TIMEOUT: seconds until a deadlock is reported
  std::optional<std::uint64_t> seed;  // _SEED: the order of execution is repeatable
  bool check_memory = false, check_init = false, check_leak = false;  // _CHECK
  std::uint64_t fail_call = 0;  // _FAIL=n:code: the n-th call of the driver (from 1; 0: none)
  std::int32_t fail_code = 0;   // answers with this code
};

/// Reads the environment. Throws ValueError about a value that cannot be understood.
Settings read_settings();

}  // namespace kiln::emulator
