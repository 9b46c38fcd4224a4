#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "emulator/api/driver_types.h"
#include "emulator/device/module.h"
#include "emulator/execute/grid.h"

namespace kiln::emulator {

struct Context;

// What streams and graphs do: one plain description a kind of work, which a graph keeps and copies
// and an operation of a stream runs once. Addresses are already those of the process.

struct KernelWork {
  std::shared_ptr<Function> function;
  Dim3 grid, block, cluster;
  std::uint32_t dynamic_shared = 0;
  bool cooperative = false;
  std::vector<std::byte> parameters;
};

/// A box of bytes: `depth` slices of `height` rows of `width` bytes.
struct CopyWork {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t width = 0, height = 1, depth = 1;
  std::size_t to_pitch = 0, to_slice = 0;  // bytes from row to row, from slice to slice
  std::size_t from_pitch = 0, from_slice = 0;
  std::uint64_t to_address = 0;                    // device address of `to`; 0: memory of the host
  std::shared_ptr<std::vector<std::byte>> staged;  // owns `from` where it is a copy
  std::size_t bytes() const { return width * height * depth; }
};

/// `height` rows of `width` elements.
struct FillWork {
  std::byte* to = nullptr;
  std::uint32_t value = 0;
  std::uint32_t element_bytes = 1;
  std::size_t width = 0, height = 1, pitch = 0;
  std::uint64_t to_address = 0;
  std::size_t bytes() const { return width * height * element_bytes; }
};

/// A function of the user, on a thread for such; `callback` for cuStreamAddCallback.
struct HostWork {
  CUhostFn function = nullptr;
  void* user_data = nullptr;
  CUstreamCallback callback = nullptr;
  CUstream stream = nullptr;
};

/// Waits until a word of memory has a value, or writes one.
struct ValueWork {
  std::byte* at = nullptr;
  std::uint64_t value = 0;
  std::uint32_t bytes = 4;
  unsigned condition = 0;  // CU_STREAM_WAIT_VALUE_…
  bool wait = false;
  std::uint64_t address = 0;
};

/// Nothing but its place in the order: records of events, joins, empty nodes.
struct MarkWork {};

/// Something of the driver's own, such as freeing memory in the order of a stream.
struct CallWork {
  std::function<void()> call;
};

using Work = std::variant<MarkWork, KernelWork, CopyWork, FillWork, HostWork, ValueWork, CallWork>;

/// Work in line. Made, given to the engine once, done once.
struct Operation {
  Work work;
  std::shared_ptr<Context> context;  // whose errors it has
  int priority = 0;                  // lower numbers first, as the interface has them
  bool always = false;               // runs in a failed context, too: gives things back

  std::atomic<bool> done = false;
  std::atomic<std::int64_t> time = 0;  // of completion, in ns of the steady clock

  // The engine's, under its lock.
  std::uint32_t waiting_for = 0;
  std::vector<std::shared_ptr<Operation>> followers;
};

using OperationPointer = std::shared_ptr<Operation>;

}  // namespace kiln::emulator
