#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kiln/driver/buffer.h"
#include "kiln/driver/device.h"
#include "kiln/gpu/device_function.h"
#include "kiln/gpu/device_info.h"
#include "kiln/gpu/device_stream.h"
#include "kiln/gpu/host_function.h"
#include "kiln/gpu/kernel.h"
#include "kiln/gpu/options.h"

namespace kiln::gpu {

template <typename T>
class DeviceBuffer;
template <typename T>
class HostBuffer;
class DeviceContext;

/// Element types of buffers: those of kiln that take whole bytes.
template <typename T>
concept Element = requires { DType::of<T>(); } && sizeof(T) >= 1 &&
                  (DType::of<T>().size_in_bits() == 8 * sizeof(T));

/// Makes a device's vendor context the present one of this thread until it goes; scopes end in
/// reverse order, on the thread that made them.
class DeviceContextScope {
 public:
  DeviceContextScope(const DeviceContextScope&) = delete;
  DeviceContextScope& operator=(const DeviceContextScope&) = delete;
  ~DeviceContextScope();

 private:
  friend class DeviceContext;
  explicit DeviceContextScope(bool pushed) : pushed_(pushed) {}
  bool pushed_;
};

namespace detail {

/// The streams that contexts of one device share through `select_stream`.
struct StreamSet;

struct ContextState {
  driver::Device device;
  /// Empty on virtual devices.
  std::optional<driver::DeviceQueue> queue;
  std::shared_ptr<StreamSet> streams;
};

/// One side of a copy: a buffer, or `bytes` at an address.
struct CopySide {
  const driver::Buffer* buffer = nullptr;
  void* address = nullptr;
  bool on_device = false;
};
/// Enqueues a copy of `bytes`; null addresses: ValueError. `ordered`: whether the streams of the
/// buffers are put in order with this one.
void enqueue_copy(const DeviceContext& context, const CopySide& to, const CopySide& from,
                  std::size_t bytes, bool ordered);
/// Every element of `width` bytes becomes the bytes at `value`.
void enqueue_fill(const DeviceContext& context, const driver::Buffer& buffer, const void* value,
                  std::size_t width);
/// On the host: elements of `width` 1, 2, 4 or 8 bytes.
void fill_elements(void* memory, std::uint64_t value, std::size_t width, std::size_t count);
driver::Buffer create_buffer(const DeviceContext& context, DType dtype, std::int64_t size,
                             bool host);
[[noreturn]] void throw_short(const char* text);

}  // namespace detail

/// One ordered stream of work on one device: allocates, copies, fills, compiles and launches
/// kernels, waits. A small value; copies name the same context. Calls named `enqueue…` return
/// before the work has run. Safe from any thread.
class DeviceContext {
 public:
  /// A context with a stream of its own. Unknown api: ValueError; no such device: ValueError
  /// starting "failed to create device:".
  explicit DeviceContext(std::int64_t device_id = 0, const ContextOptions& options = {});
  explicit DeviceContext(const ContextOptions& options) : DeviceContext(0, options) {}
  /// Submits to the device's default queue, or to the given one.
  explicit DeviceContext(const driver::Device& device);
  explicit DeviceContext(const driver::DeviceQueue& queue);

  static const DeviceInfo& default_device_info() { return gpu::default_device_info(); }

  /// The launch without types under `enqueue_function`: no value on success, else the text of the
  /// error. `arg_sizes` may be null.
  std::optional<std::string> enqueue(FunctionHandle function, Dim grid, Dim block,
                                     std::int64_t shared_bytes, const LaunchAttribute* attributes,
                                     int num_attributes, void* const* args, std::uint32_t arg_count,
                                     const std::uint64_t* arg_sizes) const noexcept;

  // Identity and capability.
  /// The vendor's name; contains "cpu" on the host.
  std::string name() const;
  /// "cpu", "cuda", "hip" or "metal".
  std::string api() const { return std::string(state_->device.api()); }
  std::int64_t id() const;
  /// As the vendor numbers it: 12040 is CUDA 12.4; 0 on the CPU.
  int get_api_version() const;
  /// Unknown to the backend: ValueError.
  int get_attribute(DeviceAttribute attribute) const;
  int get_attribute(int code) const { return get_attribute(static_cast<DeviceAttribute>(code)); }
  /// Whether kiln can compile for and run on the device.
  bool is_compatible() const;
  /// Checks clock throttling, uncorrectable memory errors and stuck memory. Unhealthy: RuntimeError
  /// that says which. KILN_DEVICE_CONTEXT_DISABLE_HEALTHCHECK=true turns it off.
  void run_healthcheck() const;
  MemoryInfo get_memory_info() const;
  /// In bytes.
  std::size_t max_single_alloc_size() const;
  bool supports_multicast() const;
  /// Devices of an api; 0 when it is unknown or its driver is missing. Never throws.
  static int number_of_devices(const ContextOptions& options = {});

  // Memory.
  /// `size` elements, uninitialised, for work enqueued here afterwards. Out of memory, a negative
  /// size: ValueError.
  template <Element T>
  DeviceBuffer<T> enqueue_create_buffer(std::int64_t size) const {
    return DeviceBuffer<T>(*this, detail::create_buffer(*this, DType::of<T>(), size, false));
  }
  /// As above, and synchronizes: any stream may use it.
  template <Element T>
  DeviceBuffer<T> create_buffer_sync(std::int64_t size) const {
    DeviceBuffer<T> buffer = enqueue_create_buffer<T>(size);
    synchronize();
    return buffer;
  }
  /// Page-locked host memory, which the host may use at once.
  template <Element T>
  HostBuffer<T> enqueue_create_host_buffer(std::int64_t size) const {
    return HostBuffer<T>(*this, detail::create_buffer(*this, DType::of<T>(), size, true));
  }

  // Copies: to and from buffers of the device and the host, addresses and spans of the host;
  // between addresses of the device. The number of elements is the destination's length, or the
  // source's where the destination is plain memory. Streams of buffers that belong to others are
  // put in order with this one.
  template <typename T>
  void enqueue_copy(const DeviceBuffer<T>& dst, std::type_identity_t<const T*> src) const {
    copy_from(dst, src);
  }
  template <typename T>
  void enqueue_copy(const HostBuffer<T>& dst, std::type_identity_t<const T*> src) const {
    copy_from(dst, src);
  }
  template <typename T>
  void enqueue_copy(std::type_identity_t<T*> dst, const DeviceBuffer<T>& src) const {
    copy_to(dst, src);
  }
  template <typename T>
  void enqueue_copy(std::type_identity_t<T*> dst, const HostBuffer<T>& src) const {
    copy_to(dst, src);
  }
  /// Between addresses of the device; `size` elements.
  template <typename T>
  void enqueue_copy(T* dst, std::type_identity_t<const T*> src, std::int64_t size) const {
    copy_addresses(dst, src, size, sizeof(T));
  }
  template <typename T>
  void enqueue_copy(const DeviceBuffer<T>& dst,
                    std::type_identity_t<std::span<const T>> src) const {
    copy_from_span(dst, src);
  }
  template <typename T>
  void enqueue_copy(const HostBuffer<T>& dst, std::type_identity_t<std::span<const T>> src) const {
    copy_from_span(dst, src);
  }
  template <typename T>
  void enqueue_copy(std::type_identity_t<std::span<T>> dst, const DeviceBuffer<T>& src) const {
    copy_to_span(dst, src);
  }
  template <typename T>
  void enqueue_copy(std::type_identity_t<std::span<T>> dst, const HostBuffer<T>& src) const {
    copy_to_span(dst, src);
  }
  template <typename T>
  void enqueue_copy(const DeviceBuffer<T>& dst, const DeviceBuffer<T>& src) const {
    copy_buffers(dst, src, true);
  }
  template <typename T>
  void enqueue_copy(const DeviceBuffer<T>& dst, const HostBuffer<T>& src) const {
    copy_buffers(dst, src, true);
  }
  template <typename T>
  void enqueue_copy(const HostBuffer<T>& dst, const DeviceBuffer<T>& src) const {
    copy_buffers(dst, src, true);
  }
  template <typename T>
  void enqueue_copy(const HostBuffer<T>& dst, const HostBuffer<T>& src) const {
    copy_buffers(dst, src, true);
  }
  /// As between device buffers, but nothing orders their streams: the caller has.
  template <typename T>
  void enqueue_copy_no_cross_stream_sync(const DeviceBuffer<T>& dst,
                                         const DeviceBuffer<T>& src) const {
    copy_buffers(dst, src, false);
  }

  // Fills: every element becomes `value`.
  template <typename T>
  void enqueue_memset(const DeviceBuffer<T>& dst, std::type_identity_t<T> value) const {
    fill(dst, value);
  }
  template <typename T>
  void enqueue_memset(const HostBuffer<T>& dst, std::type_identity_t<T> value) const {
    fill(dst, value);
  }

  // Kernels.
  /// A host function, for CPU contexts.
  template <auto fn>
  DeviceFunction<typename detail::HostFunction<fn>::Signature> compile_function(
      const CompileOptions& options = {}) const {
    return DeviceFunction<typename detail::HostFunction<fn>::Signature>(
        detail::make_function(detail::HostFunction<fn>::definition(), state_->device, options),
        state_);
  }
  /// A kernel that KILN_KERNEL declares.
  template <typename... P>
  DeviceFunction<void(P...)> compile_function(const Kernel<void(P...)>& kernel,
                                              const CompileOptions& options = {}) const {
    return DeviceFunction<void(P...)>(
        detail::make_function(kernel.definition(), state_->device, options), state_);
  }
  /// A closure with its captured values.
  template <typename Body, typename... C>
  DeviceFunction<void()> compile_function(const Closure<Body, C...>& closure,
                                          const CompileOptions& options = {}) const;
  /// A callable without parameters, for CPU contexts.
  template <detail::PlainCallable F>
  DeviceFunction<void()> compile_function(const F& callable,
                                          const CompileOptions& options = {}) const;
  /// A kernel of a source text. Its parameters must be those of `Signature`: TypeError. It does not
  /// compile, or there is no kernel `name`: RuntimeError with the diagnostics.
  template <typename Signature>
    requires std::is_function_v<Signature>
  DeviceFunction<Signature> compile_function(const std::string& name, const std::string& source,
                                             const CompileOptions& options = {}) const {
    auto function = compile_source(name, source, options);
    check_signature(*function, detail::SignatureText<Signature>::get());
    return DeviceFunction<Signature>(std::move(function), state_);
  }
  DeviceFunction<> compile_function(const std::string& name, const std::string& source,
                                    const CompileOptions& options = {}) const {
    return DeviceFunction<>(compile_source(name, source, options), state_);
  }
  /// A kernel of PTX text or a binary image. CPU: NotImplementedError; it is invalid or lacks the
  /// function: RuntimeError; its parameters have other sizes than the signature's: TypeError.
  template <typename Signature = void>
  DeviceExternalFunction<Signature> load_function(const LoadOptions& options) const {
    auto function = load(options);
    if constexpr (!std::is_void_v<Signature>)
      detail::check_sizes(*function, detail::SignatureText<Signature>::sizes,
                          detail::SignatureText<Signature>::count,
                          detail::SignatureText<Signature>::get());
    return DeviceExternalFunction<Signature>(std::move(function), state_);
  }

  /// Launches a compiled or loaded function.
  template <typename Handle, typename... A>
    requires std::is_base_of_v<detail::FunctionHandleBase, Handle>
  void enqueue_function(const Handle& function, const LaunchConfig& config,
                        const A&... arguments) const {
    detail::launch_handle(queue(), kLaunch, function, config, arguments...);
  }
  /// Compiles on first use, then launches.
  template <auto fn, typename... A>
  void enqueue_function(const LaunchConfig& config, const A&... arguments) const {
    using Host = detail::HostFunction<fn>;
    launch_memoised(Host::definition(), Host::memo(), typename Host::Run(), config, arguments...);
  }
  template <typename... P, typename... A>
  void enqueue_function(const Kernel<void(P...)>& kernel, const LaunchConfig& config,
                        const A&... arguments) const {
    detail::launch_typed<P...>(queue(), kernel.function(state_->device), kLaunch, config,
                               arguments...);
  }
  template <typename Body, typename... C>
  void enqueue_function(const Closure<Body, C...>& closure, const LaunchConfig& config,
                        const CompileOptions& options = {}) const;
  template <detail::PlainCallable F>
  void enqueue_function(const F& callable, const LaunchConfig& config,
                        const CompileOptions& options = {}) const;

  /// Runs `function()` once on a worker of the host. Another api: RuntimeError.
  void enqueue_cpu_function(std::function<void()> function) const;
  template <auto fn>
  void enqueue_cpu_function() const {
    enqueue_cpu_function(std::function<void()>(fn));
  }
  /// Runs `function(i)` for each i in [0, count), possibly in parallel. Another api: RuntimeError.
  void enqueue_cpu_range(std::function<void(std::int64_t)> function, std::int64_t count) const;

  // Timing: the nanoseconds that the work of `num_iters` calls takes on this stream; blocks.
  template <typename F>
  std::int64_t execution_time(F&& function, int num_iters) const {
    return time(num_iters, [&](int) {
      if constexpr (std::is_invocable_v<F&, const DeviceContext&>)
        function(*this);
      else
        function();
    });
  }
  template <typename F>
  std::int64_t execution_time_iter(F&& function, int num_iters) const {
    return time(num_iters, [&](int i) { function(*this, i); });
  }

  // The vendor's context of the calling thread, for foreign libraries.
  [[nodiscard]] DeviceContextScope push_context() const;
  void set_as_current() const;

  // Streams and events.
  DeviceStream stream() const { return DeviceStream(queue()); }
  DeviceStream create_stream(const StreamOptions& options = {}) const;
  StreamPriorityRange stream_priority_range() const;
  /// A stream of the vendor that stays the caller's; null is the default stream. CPU:
  /// NotImplementedError.
  DeviceStream create_external_stream(void* stream) const;
  DeviceEvent create_event(const EventOptions& options = {}) const;
  /// Blocks until the stream is empty; throws what its work failed with.
  void synchronize(std::source_location location = std::source_location::current()) const;
  /// Later work here starts after the present work of `other`; the host does not wait.
  void enqueue_wait_for(const DeviceContext& other) const;
  int num_streams() const;
  /// This context on stream `stream_id` of 0 to 63; 0 is the base stream. Others: ValueError.
  DeviceContext select_stream(std::int64_t stream_id) const;

  // Peers.
  bool can_access(const DeviceContext& peer) const;
  /// Lets this device use `peer`'s memory. Not possible: RuntimeError.
  void enable_peer_access(const DeviceContext& peer) const;
  static void enable_all_peer_access();
  static bool all_peer_access_enabled();

  driver::Device device() const { return state_->device; }
  /// The driver's queue. On a virtual device: RuntimeError.
  const driver::DeviceQueue& queue() const {
    if (!state_->queue) [[unlikely]]
      throw_virtual();
    return *state_->queue;
  }
  friend bool operator==(const DeviceContext&, const DeviceContext&) = default;

 private:
  static constexpr const char* kLaunch = "DeviceContext.enqueue_function";

  explicit DeviceContext(std::shared_ptr<const detail::ContextState> state)
      : state_(std::move(state)) {}
  [[noreturn]] void throw_virtual() const;
  std::shared_ptr<const detail::Function> compile_source(const std::string& name,
                                                         const std::string& source,
                                                         const CompileOptions& options) const;
  std::shared_ptr<const detail::Function> load(const LoadOptions& options) const;
  static void check_signature(const detail::Function& function, const std::string& requested);
  std::int64_t time(int num_iters, const std::function<void(int)>& call) const;
  void copy_addresses(void* dst, const void* src, std::int64_t size, std::size_t width) const;

  template <typename... P, typename... A>
  void launch_any_of(const detail::Function& function, const LaunchConfig& config,
                     std::type_identity<void(P...)>, const A&... arguments) const {
    detail::launch_typed<P...>(queue(), function, kLaunch, config, arguments...);
  }
  template <typename Code, typename Signature, typename... A>
  void launch_memoised(const detail::KernelDefinition& definition, detail::KernelMemo& memo,
                       detail::HostRun<Code, Signature>, const LaunchConfig& config,
                       const A&... arguments) const {
    static const CompileOptions none;
    launch_any_of(find_function(definition, memo, none, config), config,
                  std::type_identity<Signature>(), arguments...);
  }
  /// With the place of a failure.
  const detail::Function& find_function(const detail::KernelDefinition& definition,
                                        detail::KernelMemo& memo, const CompileOptions& options,
                                        const LaunchConfig& config) const {
    try {
      return (detail::is_default(options) ? memo : detail::memo_with(definition, options))
          .find(definition, state_->device, options);
    } catch (Error& error) {
      detail::add_place(error, config.location);
      throw;
    }
  }

  template <typename B>
  void copy_from(const B& dst, const typename B::Element* src) const {
    detail::enqueue_copy(*this, {.buffer = &dst.kernel_memory()},
                         {.address = const_cast<typename B::Element*>(src)},
                         dst.kernel_memory().byte_size(), true);
  }
  template <typename B>
  void copy_to(typename B::Element* dst, const B& src) const {
    detail::enqueue_copy(*this, {.address = dst}, {.buffer = &src.kernel_memory()},
                         src.kernel_memory().byte_size(), true);
  }
  template <typename B>
  void copy_from_span(const B& dst, std::span<const typename B::Element> src) const {
    if (static_cast<std::int64_t>(src.size()) < dst.size())
      detail::throw_short("source span length must be >= destination buffer length");
    copy_from(dst, src.data());
  }
  template <typename B>
  void copy_to_span(std::span<typename B::Element> dst, const B& src) const {
    if (static_cast<std::int64_t>(dst.size()) < src.size())
      detail::throw_short("destination span length must be >= source buffer length");
    copy_to(dst.data(), src);
  }
  template <typename To, typename From>
  void copy_buffers(const To& dst, const From& src, bool ordered) const {
    if (src.size() < dst.size())
      detail::throw_short("source buffer length must be >= destination buffer length");
    detail::enqueue_copy(*this, {.buffer = &dst.kernel_memory()}, {.buffer = &src.kernel_memory()},
                         dst.kernel_memory().byte_size(), ordered);
  }
  template <typename B>
  void fill(const B& dst, typename B::Element value) const {
    static_assert(
        sizeof(value) == 1 || sizeof(value) == 2 || sizeof(value) == 4 || sizeof(value) == 8,
        "bitwidth of memset dtype must be one of [8,16,32,64]");
    detail::enqueue_fill(*this, dst.kernel_memory(), &value, sizeof value);
  }

  friend class detail::FunctionHandleBase;
  std::shared_ptr<const detail::ContextState> state_;
};

inline DeviceContext detail::FunctionHandleBase::context() const { return DeviceContext(context_); }

/// What has the untyped launch: contexts and streams.
template <typename T>
concept FunctionEnqueuer =
    requires(const T& t, FunctionHandle f, Dim dim, const LaunchAttribute* attributes,
             void* const* args, const std::uint64_t* sizes) {
      {
        t.enqueue(f, dim, dim, std::int64_t{}, attributes, 0, args, std::uint32_t{}, sizes)
      } -> std::same_as<std::optional<std::string>>;
    };

namespace detail {

/// The captured values of a closure as arguments that a handle carries.
template <typename Body, typename... C>
std::shared_ptr<const BoundArguments> bind_captures(const Closure<Body, C...>& closure) {
  using Values = std::tuple<typename Captured<C>::Type...>;
  struct Held {
    std::tuple<C...> captures;
    Values values;
  };
  auto held = std::make_shared<Held>(Held{
      closure.captures(), std::apply([](const C&... c) { return Values(Captured<C>::value(c)...); },
                                     closure.captures())});
  auto bound = std::make_shared<BoundArguments>();
  std::apply(
      [&](auto&... values) {
        (bound->pointers.push_back(&values), ...);
        (bound->sizes.push_back(static_cast<std::uint32_t>(sizeof values)), ...);
      },
      held->values);
  std::apply(
      [&](const C&... captures) {
        [[maybe_unused]] const auto add = [&](const auto& capture) {
          if constexpr (MemoryHandle<std::remove_cvref_t<decltype(capture)>>)
            bound->uses.push_back({&capture.kernel_memory(), true});
        };
        (add(captures), ...);
      },
      held->captures);
  bound->holder = held;
  return bound;
}

template <typename F>
std::shared_ptr<const BoundArguments> bind_callable(const F& callable) {
  auto held = std::make_shared<std::pair<F, const void*>>(callable, nullptr);
  held->second = &held->first;
  auto bound = std::make_shared<BoundArguments>();
  bound->pointers.push_back(&held->second);
  bound->sizes.push_back(sizeof(const void*));
  bound->holder = held;
  return bound;
}

}  // namespace detail

template <typename Body, typename... C>
DeviceFunction<void()> DeviceContext::compile_function(const Closure<Body, C...>& closure,
                                                       const CompileOptions& options) const {
  return DeviceFunction<void()>(
      detail::make_function(closure.definition(), state_->device, options), state_,
      detail::bind_captures(closure));
}

template <detail::PlainCallable F>
DeviceFunction<void()> DeviceContext::compile_function(const F& callable,
                                                       const CompileOptions& options) const {
  return DeviceFunction<void()>(
      detail::make_function(detail::CallableCode<F>::definition(), state_->device, options), state_,
      detail::bind_callable(callable));
}

template <typename Body, typename... C>
void DeviceContext::enqueue_function(const Closure<Body, C...>& closure, const LaunchConfig& config,
                                     const CompileOptions& options) const {
  launch_bound(queue(), kLaunch,
               find_function(closure.definition(), closure.memo(), options, config), config,
               detail::bind_captures(closure));
}

template <detail::PlainCallable F>
void DeviceContext::enqueue_function(const F& callable, const LaunchConfig& config,
                                     const CompileOptions& options) const {
  using Code = detail::CallableCode<F>;
  launch_bound(queue(), kLaunch, find_function(Code::definition(), Code::memo(), options, config),
               config, detail::bind_callable(callable));
}

}  // namespace kiln::gpu
