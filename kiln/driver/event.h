#pragma once

#include <string>

#include "kiln/driver/device.h"
#include "kiln/support/ref.h"

namespace kiln::driver {

class EventBackend;
void ref_retain(EventBackend* event) noexcept;
void ref_release(EventBackend* event) noexcept;

/// A mark in the work of a queue. A small value; copies name the same event. Safe from any thread.
class DeviceEvent {
 public:
  /// An unrecorded event. It cannot be created: ValueError; on a virtual device: RuntimeError.
  explicit DeviceEvent(const Device& device, bool enable_timing = false);

  Device device() const;
  /// Blocks for the recorded point; at once when never recorded. RuntimeError if that work failed.
  void synchronize() const;
  /// Whether the recorded point has been reached; true when never recorded. Errors as synchronize.
  bool is_ready() const;
  /// Milliseconds from this event to `end`. RuntimeError when either has no timing or was never
  /// recorded, or `end` is not ready.
  double elapsed_time(const DeviceEvent& end) const;
  /// "cpu[0]:event@0x…".
  std::string to_string() const;
  friend bool operator==(const DeviceEvent&, const DeviceEvent&) = default;

  explicit DeviceEvent(Ref<EventBackend> backend) : backend_(std::move(backend)) {}
  EventBackend* backend() const { return &*backend_; }
  /// Identity as a number, for hashing.
  const void* identity() const { return backend_.get(); }

 private:
  Ref<EventBackend> backend_;
};

}  // namespace kiln::driver

template <>
struct std::hash<kiln::driver::DeviceEvent> {
  std::size_t operator()(const kiln::driver::DeviceEvent& event) const noexcept {
    return std::hash<const void*>()(event.identity());
  }
};
