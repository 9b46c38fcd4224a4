#include <limits>
#include <map>
#include <mutex>
#include <tuple>

#include "kiln/driver/backend.h"
#include "kiln/driver/cpu/processor_names.h"
#include "kiln/driver/virtual_device.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::driver {
namespace {

/// What a virtual device is when nothing was set: every device that kiln supports runs its code.
constexpr std::string_view kDefaultApi = "cuda";
constexpr std::string_view kDefaultArchitecture = "sm_80";

/// An accelerator that is not there: it can be named and compiled for, nothing else.
class NullDevice final : public DeviceBackend {
 public:
  NullDevice(int id, std::string api, std::string architecture)
      : DeviceBackend(false),
        id_(id),
        api_(std::move(api)),
        architecture_(std::move(architecture)) {}

  std::string_view label() const override { return "gpu"; }
  std::string_view api() const override { return api_; }
  int id() const override { return id_; }
  std::string architecture_name() const override { return architecture_; }
  std::string model_name() const override { return format("virtual {}", architecture_); }
  bool is_host_unified() const override { return false; }
  bool is_compatible() const override { return true; }
  /// It has no memory, of which all is free.
  std::map<std::string, std::int64_t> stats() const override {
    return {
        {"free_memory", 0}, {"total_memory", 0}, {"graph_mem_reserved", 0}, {"graph_mem_used", 0}};
  }
  /// What is compiled for absent hardware is limited by nothing but the bytes that can be counted.
  std::size_t max_single_alloc_size() const override {
    return static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  }
  std::size_t trim() override { return 0; }
  bool can_access(const DeviceBackend&) const override { return false; }
  QueueBackend* default_queue() override { refuse(); }
  Ref<QueueBackend> make_queue() override { refuse(); }
  Ref<EventBackend> make_event(bool) override { refuse(); }
  void* allocate(std::size_t, QueueBackend&, Usage) override { refuse(); }
  void copy_to_host(void*, const void*, std::size_t) override { refuse(); }
  void copy_from_host(void*, const void*, std::size_t) override { refuse(); }
  void release(void*, std::size_t, Usage) noexcept override {}

 private:
  [[noreturn]] void refuse() const {
    throw RuntimeError(format("virtual device gpu:{} cannot hold memory or run work", id_));
  }

  int id_;
  std::string api_;
  std::string architecture_;
};

struct Settings {
  std::mutex mutex;
  int count = 0;
  std::string api;
  std::string architecture;
  /// The two as they were when the count was set, which is when they take effect.
  std::string present_api;
  std::string present_architecture;
  std::string cpu_target;
  /// Leaked, as every device: one object for an id and what it stands for.
  std::map<std::tuple<int, std::string, std::string>, NullDevice*> devices;
};

Settings& settings() {
  static auto* instance = new Settings;
  return *instance;
}

}  // namespace

void set_virtual_device_count(int count) {
  if (count < 0)
    throw ValueError(
        format("set_virtual_device_count: the count is {}, but must be 0 or more.", count));
  Settings& all = settings();
  std::lock_guard lock(all.mutex);
  all.count = count;
  all.present_api = all.api.empty() ? kDefaultApi : all.api;
  all.present_architecture = all.architecture.empty() ? kDefaultArchitecture : all.architecture;
}

int get_virtual_device_count() {
  std::lock_guard lock(settings().mutex);
  return settings().count;
}

bool is_virtual_device_mode() { return get_virtual_device_count() > 0; }

void set_virtual_device_api(std::string_view api) {
  if (!api.empty() && api != "cuda" && api != "hip" && api != "metal")
    throw ValueError(format(
        "set_virtual_device_api: '{}' is not a device api; choose 'cuda', 'hip' or 'metal'.", api));
  std::lock_guard lock(settings().mutex);
  settings().api = api;
}

std::string get_virtual_device_api() {
  std::lock_guard lock(settings().mutex);
  return settings().api;
}

void set_virtual_device_target_arch(std::string_view arch) {
  std::lock_guard lock(settings().mutex);
  settings().architecture = arch;
}

std::string get_virtual_device_target_arch() {
  std::lock_guard lock(settings().mutex);
  return settings().architecture;
}

void set_virtual_cpu_target(std::string_view cpu) {
  if (!cpu.empty() && cpu != "generic" && !is_processor_name(cpu))
    throw ValueError(format(
        "set_virtual_cpu_target: '{}' is not the name of a processor of this host's family. Give a "
        "name such as '{}', 'generic' for the lowest baseline, or '' for this host.",
        cpu, example_processor_name()));
  std::lock_guard lock(settings().mutex);
  settings().cpu_target = cpu;
}

std::string get_virtual_cpu_target() {
  std::lock_guard lock(settings().mutex);
  return settings().cpu_target;
}

DeviceBackend& virtual_backend(int id) {
  Settings& all = settings();
  std::lock_guard lock(all.mutex);
  NullDevice*& device = all.devices[{id, all.present_api, all.present_architecture}];
  if (!device) device = new NullDevice(id, all.present_api, all.present_architecture);
  return *device;
}

}  // namespace kiln::driver
