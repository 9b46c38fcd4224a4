#include "kiln/gpu/device_context.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <mutex>

#include "kiln/driver/cuda/completion.h"
#include "kiln/driver/cuda/device.h"
#include "kiln/driver/order_checker.h"
#include "kiln/driver/storage.h"
#include "kiln/gpu/kernel_compiler.h"
#include "kiln/support/debug_settings.h"
#include "kiln/support/environment.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/log.h"
#include "kiln/support/process.h"
#include "kiln/support/thread_pool.h"

namespace kiln::gpu {

namespace cuda = driver::cuda;
using driver::Work;

namespace detail {

struct StreamSet {
  std::mutex mutex;
  std::vector<driver::DeviceQueue> queues;  // index 0 is the base stream
};

}  // namespace detail

namespace {

constexpr int kMostStreams = 64;

cuda::CudaDevice* cuda_device(const driver::Device& device) {
  return dynamic_cast<cuda::CudaDevice*>(device.backend());
}

bool is_virtual(const driver::Device& device) {
  return !device.is_host() && cuda_device(device) == nullptr;
}

driver::Device open_device(std::int64_t id, const ContextOptions& options) {
  const std::string api = options.api.value_or(driver::accelerator_api());
  if (api != "cpu" && api != "cuda" && api != "hip" && api != "metal")
    throw ValueError(
        format("DeviceContext: the api '{}' is unknown; known are cpu, cuda, hip and "
               "metal.",
               api));
  if (id < 0)
    throw ValueError(
        format("failed to create device: the device id is {}, it must not be negative.", id));
  if (api == "cpu") return driver::CPU();
  if (api != driver::accelerator_api())
    throw ValueError(
        format("failed to create device: there is no device of the api '{}' here; the "
               "api of this host is '{}'.",
               api, driver::accelerator_api()));
  if (id > INT32_MAX)
    throw ValueError(format("failed to create device: there is no device {}.", id));
  return driver::Accelerator(static_cast<int>(id));
}

std::shared_ptr<const detail::ContextState> make_state(const driver::Device& device,
                                                       std::optional<driver::DeviceQueue> queue) {
  auto streams = std::make_shared<detail::StreamSet>();
  if (queue) streams->queues.push_back(*queue);
  return std::make_shared<const detail::ContextState>(
      detail::ContextState{device, std::move(queue), std::move(streams)});
}

/// Checks a device once, when it is opened first.
void check_health_once(const DeviceContext& context) {
  static std::mutex mutex;
  static auto* checked = new std::vector<driver::Device>;
  const std::lock_guard lock(mutex);
  if (std::find(checked->begin(), checked->end(), context.device()) != checked->end()) return;
  try {
    context.run_healthcheck();
  } catch (Error& error) {
    error.set_message("failed to create device: " + error.message());
    throw;
  }
  checked->push_back(context.device());
}

}  // namespace

DeviceContext::DeviceContext(std::int64_t device_id, const ContextOptions& options)
    : state_([&] {
        const driver::Device device = open_device(device_id, options);
        return make_state(
            device, is_virtual(device) ? std::nullopt : std::optional(driver::DeviceQueue(device)));
      }()) {
  if (state_->queue && !state_->device.is_host()) check_health_once(*this);
}

DeviceContext::DeviceContext(const driver::Device& device)
    : state_(make_state(
          device, is_virtual(device) ? std::nullopt : std::optional(device.default_queue()))) {}

DeviceContext::DeviceContext(const driver::DeviceQueue& queue)
    : state_(make_state(queue.device(), queue)) {}

void DeviceContext::throw_virtual() const {
  (void)state_->device.default_queue();  // throws the text of virtual devices
  throw RuntimeError(format("{} has no stream.", state_->device.to_string()));
}

std::string DeviceContext::name() const {
  const std::string name = state_->device.model_name();
  return state_->device.is_host() ? format("{} (cpu)", name) : name;
}

std::int64_t DeviceContext::id() const {
  return state_->device.is_host() ? 0 : state_->device.id();
}

int DeviceContext::get_api_version() const {
  if (cuda_device(state_->device) == nullptr) return 0;
  int version = 0;
  cuda::check(cuda::library().driver_version(&version), "cuDriverGetVersion");
  return version;
}

int DeviceContext::get_attribute(DeviceAttribute attribute) const {
  return device_attribute(state_->device, attribute);
}

bool DeviceContext::is_compatible() const {
  if (state_->device.is_host()) return true;
  try {
    return cuda_device(state_->device) != nullptr &&
           get_attribute(DeviceAttribute::COMPUTE_CAPABILITY_MAJOR) >= 7;
  } catch (const Error&) {
    return false;
  }
}

void DeviceContext::run_healthcheck() const {
  if (environment_flag("KILN_DEVICE_CONTEXT_DISABLE_HEALTHCHECK", false)) return;
  cuda::CudaDevice* device = cuda_device(state_->device);
  if (device == nullptr) return;
  // A pattern and its complement through fresh memory: bits that are stuck show in one of them.
  constexpr std::size_t kWords = 4096;
  const auto memory =
      detail::create_buffer(*this, DType::uint64, static_cast<std::int64_t>(kWords), false);
  std::vector<std::uint64_t> written(kWords), read(kWords);
  for (const std::uint64_t pattern : {0xAAAAAAAAAAAAAAAAULL, 0x5555555555555555ULL}) {
    for (std::size_t i = 0; i < kWords; ++i) written[i] = pattern ^ i;
    device->copy_from_host(memory.data(), written.data(), kWords * sizeof(std::uint64_t));
    device->copy_to_host(read.data(), memory.data(), kWords * sizeof(std::uint64_t));
    if (read != written)
      throw RuntimeError(
          format("{} is unhealthy: the check for stuck memory read back other values "
                 "than it had written.",
                 state_->device.to_string()));
  }
}

MemoryInfo DeviceContext::get_memory_info() const {
  const auto stats = state_->device.stats();
  return {static_cast<std::size_t>(stats.at("free_memory")),
          static_cast<std::size_t>(stats.at("total_memory"))};
}

std::size_t DeviceContext::max_single_alloc_size() const { return get_memory_info().total; }

bool DeviceContext::supports_multicast() const {
  cuda::CudaDevice* device = cuda_device(state_->device);
  return device != nullptr && device->supports_multicast();
}

int DeviceContext::number_of_devices(const ContextOptions& options) {
  try {
    const std::string api = options.api.value_or(driver::accelerator_api());
    if (api == "cpu") return 1;
    return api == driver::accelerator_api() ? driver::accelerator_count() : 0;
  } catch (...) {
    return 0;
  }
}

std::shared_ptr<const detail::Function> DeviceContext::compile_source(
    const std::string& name, const std::string& source, const CompileOptions& options) const {
  return detail::compile_kernel(state_->device, {.name = name, .source = source}, options);
}

std::shared_ptr<const detail::Function> DeviceContext::load(const LoadOptions& options) const {
  return detail::load_kernel(state_->device, options);
}

void DeviceContext::check_signature(const detail::Function& function,
                                    const std::string& requested) {
  detail::check_signature(function, requested);
}

void DeviceContext::enqueue_cpu_function(std::function<void()> function) const {
  if (!state_->device.is_host())
    throw RuntimeError("enqueue_cpu_function is only supported on CPU DeviceContexts");
  queue().enqueue_cpu_function(std::move(function));
}

void DeviceContext::enqueue_cpu_range(std::function<void(std::int64_t)> function,
                                      std::int64_t count) const {
  if (!state_->device.is_host())
    throw RuntimeError("enqueue_cpu_range is only supported on CPU DeviceContexts");
  if (count < 0)
    throw ValueError(format("enqueue_cpu_range: the count is {}, it must not be negative.", count));
  if (!function) throw ValueError("enqueue_cpu_range: the function is empty.");
  if (count == 0) return;
  queue().enqueue_cpu_function([function = std::move(function), count] {
    const auto body = [](void* f, std::int64_t begin, std::int64_t end, std::int64_t) {
      const auto& call = *static_cast<const std::function<void(std::int64_t)>*>(f);
      for (std::int64_t i = begin; i < end; ++i) call(i);
    };
    // Bodies may be long: single iterations are the pieces, some to a piece where there are many.
    const int threads = ThreadPool::usable_threads();
    ThreadPool::instance().parallel_for(
        count, std::max<std::int64_t>(1, count / (16 * std::int64_t{threads})), threads, body,
        const_cast<std::function<void(std::int64_t)>*>(&function));
  });
}

std::int64_t DeviceContext::time(int num_iters, const std::function<void(int)>& call) const {
  if (num_iters < 0)
    throw ValueError(
        format("execution_time: num_iters is {}, it must not be negative.", num_iters));
  if (num_iters == 0) return 0;
  if (state_->device.is_host()) {
    queue().synchronize();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < num_iters; ++i) call(i);
    queue().synchronize();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() -
                                                                start)
        .count();
  }
  const DeviceEvent start(state_->device, true), end(state_->device, true);
  queue().record_event(start);
  for (int i = 0; i < num_iters; ++i) call(i);
  queue().record_event(end);
  synchronize();
  return static_cast<std::int64_t>(start.elapsed_time(end) * 1e6);
}

void DeviceContext::copy_addresses(void* dst, const void* src, std::int64_t size,
                                   std::size_t width) const {
  if (size < 0)
    throw ValueError(format("enqueue_copy: the size is {}, it must not be negative.", size));
  detail::enqueue_copy(*this, {.address = dst, .on_device = true},
                       {.address = const_cast<void*>(src), .on_device = true},
                       static_cast<std::size_t>(size) * width, true);
}

DeviceContextScope::~DeviceContextScope() {
  if (!pushed_) return;
  cuda::Context ignored = nullptr;
  cuda::library().context_pop(&ignored);
}

DeviceContextScope DeviceContext::push_context() const {
  cuda::CudaDevice* device = cuda_device(state_->device);
  if (device == nullptr) return DeviceContextScope(false);
  cuda::check(cuda::library().context_push(device->context()), "cuCtxPushCurrent");
  return DeviceContextScope(true);
}

void DeviceContext::set_as_current() const {
  if (cuda::CudaDevice* device = cuda_device(state_->device))
    cuda::check(cuda::library().context_set(device->context()), "cuCtxSetCurrent");
}

DeviceStream DeviceContext::create_stream(const StreamOptions& options) const {
  if (cuda::CudaDevice* device = cuda_device(state_->device))
    return DeviceStream(driver::DeviceQueue(device->make_queue(options.priority)));
  return DeviceStream(driver::DeviceQueue(state_->device));
}

StreamPriorityRange DeviceContext::stream_priority_range() const {
  cuda::CudaDevice* device = cuda_device(state_->device);
  if (device == nullptr) return {0, 0};
  const auto [least, greatest] = device->priority_range();
  return {least, greatest};
}

DeviceStream DeviceContext::create_external_stream(void* stream) const {
  cuda::CudaDevice* device = cuda_device(state_->device);
  if (device == nullptr)
    throw NotImplementedError(format("create_external_stream: {} has no streams of a vendor.",
                                     detail::device_name(state_->device)));
  return DeviceStream(driver::DeviceQueue(device->wrap_stream(static_cast<cuda::Stream>(stream))));
}

DeviceEvent DeviceContext::create_event(const EventOptions& options) const {
  if (options.interprocess)
    throw NotImplementedError("create_event: events of several processes are not available.");
  return DeviceEvent(state_->device, !options.disable_timing);
}

void DeviceStream::synchronize(std::source_location location) const {
  try {
    queue_.synchronize();
  } catch (RuntimeError& error) {
    // What host functions threw stays as it is.
    if (queue_.device().is_host()) throw;
    if (!kiln::detail::device_sync_mode.load(std::memory_order_relaxed))
      error.set_message(
          error.message() +
          "\nTo get more accurate error information, set KILN_DEBUG=device-sync-mode");
    detail::add_place(error, location);
    throw;
  }
}

void DeviceContext::synchronize(std::source_location location) const {
  stream().synchronize(location);
}

void DeviceContext::enqueue_wait_for(const DeviceContext& other) const {
  queue().wait_for(other.queue());
}

int DeviceContext::num_streams() const {
  const std::lock_guard lock(state_->streams->mutex);
  return std::max<int>(1, static_cast<int>(state_->streams->queues.size()));
}

DeviceContext DeviceContext::select_stream(std::int64_t stream_id) const {
  if (stream_id < 0 || stream_id >= kMostStreams)
    throw ValueError(format("select_stream: the stream id is {}, it must lie in [0, {}).",
                            stream_id, kMostStreams));
  (void)queue();
  detail::StreamSet& set = *state_->streams;
  const std::lock_guard lock(set.mutex);
  const auto index = static_cast<std::size_t>(stream_id);
  while (set.queues.size() <= index) set.queues.emplace_back(state_->device);
  return DeviceContext(std::make_shared<const detail::ContextState>(
      detail::ContextState{state_->device, set.queues[index], state_->streams}));
}

bool DeviceContext::can_access(const DeviceContext& peer) const {
  if (state_->device.is_host() || peer.device().is_host() || peer.device() == state_->device)
    return false;
  return state_->device.can_access(peer.device());
}

void DeviceContext::enable_peer_access(const DeviceContext& peer) const {
  cuda::CudaDevice* device = cuda_device(state_->device);
  cuda::CudaDevice* other = cuda_device(peer.device());
  if (device == nullptr || other == nullptr || !can_access(peer))
    throw RuntimeError(format("peer access from {} to {} is not supported",
                              detail::device_name(state_->device),
                              detail::device_name(peer.device())));
  constexpr cuda::Result kAlreadyEnabled = 704;
  const cuda::ContextScope scope(device->context());
  const cuda::Result result = cuda::library().context_enable_peer_access(other->context(), 0);
  if (result != kAlreadyEnabled) cuda::check(result, "cuCtxEnablePeerAccess", device->id());
}

void DeviceContext::enable_all_peer_access() { driver::enable_all_peer_access(); }

bool DeviceContext::all_peer_access_enabled() {
  const int count = driver::accelerator_count();
  if (count < 2) return false;
  std::vector<driver::Device> devices;
  for (int i = 0; i < count; ++i) devices.push_back(driver::Accelerator(i));
  // Opening a device enables every peer that its hardware reaches.
  for (const driver::Device& a : devices)
    for (const driver::Device& b : devices)
      if (a != b && !a.can_access(b)) return false;
  return true;
}

namespace {

/// The untyped launch of contexts and streams.
std::optional<std::string> enqueue_on(const driver::DeviceQueue& queue, FunctionHandle function,
                                      Dim grid, Dim block, std::int64_t shared_bytes,
                                      const LaunchAttribute* attributes, int num_attributes,
                                      void* const* args, std::uint32_t arg_count,
                                      const std::uint64_t* arg_sizes) noexcept {
  try {
    if (function == nullptr) return "enqueue: null function";
    if (arg_count > 0 && args == nullptr) return "enqueue: null arguments";
    if (num_attributes > 0 && attributes == nullptr) return "enqueue: null attributes";
    LaunchConfig config{.grid_dim = grid, .block_dim = block, .shared_mem_bytes = shared_bytes};
    for (int i = 0; i < num_attributes; ++i) config.attributes.push_back(attributes[i]);
    std::vector<std::uint32_t> sizes(arg_count);
    const auto& parameters = function->parameters;
    if (parameters.size() != arg_count)
      return format("{}: wrong number of arguments to enqueue: expected {}, got {}", function->name,
                    parameters.size(), arg_count);
    for (std::uint32_t i = 0; i < arg_count; ++i) {
      const std::uint32_t declared = parameters[i].size;
      sizes[i] = arg_sizes != nullptr ? static_cast<std::uint32_t>(arg_sizes[i]) : declared;
      if (sizes[i] != declared)
        return format("{}: argument #{} has {} bytes but the parameter takes {}", function->name, i,
                      sizes[i], declared);
    }
    detail::launch(queue, {.function = *function,
                           .config = config,
                           .call = "enqueue",
                           .arguments = args,
                           .sizes = sizes.data(),
                           .count = arg_count,
                           .uses = {}});
    return std::nullopt;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "enqueue: the launch failed";
  }
}

}  // namespace

std::optional<std::string> DeviceContext::enqueue(FunctionHandle function, Dim grid, Dim block,
                                                  std::int64_t shared_bytes,
                                                  const LaunchAttribute* attributes,
                                                  int num_attributes, void* const* args,
                                                  std::uint32_t arg_count,
                                                  const std::uint64_t* arg_sizes) const noexcept {
  if (!state_->queue) return "enqueue: the device is virtual";
  return enqueue_on(*state_->queue, function, grid, block, shared_bytes, attributes, num_attributes,
                    args, arg_count, arg_sizes);
}

std::optional<std::string> DeviceStream::enqueue(FunctionHandle function, Dim grid, Dim block,
                                                 std::int64_t shared_bytes,
                                                 const LaunchAttribute* attributes,
                                                 int num_attributes, void* const* args,
                                                 std::uint32_t arg_count,
                                                 const std::uint64_t* arg_sizes) const noexcept {
  return enqueue_on(queue_, function, grid, block, shared_bytes, attributes, num_attributes, args,
                    arg_count, arg_sizes);
}

void DeviceStream::enqueue_host_func(void (*function)(void*), void* data) const {
  if (queue_.device().api() != "cuda")
    throw RuntimeError("enqueue_host_func is only supported on CUDA streams");
  if (function == nullptr) throw ValueError("enqueue_host_func: the function is null.");
  struct Call {
    void (*function)(void*);
    void* data;
  } call{function, data};
  Work work;
  work.kind = Work::Kind::native;
  work.name = "host function";
  work.submit_argument = &call;
  work.submit = [](void* argument, std::uintptr_t stream) {
    const auto& self = *static_cast<const Call*>(argument);
    cuda::check(cuda::library().stream_host_function(reinterpret_cast<cuda::Stream>(stream),
                                                     self.function, self.data),
                "cuLaunchHostFunc");
  };
  queue_.backend()->enqueue(std::move(work));
}

void DeviceStream::wait_for_host_value(const driver::CompletionFlag& flag,
                                       std::uint64_t value) const {
  if (queue_.device().api() != "cuda")
    throw RuntimeError("wait_for_host_value is only supported on CUDA streams");
  queue_.wait_for_host_value(flag, value);
}

}  // namespace kiln::gpu
