#include "emulator/device/driver.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "emulator/api/capture.h"
#include "emulator/device/leaks.h"
#include "emulator/device/module.h"
#include "emulator/memory/guarded_copy.h"

namespace kiln::emulator {
namespace {

std::atomic<Driver*> the_driver = nullptr;

}  // namespace

Driver* driver() { return the_driver.load(std::memory_order_acquire); }

Driver::Driver(const Settings& settings)
    : settings(settings),
      memory({settings.devices, settings.memory, settings.check_memory, settings.check_init,
              settings.check_memory || settings.check_init || settings.check_leak}),
      engine({settings.workers, settings.seed, settings.timeout, kMultiprocessors}) {
  for (std::uint32_t ordinal = 0; ordinal < settings.devices; ++ordinal) {
    devices.push_back(std::make_unique<Device>());
    devices.back()->ordinal = ordinal;
  }
}

void start_driver() {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (driver() != nullptr) return;
  auto* made = new Driver(read_settings());
  set_process_memory(&made->memory);
  install_fault_handler();
  if (made->settings.check_leak) report_leaks_at_exit(*made);
  the_driver.store(made, std::memory_order_release);
}

std::vector<std::shared_ptr<Context>>& context_stack() {
  static thread_local std::vector<std::shared_ptr<Context>> stack;
  return stack;
}

std::shared_ptr<Stream> make_stream(Driver& driver, const std::shared_ptr<Context>& context,
                                    Stream::Order order, unsigned flags, int priority) {
  static std::atomic<std::uint64_t> next_id = 1;
  auto stream = std::make_shared<Stream>();
  stream->context = context;
  stream->order = order;
  stream->flags = flags;
  stream->priority = std::clamp(priority, kGreatestPriority, 0);
  stream->id = next_id.fetch_add(1);
  std::lock_guard lock(driver.engine.mutex());
  context->streams.push_back(stream);
  return stream;
}

std::shared_ptr<Context> make_context(Driver& driver, std::uint32_t device, unsigned flags,
                                      unsigned version) {
  auto context = std::make_shared<Context>();
  context->device = device;
  context->flags = flags;
  context->version = version;
  context->legacy = make_stream(driver, context, Stream::Order::legacy, 0, 0);
  return context;
}

void end_context(Driver& driver, const std::shared_ptr<Context>& context) {
  driver.engine.abandon(*context);
  std::vector<std::shared_ptr<Stream>> streams;
  {
    std::lock_guard lock(driver.engine.mutex());
    streams.swap(context->streams);
    // An operation knows its context, which knows the stream: the circle ends here.
    for (const auto& stream : streams) stream->tail = nullptr;
  }
  for (const auto& stream : streams) invalidate_capture(driver, *stream);
  for (const auto& stream : streams)
    if (stream->handle != 0) handles().remove(stream->handle, ObjectKind::stream);
  std::set<std::uint64_t> modules, events;
  {
    std::lock_guard lock(context->mutex);
    modules.swap(context->modules);
    events.swap(context->events);
    context->per_thread.clear();
  }
  for (std::uint32_t peer = 0; peer < driver.settings.devices; ++peer)
    if ((context->peers >> peer & 1) != 0)
      driver.memory.set_reach(nullptr, peer, context->device, false);
  context->peers = 0;
  for (const std::uint64_t handle : events) handles().remove(handle, ObjectKind::event);
  for (const std::uint64_t handle : modules) {
    const auto module =
        std::static_pointer_cast<Module>(handles().remove(handle, ObjectKind::module));
    if (module == nullptr) continue;
    for (const auto& [index, function] : module->functions) retire<Function>(function);
  }
  driver.memory.free_of_context(context->handle);
}

std::shared_ptr<Context> retain_primary(Driver& driver, Device& device) {
  std::lock_guard lock(device.mutex);
  if (device.primary == nullptr) {
    auto context = make_context(driver, device.ordinal, device.primary_flags, 3020);
    context->primary = true;
    if (handles().add(context) == 0) return nullptr;
    device.primary = context;
  } else if (!device.primary_active) {
    {
      std::lock_guard engine_lock(driver.engine.mutex());
      device.primary->streams = {device.primary->legacy};
    }
    device.primary->error = CUDA_SUCCESS;
  }
  device.primary_active = true;
  ++device.primary_uses;
  return device.primary;
}

void end_primary(Driver& driver, Device& device) {
  std::lock_guard lock(device.mutex);
  if (!std::exchange(device.primary_active, false)) return;
  end_context(driver, device.primary);
}

Module::~Module() {
  Memory* memory = process_memory();
  for (const std::uint64_t address : variables)
    if (memory != nullptr && address != 0) memory->free(address, RegionKind::device);
}

}  // namespace kiln::emulator
