#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/api/driver_types.h"
#include "emulator/device/context.h"
#include "emulator/device/settings.h"
#include "emulator/engine/engine.h"
#include "emulator/memory/memory.h"

namespace kiln::emulator {

/// An emulated device.
struct Device {
  std::uint32_t ordinal = 0;
  std::mutex mutex;  // of what follows
  // Made once; its handle stays the same whenever it ends and begins again.
  std::shared_ptr<Context> primary;
  bool primary_active = false;
  std::uint32_t primary_uses = 0;
  unsigned primary_flags = 0;
  CUmemoryPool default_pool = nullptr, current_pool = nullptr;
};

/// What cuInit makes; lives until the process ends, since threads may still use it at exit.
struct Driver {
  explicit Driver(const Settings& settings);

  const Settings settings;
  Memory memory;
  Engine engine;
  std::vector<std::unique_ptr<Device>> devices;

  std::mutex mutex;                                  // of what follows
  std::vector<std::shared_ptr<Object>> ended_pools;  // destroyed, but memory of them is in use

  /// The device of an ordinal, or null.
  Device* device(CUdevice ordinal) {
    return ordinal >= 0 && static_cast<std::size_t>(ordinal) < devices.size()
               ? devices[ordinal].get()
               : nullptr;
  }
};

/// Null before cuInit.
Driver* driver();
/// Makes the driver once; later calls do nothing. Throws ValueError.
void start_driver();

/// A new context with its legacy stream; it has no handle yet.
std::shared_ptr<Context> make_context(Driver& driver, std::uint32_t device, unsigned flags,
                                      unsigned version);
/// Ends a context: its work, streams, events, modules and memory.
void end_context(Driver& driver, const std::shared_ptr<Context>& context);
/// The primary context of a device, which begins when it is not active; counts one more use.
std::shared_ptr<Context> retain_primary(Driver& driver, Device& device);
/// Ends the primary context if it is active; its uses still count.
void end_primary(Driver& driver, Device& device);

/// A new stream of a context, known to the engine; without a handle.
std::shared_ptr<Stream> make_stream(Driver& driver, const std::shared_ptr<Context>& context,
                                    Stream::Order order, unsigned flags, int priority);

/// The contexts that the calling thread has made current, the last on top.
std::vector<std::shared_ptr<Context>>& context_stack();

/// What cuDeviceGetAttribute answers, or kUnknownAttribute.
inline constexpr int kUnknownAttribute = -2147483647;
int device_attribute(const Driver& driver, std::uint32_t device, int attribute);

inline constexpr std::uint32_t kMultiprocessors = 132;
inline constexpr int kDriverVersion = 13000;
inline constexpr int kGreatestPriority = -5;
inline constexpr std::uint32_t kSharedPerMultiprocessor = 228 << 10;
inline constexpr std::uint32_t kSharedPerBlock = 48 << 10;
inline constexpr std::uint32_t kSharedPerBlockOptIn = 227 << 10;
inline constexpr std::uint32_t kSharedReserved = 1 << 10;  // of each block
inline constexpr std::uint32_t kRegisters = 65536;         // of a multiprocessor and of a block
inline constexpr std::uint32_t kThreadsPerMultiprocessor = 2048;
inline constexpr std::uint32_t kThreadsPerBlock = 1024;
inline constexpr std::uint32_t kBlocksPerMultiprocessor = 32;

}  // namespace kiln::emulator
