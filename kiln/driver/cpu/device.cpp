#include <cstdio>
#include <cstring>

#include "kiln/driver/backend.h"
#include "kiln/driver/cpu/event.h"
#include "kiln/driver/cpu/memory_pool.h"
#include "kiln/driver/cpu/queue.h"
#include "kiln/support/error.h"

namespace kiln::driver {
namespace {

std::string read_processor_name() {
  std::string name = "unknown processor";
  std::FILE* file = std::fopen("/proc/cpuinfo", "re");
  if (!file) return name;
  char line[512];
  while (std::fgets(line, sizeof line, file)) {
    if (std::strncmp(line, "model name", 10) != 0) continue;
    if (const char* colon = std::strchr(line, ':')) {
      name = colon + 1;
      while (!name.empty() && (name.back() == '\n' || name.back() == ' ')) name.pop_back();
      name.erase(0, name.find_first_not_of(' '));
    }
    break;
  }
  std::fclose(file);
  return name;
}

class CpuDevice final : public DeviceBackend {
 public:
  CpuDevice() : DeviceBackend(true), default_queue_(new CpuQueue(*this)) {
    default_queue_->make_immortal();
    default_queue_->timeline().make_immortal();
  }

  std::string_view label() const override { return "cpu"; }
  std::string_view api() const override { return "cpu"; }
  int id() const override { return 0; }
  std::string architecture_name() const override {
    throw RuntimeError(
        "failed to get device architecture name: the CPU has none; `model_name` names the "
        "processor.");
  }
  std::string model_name() const override {
    static const std::string name = read_processor_name();
    return name;
  }
  bool is_host_unified() const override { return true; }
  bool is_compatible() const override { return true; }
  std::map<std::string, std::int64_t> stats() const override {
    const HostMemory memory = host_memory();
    const std::size_t available =
        std::min(memory.total, memory.available + CpuMemoryPool::instance().stored_bytes());
    return {{"free_memory", static_cast<std::int64_t>(available)},
            {"total_memory", static_cast<std::int64_t>(memory.total)}};
  }
  std::size_t max_single_alloc_size() const override { return host_memory().total; }
  std::size_t trim() override { return CpuMemoryPool::instance().trim(); }
  bool can_access(const DeviceBackend&) const override { return false; }

  QueueBackend* default_queue() override { return default_queue_; }
  Ref<QueueBackend> make_queue() override { return Ref<QueueBackend>::adopt(new CpuQueue(*this)); }
  Ref<EventBackend> make_event(bool enable_timing) override {
    return Ref<EventBackend>::adopt(new CpuEvent(*this, enable_timing));
  }
  void* allocate(std::size_t bytes, QueueBackend&, Usage) override {
    return CpuMemoryPool::allocate(bytes);
  }
  void copy_to_host(void* destination, const void* source, std::size_t bytes) override {
    std::memmove(destination, source, bytes);
  }
  void copy_from_host(void* destination, const void* source, std::size_t bytes) override {
    std::memmove(destination, source, bytes);
  }
  void release(void* memory, std::size_t bytes, Usage) noexcept override {
    CpuMemoryPool::release(memory, bytes);
  }

 private:
  CpuQueue* default_queue_;
};

}  // namespace

DeviceBackend& cpu_backend() {
  // Leaked: buffers and queue workers may outlive static destructors.
  static auto* device = new CpuDevice;
  return *device;
}

}  // namespace kiln::driver
