#pragma once

// A small client of the CUDA driver API for tests: it opens the emulator, or the library that
// KILN_CUDA_DRIVER names, so that the same tests run on hardware. Nothing of CUDA is included; what
// is used is declared here.

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace kiln::emulator_test {

using Result = int;
using DeviceNumber = int;
using Address = std::uint64_t;
using Context = void*;
using ModuleHandle = void*;
using Function = void*;
using StreamHandle = void*;
using EventHandle = void*;
using GraphHandle = void*;
using GraphExecHandle = void*;
using MemoryHandle = std::uint64_t;

enum class Attribute : int {
  shared_bytes = 8,
  warp_size = 10,
  multiprocessors = 16,
  cooperative_launch = 95,
  multicast = 132,
};

/// CUmemLocation.
struct Location {
  int type = 1;  // a device
  int id = 0;
};

/// CUmemAllocationProp.
struct AllocationProperties {
  int type = 1;  // pinned
  int handle_types = 0;
  Location location;
  void* security = nullptr;
  unsigned char compression = 0, rdma = 0;
  unsigned short usage = 0;
  unsigned char reserved[4] = {};
};

/// CUmemAccessDesc.
struct AccessDescription {
  Location location;
  int flags = 3;  // read and write
};

/// CUmulticastObjectProp.
struct MulticastProperties {
  unsigned devices = 0;
  std::size_t bytes = 0;
  unsigned long long handle_types = 0;
  unsigned long long flags = 0;
};

/// The entry points that the tests call, as the version 12.4 of the interface declares them.
struct Driver {
  Result (*init)(unsigned);
  Result (*error_name)(Result, const char**);
  Result (*error_string)(Result, const char**);
  Result (*device_get)(DeviceNumber*, int);
  Result (*device_count)(int*);
  Result (*device_attribute)(int*, int, DeviceNumber);
  Result (*primary_retain)(Context*, DeviceNumber);
  Result (*primary_release)(DeviceNumber);
  Result (*primary_reset)(DeviceNumber);
  Result (*set_current)(Context);
  Result (*synchronize_context)();
  Result (*enable_peer)(Context, unsigned);
  Result (*disable_peer)(Context);
  Result (*set_limit)(int, std::size_t);
  Result (*load_module)(ModuleHandle*, const void*);
  Result (*load_module_ex)(ModuleHandle*, const void*, unsigned, int*, void**);
  Result (*unload_module)(ModuleHandle);
  Result (*module_function)(Function*, ModuleHandle, const char*);
  Result (*module_global)(Address*, std::size_t*, ModuleHandle, const char*);
  Result (*set_function_attribute)(Function, int, int);
  Result (*launch)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   StreamHandle, void**, void**);
  Result (*launch_cooperative)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, StreamHandle, void**);
  Result (*max_active_blocks)(int*, Function, int, std::size_t);
  Result (*allocate)(Address*, std::size_t);
  Result (*free)(Address);
  Result (*copy_to_device)(Address, const void*, std::size_t);
  Result (*copy_to_host)(void*, Address, std::size_t);
  Result (*copy_to_device_async)(Address, const void*, std::size_t, StreamHandle);
  Result (*copy_to_host_async)(void*, Address, std::size_t, StreamHandle);
  Result (*copy_on_device_async)(Address, Address, std::size_t, StreamHandle);
  Result (*fill8)(Address, unsigned char, std::size_t);
  Result (*allocate_host)(void**, std::size_t, unsigned);
  Result (*free_host)(void*);
  Result (*host_device_address)(Address*, void*, unsigned);
  Result (*create_stream)(StreamHandle*, unsigned);
  Result (*destroy_stream)(StreamHandle);
  Result (*synchronize_stream)(StreamHandle);
  Result (*stream_wait_event)(StreamHandle, EventHandle, unsigned);
  Result (*create_event)(EventHandle*, unsigned);
  Result (*destroy_event)(EventHandle);
  Result (*record_event)(EventHandle, StreamHandle);
  Result (*begin_capture)(StreamHandle, int);
  Result (*end_capture)(StreamHandle, GraphHandle*);
  Result (*instantiate)(GraphExecHandle*, GraphHandle, unsigned long long);
  Result (*launch_graph)(GraphExecHandle, StreamHandle);
  Result (*destroy_graph)(GraphHandle);
  Result (*destroy_graph_exec)(GraphExecHandle);
  Result (*reserve_addresses)(Address*, std::size_t, std::size_t, Address, unsigned long long);
  Result (*free_addresses)(Address, std::size_t);
  Result (*create_memory)(MemoryHandle*, std::size_t, const AllocationProperties*,
                          unsigned long long);
  Result (*release_memory)(MemoryHandle);
  Result (*map_memory)(Address, std::size_t, std::size_t, MemoryHandle, unsigned long long);
  Result (*unmap_memory)(Address, std::size_t);
  Result (*set_access)(Address, std::size_t, const AccessDescription*, std::size_t);
  Result (*allocation_granularity)(std::size_t*, const AllocationProperties*, int);
  Result (*create_multicast)(MemoryHandle*, const MulticastProperties*);
  Result (*add_multicast_device)(MemoryHandle, DeviceNumber);
  Result (*bind_multicast_memory)(MemoryHandle, std::size_t, MemoryHandle, std::size_t, std::size_t,
                                  unsigned long long);
  Result (*multicast_granularity)(std::size_t*, const MulticastProperties*, int);
};

/// The opened driver, initialised once for the process; with the emulator it has 8 devices unless
/// KILN_EMULATOR_DEVICES says else. Throws std::runtime_error when the library cannot be used.
const Driver& driver();

/// A driver call that failed.
struct DriverError : std::runtime_error {
  DriverError(Result result, const std::string& text) : std::runtime_error(text), result(result) {}
  Result result;
};

/// Throws DriverError for results that are not 0.
void check(Result result, std::string_view what);

/// Makes the primary context of device `number` current in this thread (kept for the process).
Context use_device(int number);

/// Destroys the primary context of a device with all that it holds, as after a fault.
void reset_device(int number);

/// The file tests/emulator/kernels/`name`.
std::string kernel_text(std::string_view name);

/// A module of the current context.
class Module {
 public:
  explicit Module(const std::string& text);
  ~Module();
  Module(Module&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Module& operator=(Module&&) = delete;

  Function function(const std::string& name) const;
  /// Address and bytes of a variable.
  std::pair<Address, std::size_t> global(const std::string& name) const;

 private:
  ModuleHandle handle_ = nullptr;
};

/// What the driver says of a text that cannot be loaded; result 0 and no log for one that can.
struct LoadOutcome {
  Result result = 0;
  std::string log;
};
LoadOutcome try_load(const std::string& text);

struct Extent {
  unsigned x = 1, y = 1, z = 1;
};

/// Bytes on the current device, freed with the object.
class Bytes {
 public:
  explicit Bytes(std::size_t count);
  ~Bytes();
  Bytes(Bytes&& other) noexcept
      : address_(std::exchange(other.address_, 0)), count_(other.count_) {}
  Bytes& operator=(Bytes&&) = delete;
  Address address() const { return address_; }
  std::size_t count() const { return count_; }
  void upload(const void* data, std::size_t bytes) const;
  void download(void* data, std::size_t bytes) const;

 private:
  Address address_ = 0;
  std::size_t count_ = 0;
};

/// An array on the current device. An empty one has a valid address too.
template <class T>
class Array {
 public:
  explicit Array(std::size_t count) : bytes_(count * sizeof(T)), size_(count) {
    if (count != 0) check(driver().fill8(address(), 0, count * sizeof(T)), "Filling an array");
  }
  Array(const std::vector<T>& values) : bytes_(values.size() * sizeof(T)), size_(values.size()) {
    set(values);
  }
  Address address() const { return bytes_.address(); }
  std::size_t size() const { return size_; }
  void set(const std::vector<T>& values) const {
    if (!values.empty()) bytes_.upload(values.data(), values.size() * sizeof(T));
  }
  std::vector<T> get() const {
    std::vector<T> values(size_);
    if (size_ != 0) bytes_.download(values.data(), size_ * sizeof(T));
    return values;
  }

 private:
  Bytes bytes_;
  std::size_t size_ = 0;
};

class Stream {
 public:
  Stream() { check(driver().create_stream(&handle_, 1), "Creating a stream"); }
  ~Stream() { driver().destroy_stream(handle_); }
  Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Stream& operator=(Stream&&) = delete;
  StreamHandle handle() const { return handle_; }
  void synchronize() const { check(driver().synchronize_stream(handle_), "Synchronising"); }

 private:
  StreamHandle handle_ = nullptr;
};

/// Where and how a kernel runs.
struct LaunchShape {
  Extent grid, block;
  unsigned shared_bytes = 0;
  StreamHandle stream = nullptr;
  bool cooperative = false;
};

namespace detail {
void launch(Function function, const LaunchShape& shape, void** arguments);

template <class T>
auto value_of(const T& value) {
  if constexpr (requires { value.address(); }) {
    return value.address();
  } else {
    return value;
  }
}
}  // namespace detail

/// Enqueues a launch. Arrays are passed as their addresses, all else by value with its C++ type.
template <class... Arguments>
void launch(Function function, const LaunchShape& shape, const Arguments&... arguments) {
  auto values = std::make_tuple(detail::value_of(arguments)...);
  std::apply(
      [&](auto&... each) {
        void* pointers[sizeof...(each) + 1] = {
            const_cast<void*>(static_cast<const void*>(&each))...};
        detail::launch(function, shape, pointers);
      },
      values);
}

/// Waits for everything of the current context; throws DriverError with its failure.
void synchronize();

}  // namespace kiln::emulator_test
