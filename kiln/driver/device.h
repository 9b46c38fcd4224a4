#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::driver {

class DeviceBackend;
class DeviceQueue;

/// A device of this process: the host or an accelerator. A small value; copies name the same
/// device, and devices live as long as the process. Safe from any thread.
class Device {
 public:
  /// "cpu" or "gpu".
  std::string_view label() const;
  /// "cpu", "cuda", "hip" or "metal".
  std::string_view api() const;
  /// Zero-based on this host.
  int id() const;
  /// Such as "sm_90"; RuntimeError on the CPU.
  std::string architecture_name() const;
  /// The processor's or product's name.
  std::string model_name() const;
  bool is_host() const;
  /// Whether device and host share one physical memory.
  bool is_host_unified() const;
  /// Whether kiln can run code on it.
  bool is_compatible() const;
  /// "free_memory" and "total_memory" in bytes, on accelerators more.
  std::map<std::string, std::int64_t> stats() const;
  /// In bytes.
  std::size_t max_single_alloc_size() const;
  /// The queue of every buffer made without a queue. Virtual devices: RuntimeError.
  DeviceQueue default_queue() const;
  /// Waits for the default queue and throws what it failed with.
  void synchronize() const;
  /// Gives pooled memory that nobody uses back to the system; returns the bytes.
  std::size_t trim() const;
  /// The hardware's peer answer; always false for CPUs.
  bool can_access(const Device& other) const;
  /// "Device(type=cpu,id=0)".
  std::string to_string() const;

  friend bool operator==(const Device&, const Device&) = default;

  /// The device of a backend, for backends themselves.
  explicit Device(DeviceBackend* backend);
  DeviceBackend* backend() const { return backend_; }

 private:
  DeviceBackend* backend_;
};

/// The host, whatever the id.
Device CPU(int id = -1);
/// Accelerator `id`, -1 for the first. ValueError starting "failed to create device:" otherwise.
Device Accelerator(int id = -1);

/// Number of accelerators; a missing or unusable vendor driver counts as 0. Never throws.
int accelerator_count();
/// `api` of accelerator 0, else "cpu".
std::string accelerator_api();
/// Of accelerator 0; RuntimeError without one.
std::string accelerator_architecture_name();

/// Names a device without opening it. A value that does not change.
class DeviceSpec {
 public:
  /// A negative id with "gpu" and an unknown type are ValueErrors.
  DeviceSpec(int id, std::string device_type = "cpu");
  static DeviceSpec cpu(int id = -1) { return {id, "cpu"}; }
  static DeviceSpec accelerator(int id = 0) { return {id, "gpu"}; }

  int id() const { return id_; }
  /// "cpu" or "gpu".
  const std::string& device_type() const { return device_type_; }
  friend bool operator==(const DeviceSpec&, const DeviceSpec&) = default;

 private:
  int id_;
  std::string device_type_;
};

/// Opens each spec, in order. ValueError when an accelerator is not there.
std::vector<Device> load_devices(std::span<const DeviceSpec> specs);
/// One spec per accelerator; one CPU spec when there is none.
std::vector<DeviceSpec> scan_available_devices();
/// True when every accelerator spec is in the scan.
bool devices_exist(std::span<const DeviceSpec> specs);
/// Process-wide and idempotent; RuntimeError when some pair of accelerators cannot be enabled.
void enable_all_peer_access();

}  // namespace kiln::driver

namespace kiln {
/// kiln's version, such as "0.1.0".
std::string version();
}  // namespace kiln

template <>
struct std::hash<kiln::driver::Device> {
  std::size_t operator()(const kiln::driver::Device& device) const noexcept {
    return std::hash<const void*>()(device.backend());
  }
};
