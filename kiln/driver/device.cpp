#include "kiln/driver/device.h"

#include <charconv>
#include <limits>

#include "kiln/driver/backend.h"
#include "kiln/driver/cuda/device.h"
#include "kiln/driver/queue.h"
#include "kiln/driver/virtual_device.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/process.h"

namespace kiln {

std::string version() { return "0.1.0"; }

}  // namespace kiln

namespace kiln::driver {

Device::Device(DeviceBackend* backend) : backend_(backend) {}

std::string_view Device::label() const { return backend_->label(); }
std::string_view Device::api() const { return backend_->api(); }
int Device::id() const { return backend_->id(); }
std::string Device::architecture_name() const { return backend_->architecture_name(); }
std::string Device::model_name() const { return backend_->model_name(); }
bool Device::is_host() const { return backend_->is_host(); }
bool Device::is_host_unified() const { return backend_->is_host_unified(); }
bool Device::is_compatible() const { return backend_->is_compatible(); }
std::map<std::string, std::int64_t> Device::stats() const {
  check_process();
  return backend_->stats();
}
std::size_t Device::max_single_alloc_size() const {
  check_process();
  return backend_->max_single_alloc_size();
}
DeviceQueue Device::default_queue() const {
  check_process();
  return DeviceQueue(Ref<QueueBackend>::share(backend_->default_queue()));
}
void Device::synchronize() const {
  check_call("Device.synchronize");
  default_queue().synchronize();
}
std::size_t Device::trim() const {
  check_call("Device.trim");
  return backend_->trim();
}
bool Device::can_access(const Device& other) const {
  check_process();
  return backend_->can_access(*other.backend_);
}
std::string Device::to_string() const { return format("Device(type={},id={})", label(), id()); }

Device CPU(int) {
  static DeviceBackend* backend = &cpu_backend();
  return Device(backend);
}

Device Accelerator(int id) {
  const int count = accelerator_count();
  if (id < -1)
    throw ValueError(
        format("failed to create device: the accelerator id {} is negative; ids run "
               "from 0, and -1 stands for the first one.",
               id));
  if (count == 0)
    throw ValueError(
        format("failed to create device: this host has no accelerator that kiln can use: {}. Use "
               "CPU(), or set_virtual_device_count() to compile for hardware that is absent.",
               cuda::why_unavailable().empty() ? "the CUDA driver has no device"
                                               : cuda::why_unavailable()));
  const int wanted = id < 0 ? 0 : id;
  if (wanted >= count)
    throw ValueError(
        format("failed to create device: accelerator {} was asked for, but there are "
               "only {}, numbered from 0.",
               wanted, count));
  return Device(is_virtual_device_mode() ? &virtual_backend(wanted) : &cuda::device(wanted));
}

int accelerator_count() {
  return is_virtual_device_mode() ? get_virtual_device_count() : cuda::device_count();
}

std::string accelerator_api() {
  return accelerator_count() > 0 ? std::string(Accelerator(0).api()) : "cpu";
}

std::string accelerator_architecture_name() {
  return (accelerator_count() > 0 ? Accelerator(0) : CPU()).architecture_name();
}

DeviceSpec::DeviceSpec(int id, std::string device_type)
    : id_(id), device_type_(std::move(device_type)) {
  if (device_type_ != "cpu" && device_type_ != "gpu")
    throw ValueError(format("DeviceSpec: the device type '{}' is unknown; choose 'cpu' or 'gpu'.",
                            device_type_));
  if (device_type_ == "gpu" && id < 0)
    throw ValueError(format("DeviceSpec: an accelerator's id must be 0 or more, but is {}.", id));
}

std::vector<Device> load_devices(std::span<const DeviceSpec> specs) {
  const int count = accelerator_count();
  std::vector<Device> devices;
  for (const DeviceSpec& spec : specs) {
    if (spec.device_type() == "cpu") {
      devices.push_back(CPU(spec.id()));
      continue;
    }
    if (count == 0)
      throw ValueError(format("Device {} was requested but no devices were found.", spec.id()));
    if (spec.id() >= count)
      throw ValueError(
          format("Device {} was requested but only found {} devices.", spec.id(), count));
    devices.push_back(Accelerator(spec.id()));
  }
  return devices;
}

std::vector<DeviceSpec> scan_available_devices() {
  std::vector<DeviceSpec> specs;
  for (int id = 0; id < accelerator_count(); ++id) specs.push_back(DeviceSpec::accelerator(id));
  if (specs.empty()) specs.push_back(DeviceSpec::cpu());
  return specs;
}

bool devices_exist(std::span<const DeviceSpec> specs) {
  const int count = accelerator_count();
  for (const DeviceSpec& spec : specs)
    if (spec.device_type() != "cpu" && spec.id() >= count) return false;
  return true;
}

void enable_all_peer_access() {
  const int count = accelerator_count();
  for (int a = 0; a < count; ++a)
    for (int b = 0; b < count; ++b)
      if (a != b && !Accelerator(a).can_access(Accelerator(b)))
        throw RuntimeError(format(
            "Peer access from gpu:{} to gpu:{} cannot be enabled: the hardware does not offer it.",
            a, b));
}

namespace {

/// How many accelerators there are when `id` is one of them.
int count_for(int id) {
  if (id < 0 || id == std::numeric_limits<int>::max())
    throw ValueError(format("{} is not the id of an accelerator; ids count from 0.", id));
  return id + 1;
}

}  // namespace

int calculate_virtual_device_count(std::span<const std::vector<DeviceSpec>> spec_lists) {
  int count = 1;
  for (const std::vector<DeviceSpec>& specs : spec_lists)
    for (const DeviceSpec& spec : specs)
      if (spec.device_type() == "gpu") count = std::max(count, count_for(spec.id()));
  return count;
}

int calculate_virtual_device_count_from_cli(std::span<const DeviceInput> inputs) {
  int count = 1;
  for (const DeviceInput& input : inputs) {
    if (const auto* ids = std::get_if<std::vector<int>>(&input)) {
      for (int id : *ids) count = std::max(count, count_for(id));
      continue;
    }
    const std::string_view text = std::get<std::string>(input);
    if (text == "gpu" || text == "cpu") continue;
    std::string_view rest = text.starts_with("gpu:") ? text.substr(4) : text;
    if (rest == "all") {
      count = std::max(count, accelerator_count());
      continue;
    }
    for (;;) {
      const std::size_t comma = rest.find(',');
      std::string_view number = rest.substr(0, comma);
      while (number.starts_with(' ')) number.remove_prefix(1);
      while (number.ends_with(' ')) number.remove_suffix(1);
      int id = 0;
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), id);
      if (error != std::errc() || end != number.data() + number.size() || id < 0)
        throw ValueError(
            format("'{}' does not name accelerators: '{}' is not a number. Write "
                   "'gpu', 'gpu:0,3' or 'gpu:all'.",
                   text, number));
      count = std::max(count, count_for(id));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return count;
}

}  // namespace kiln::driver
