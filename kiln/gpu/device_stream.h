#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <utility>

#include "kiln/driver/completion_flag.h"
#include "kiln/driver/event.h"
#include "kiln/driver/queue.h"
#include "kiln/gpu/device_function.h"
#include "kiln/gpu/kernel.h"

namespace kiln::gpu {

using driver::DeviceEvent;

/// An in-order stream of one device: a queue of the driver, with launches. A small value; copies
/// name the same stream. Safe from any thread.
class DeviceStream {
 public:
  explicit DeviceStream(driver::DeviceQueue queue) : queue_(std::move(queue)) {}

  const driver::DeviceQueue& queue() const { return queue_; }
  /// Blocks until the stream is empty; throws what its work failed with.
  void synchronize(std::source_location location = std::source_location::current()) const;
  /// Marks the present end; a new mark replaces the old one. Event of another device: ValueError.
  void record_event(const DeviceEvent& event) const { queue_.record_event(event); }
  /// Later work here waits for the event's present mark; one never recorded holds nothing up.
  void enqueue_wait_for(const DeviceEvent& event) const { queue_.wait_for(event); }
  /// Runs `function(data)` on a thread of the driver after earlier work; it must not call kiln.
  /// Not a CUDA stream: RuntimeError.
  void enqueue_host_func(void (*function)(void*), void* data) const;
  /// Stalls until the flag holds `value`. Not a CUDA stream: RuntimeError.
  void wait_for_host_value(const driver::CompletionFlag& flag, std::uint64_t value) const;

  /// As on the context.
  template <typename Handle, typename... A>
    requires std::is_base_of_v<detail::FunctionHandleBase, Handle>
  void enqueue_function(const Handle& function, const LaunchConfig& config,
                        const A&... arguments) const {
    detail::launch_handle(queue_, "DeviceStream.enqueue_function", function, config, arguments...);
  }
  template <typename... P, typename... A>
  void enqueue_function(const Kernel<void(P...)>& kernel, const LaunchConfig& config,
                        const A&... arguments) const {
    detail::launch_typed<P...>(queue_, kernel.function(queue_.device()),
                               "DeviceStream.enqueue_function", config, arguments...);
  }
  /// The launch without types under all others: no value on success, else the text of the error.
  /// `arg_sizes` may be null.
  std::optional<std::string> enqueue(FunctionHandle function, Dim grid, Dim block,
                                     std::int64_t shared_bytes, const LaunchAttribute* attributes,
                                     int num_attributes, void* const* args, std::uint32_t arg_count,
                                     const std::uint64_t* arg_sizes) const noexcept;

  friend bool operator==(const DeviceStream&, const DeviceStream&) = default;

 private:
  driver::DeviceQueue queue_;
};

}  // namespace kiln::gpu
