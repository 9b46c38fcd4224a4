#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kiln/driver/buffer.h"
#include "kiln/driver/device.h"

namespace kiln::driver {

/// One block of memory for each device of a set, mapped twice: as the device's own memory, and at
/// an address that the switch multicasts to and reduces over the whole set. The driver keeps one
/// pool for each set until the process ends; objects of this class are handles. Safe from any
/// thread.
class SymmetricPool {
 public:
  /// Reserves at least `byte_size` bytes on each device. Fewer than two devices, one listed twice
  /// or without multicast, a set that has a pool, a size that is not positive, or what the driver
  /// refuses: RuntimeError; nothing is kept then.
  static SymmetricPool allocate(std::span<const Device> devices, std::int64_t byte_size);
  /// The pool of these devices, in any order; never throws for a set without one.
  static std::optional<SymmetricPool> lookup(std::span<const Device> devices);
  /// Whether every one of at least two devices can take part in multicast. Never throws.
  static bool is_supported(std::span<const Device> devices) noexcept;

  /// As it was asked for.
  std::int64_t byte_size() const;
  /// The device's own memory: `byte_size` elements of uint8 on its default queue, with unspecified
  /// contents. Another device: RuntimeError.
  Buffer unicast_view(const Device& device) const;
  /// The same bytes of all devices, for kernels that use multicast instructions alone.
  Buffer multicast_view(const Device& device) const;

  friend bool operator==(const SymmetricPool&, const SymmetricPool&) = default;

 private:
  struct State;
  struct Registry;
  explicit SymmetricPool(const State* state) : state_(state) {}
  std::size_t index_of(const Device& device) const;
  const State* state_;
};

}  // namespace kiln::driver
