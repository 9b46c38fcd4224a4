#include <algorithm>
#include <array>
#include <cstring>

#include "kiln/driver/cuda/device.h"
#include "kiln/driver/cuda/module.h"
#include "kiln/driver/launch_trace.h"
#include "kiln/driver/order_checker.h"
#include "kiln/gpu/cpu_grid.h"
#include "kiln/gpu/device_function.h"
#include "kiln/gpu/device_info.h"
#include "kiln/gpu/function.h"
#include "kiln/support/call_site.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/process.h"

namespace kiln::gpu::detail {
namespace {

using driver::Work;
namespace cuda = driver::cuda;

constexpr const char* kAxes[] = {"x", "y", "z"};

void check_dim(const Launch& launch, const char* what, const Dim& dim,
               const std::int64_t* largest) {
  const std::int64_t values[] = {dim.x(), dim.y(), dim.z()};
  for (int i = 0; i < 3; ++i) {
    if (values[i] < 1)
      throw ValueError(
          format("{}: Dim value {}.{} must be a positive number.", launch.call, what, kAxes[i]));
    if (values[i] > largest[i])
      throw ValueError(format("{}: {}.{} is {}, the limit on {} is {}", launch.call, what, kAxes[i],
                              values[i], device_name(launch.function.device), largest[i]));
  }
}

void check_shape(const Launch& launch) {
  const LaunchConfig& config = launch.config;
  const LaunchLimits& limits = launch_limits(launch.function.device);
  check_dim(launch, "grid_dim", config.grid_dim, limits.grid);
  check_dim(launch, "block_dim", config.block_dim, limits.block);
  const std::int64_t threads = config.block_dim.x() * config.block_dim.y() * config.block_dim.z();
  const std::int64_t most = std::min<std::int64_t>(limits.threads, launch.function.max_threads);
  if (threads > most)
    throw ValueError(
        format("{}: block_dim has {} threads, the limit is {}", launch.call, threads, most));
  if (!config.cluster_dim) return;
  const Dim& cluster = *config.cluster_dim;
  constexpr std::int64_t kAny[] = {INT64_MAX, INT64_MAX, INT64_MAX};
  check_dim(launch, "cluster_dim", cluster, kAny);
  if (config.grid_dim.x() % cluster.x() != 0 || config.grid_dim.y() % cluster.y() != 0 ||
      config.grid_dim.z() % cluster.z() != 0)
    throw ValueError(format("{}: grid_dim {} is not a multiple of cluster_dim {}", launch.call,
                            config.grid_dim.to_string(), cluster.to_string()));
}

void check_attributes(const Launch& launch) {
  const bool host = launch.function.device.is_host();
  for (const LaunchAttribute& attribute : launch.config.attributes) {
    if (attribute.id == LaunchAttribute::IGNORE) continue;
    if (host)
      throw NotImplementedError(
          format("{}: the launch attribute {} is not available on a cpu "
                 "context.",
                 launch.call, to_string(attribute.id)));
    if (attribute.id != LaunchAttribute::ACCESS_POLICY_WINDOW) continue;
    AccessPolicyWindow window;
    std::memcpy(&window, attribute.value.bytes, sizeof window);
    if (!(window.hit_ratio >= 0 && window.hit_ratio <= 1))
      throw ValueError(
          format("{}: hit_ratio of the access policy window is {}, it must lie in "
                 "0 to 1",
                 launch.call, window.hit_ratio));
    if (window.miss_prop == AccessPolicyWindow::PERSISTING)
      throw ValueError(
          format("{}: miss_prop of an access policy window may not be PERSISTING", launch.call));
  }
  if (!host) return;
  if (launch.config.cluster_dim && *launch.config.cluster_dim != Dim(1))
    throw NotImplementedError(format("{}: cluster_dim {} is not available on a cpu context.",
                                     launch.call, launch.config.cluster_dim->to_string()));
  if (!launch.config.constant_memory.empty())
    throw NotImplementedError(
        format("{}: constant_memory is not available on a cpu context.", launch.call));
}

std::uint64_t launch_on_host(driver::QueueBackend& queue, const Launch& launch,
                             std::int64_t shared_bytes) {
  Work work;
  work.kind = Work::Kind::user_function;
  work.name = launch.function.name;
  work.function = host_task(launch, shared_bytes);
  return queue.enqueue(std::move(work));
}

/// What the stream is given within `enqueue`.
struct CudaLaunch {
  const Launch& launch;
  cuda::NativeLaunchConfig config;
};

void copy_constants(const Launch& launch, cuda::Stream stream) {
  const auto module = std::static_pointer_cast<const cuda::Module>(launch.function.code);
  for (const ConstantMemoryMapping& mapping : launch.config.constant_memory) {
    const auto variable = module->find_variable(mapping.name);
    // The driver copies what lies in plain memory before it returns.
    cuda::check(
        cuda::library().copy_async(variable->first, reinterpret_cast<std::uintptr_t>(mapping.ptr),
                                   mapping.byte_count, stream),
        "cuMemcpyAsync", module->device().id());
  }
}

void check_constants(const Launch& launch) {
  if (launch.config.constant_memory.empty()) return;
  const auto module = std::static_pointer_cast<const cuda::Module>(launch.function.code);
  for (const ConstantMemoryMapping& mapping : launch.config.constant_memory) {
    const auto variable = module->find_variable(mapping.name);
    if (!variable)
      throw ValueError(
          format("constant memory '{}' not found in '{}'", mapping.name, launch.function.name));
    if (mapping.byte_count > variable->second)
      throw ValueError(format("constant memory '{}' holds {} bytes, got {}", mapping.name,
                              variable->second, mapping.byte_count));
    if (mapping.ptr == nullptr && mapping.byte_count > 0)
      throw ValueError(format("constant memory '{}': the address of {} bytes is null", mapping.name,
                              mapping.byte_count));
  }
}

std::uint64_t launch_on_cuda(driver::QueueBackend& queue, const Launch& launch,
                             std::int64_t shared_bytes) {
  const LaunchConfig& config = launch.config;
  CudaLaunch call{launch, {}};
  for (int i = 0; i < 3; ++i) {
    call.config.grid[i] = static_cast<unsigned>(config.grid_dim[i]);
    call.config.block[i] = static_cast<unsigned>(config.block_dim[i]);
  }
  call.config.shared_bytes = static_cast<unsigned>(shared_bytes);
  std::array<cuda::NativeLaunchAttribute, 16> attributes;
  unsigned used = 0;
  const auto add = [&](const LaunchAttribute& attribute) {
    if (attribute.id == LaunchAttribute::IGNORE) return;
    if (used == attributes.size())
      throw ValueError(
          format("{}: more than {} launch attributes were given", launch.call, attributes.size()));
    attributes[used].id = attribute.id;
    std::memcpy(attributes[used].value, attribute.value.bytes, sizeof attribute.value.bytes);
    ++used;
  };
  for (const LaunchAttribute& attribute : config.attributes) add(attribute);
  if (config.cluster_dim) add(LaunchAttribute::from_cluster_dim(*config.cluster_dim));
  call.config.attributes = attributes.data();
  call.config.num_attributes = used;
  check_constants(launch);
  Work work;
  work.kind = Work::Kind::native;
  work.name = launch.function.name;
  work.submit_argument = &call;
  work.submit = [](void* argument, std::uintptr_t stream) {
    auto& self = *static_cast<CudaLaunch*>(argument);
    self.config.stream = reinterpret_cast<cuda::Stream>(stream);
    if (!self.launch.config.constant_memory.empty())
      copy_constants(self.launch, self.config.stream);
    const cuda::Result result = cuda::library().launch(
        &self.config, static_cast<cuda::NativeFunction>(self.launch.function.native),
        const_cast<void**>(self.launch.arguments), nullptr);
    if (result != cuda::kSuccess)
      throw RuntimeError(
          format("failed calling '{}' on device {} with error 'CUDA call failed: {}'",
                 self.launch.function.name, device_name(self.launch.function.device),
                 cuda::describe(result)));
  };
  const std::uint64_t value = queue.enqueue(std::move(work));
  if (driver::launch_trace_runs()) [[unlikely]] {
    driver::LaunchTraceEntry entry;
    entry.name = launch.function.name;
    entry.grid_x = call.config.grid[0];
    entry.grid_y = call.config.grid[1];
    entry.grid_z = call.config.grid[2];
    entry.block_x = call.config.block[0];
    entry.block_y = call.config.block[1];
    entry.block_z = call.config.block[2];
    entry.shared_mem_bytes = call.config.shared_bytes;
    driver::record_launch(std::move(entry), &queue);
  }
  return value;
}

}  // namespace

std::function<void()> host_task(const Launch& launch, std::int64_t shared_bytes) {
  // Everything that the launch needs when it runs.
  struct Task {
    CpuGrid grid;
    std::vector<const void*> pointers;
    std::vector<std::byte> values;
    std::shared_ptr<const void> code, keep;
  };
  constexpr std::uint32_t kAlignment = 16;
  const auto padded = [](std::uint32_t size) {
    return (size + kAlignment - 1) / kAlignment * kAlignment;
  };
  const Function& function = launch.function;
  auto task = std::make_shared<Task>();
  task->code = function.code;
  task->keep = launch.keep;
  task->grid.run = function.run;
  task->grid.may_wait = function.may_wait;
  for (int i = 0; i < 3; ++i) {
    task->grid.grid[i] = static_cast<std::uint32_t>(launch.config.grid_dim[i]);
    task->grid.block[i] = static_cast<std::uint32_t>(launch.config.block_dim[i]);
  }
  task->grid.shared_bytes = static_cast<std::uint32_t>(shared_bytes);
  std::size_t bytes = kAlignment;
  for (std::size_t i = 0; i < launch.count; ++i) bytes += padded(launch.sizes[i]);
  task->values.resize(bytes);
  auto* at = reinterpret_cast<std::byte*>(
      (reinterpret_cast<std::uintptr_t>(task->values.data()) + kAlignment - 1) / kAlignment *
      kAlignment);
  for (std::size_t i = 0; i < launch.count; ++i) {
    std::memcpy(at, launch.arguments[i], launch.sizes[i]);
    task->pointers.push_back(at);
    at += padded(launch.sizes[i]);
  }
  task->grid.arguments = task->pointers.data();
  return [task = std::move(task)] { run_cpu_grid(task->grid); };
}

void add_place(Error& error, const std::source_location& location) {
  // A binding leaves the place to what knows the frames of its language.
  const std::string place =
      location.line() == 0 ? call_site() : format("{}:{}", location.file_name(), location.line());
  if (!place.empty()) error.set_message(format("{}: {}", place, error.message()));
}

void check_buffer(const Function& function, std::size_t index, const driver::Buffer& buffer) {
  if (!buffer.is_contiguous())
    throw ValueError(format("{}: argument #{} is not contiguous", function.name, index));
  const driver::Device device = buffer.device();
  if (device == function.device) return;
  if (function.device.is_host() && (device.is_host() || buffer.pinned())) return;
  // Page-locked memory is mapped for every device.
  if (!function.device.is_host() && buffer.pinned()) return;
  if (!function.device.is_host() && !device.is_host() && function.device.can_access(device)) return;
  throw ValueError(format("{}: argument #{} lives on {}, which {} cannot access", function.name,
                          index, device_name(device), device_name(function.device)));
}

std::int64_t prepare_shared_memory(const Launch& launch) {
  const std::int64_t bytes = launch.config.shared_mem_bytes.value_or(0);
  if (bytes == 0) return 0;
  if (bytes < 0)
    throw ValueError(
        format("{}: shared_mem_bytes is {}, it must not be negative", launch.call, bytes));
  const Function& function = launch.function;
  if (bytes <= function.shared_limit.load(std::memory_order_acquire)) return bytes;
  const std::int64_t wanted = (bytes + 1023) / 1024 * 1024;
  const std::int64_t limit =
      function.user_shared_limit ? function.shared_limit.load() : function.largest_shared_limit;
  if (bytes > limit)
    throw ValueError(format("shared_mem_bytes is {}, the limit for '{}' on {} is {}", bytes,
                            function.name, device_name(function.device), limit));
  const std::int64_t raised = std::min(wanted, limit);
  if (function.native != nullptr) {
    const auto module = std::static_pointer_cast<const cuda::Module>(function.code);
    const cuda::ContextScope scope(module->device().context());
    cuda::check(
        cuda::library().function_set_attribute(
            static_cast<cuda::NativeFunction>(function.native),
            static_cast<int>(Attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES), static_cast<int>(raised)),
        "cuFuncSetAttribute", module->device().id());
  }
  function.shared_limit.store(static_cast<int>(raised), std::memory_order_release);
  return bytes;
}

void check_launch(const Launch& launch) {
  check_shape(launch);
  check_attributes(launch);
}

namespace {

void launch_on_queue(const driver::DeviceQueue& queue, const Launch& launch) {
  driver::QueueBackend& backend = *queue.backend();
  if (&backend.device() != launch.function.device.backend())
    throw ValueError(format("function '{}' was compiled for {}, not {}", launch.function.name,
                            device_name(launch.function.device), device_name(queue.device())));
  check_launch(launch);
  const std::int64_t shared_bytes = prepare_shared_memory(launch);
  check_call(launch.call);
  if (driver::order_checker::enabled()) [[unlikely]]
    for (const BufferUse& use : launch.uses)
      driver::order_checker::use(*use.buffer, backend, backend.submitted() + 1, use.write,
                                 launch.call);
  const std::uint64_t value = launch.function.device.is_host()
                                  ? launch_on_host(backend, launch, shared_bytes)
                                  : launch_on_cuda(backend, launch, shared_bytes);
  for (const BufferUse& use : launch.uses) use.buffer->record_use_at(backend, value, use.write);
}

}  // namespace

void launch(const LaunchTarget& target, const Launch& launch) {
  if (target.queue != nullptr) {
    launch_on_queue(*target.queue, launch);
    return;
  }
  check_launch(launch);
  add_launch(target, launch, prepare_shared_memory(launch));
}

void launch_bound(const LaunchTarget& target, const char* call, const Function& function,
                  const LaunchConfig& config, std::shared_ptr<const BoundArguments> bound) {
  const BoundArguments& values = *bound;
  try {
    launch(target, {.function = function,
                    .config = config,
                    .call = call,
                    .arguments = values.pointers.data(),
                    .sizes = values.sizes.data(),
                    .count = values.pointers.size(),
                    .uses = values.uses,
                    .keep = std::move(bound)});
  } catch (Error& error) {
    add_place(error, config.location);
    throw;
  }
}

void check_sizes(const Function& function, const std::uint32_t* sizes, std::size_t count,
                 const std::string& signature) {
  std::vector<std::uint32_t> found;
  for (const runtime::KernelParameter& p : function.parameters) found.push_back(p.size);
  if (std::equal(found.begin(), found.end(), sizes, sizes + count)) return;
  throw TypeError(
      format("load_function: the parameters of '{}' take {} bytes, but those of {} take "
             "{}",
             function.name, join(found, ", "), signature,
             join(std::vector<std::uint32_t>(sizes, sizes + count), ", ")));
}

}  // namespace kiln::gpu::detail
