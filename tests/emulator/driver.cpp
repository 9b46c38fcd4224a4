#include "driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

namespace kiln::emulator_test {
namespace {

constexpr int kInterfaceVersion = 12040;

using GetProcAddress = Result (*)(const char*, void**, int, std::uint64_t, int*);

constexpr Result kNotFound = 500;

/// Sets `slot` to the entry point, or to one that says "not found": a driver that lacks something
/// can still be tested for the rest.
template <class... Parameters>
void resolve(GetProcAddress get, Result (*&slot)(Parameters...), const char* name) {
  void* address = nullptr;
  if (get(name, &address, kInterfaceVersion, 0, nullptr) == 0 && address) {
    slot = reinterpret_cast<Result (*)(Parameters...)>(address);
  } else {
    slot = [](Parameters...) { return kNotFound; };
  }
}

std::string library_path() {
  const char* chosen = std::getenv("KILN_CUDA_DRIVER");
  return chosen && *chosen ? chosen : KILN_EMULATOR_LIBRARY;
}

Driver open_driver() {
  setenv("KILN_EMULATOR_DEVICES", "8", 0);
  setenv("KILN_CACHE", "0", 0);  // results are those of this build, and texts are not kept
  const std::string path = library_path();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw std::runtime_error("The driver library cannot be opened: " + std::string(dlerror()) +
                             ".");
  auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (!get) throw std::runtime_error("'" + path + "' has no entry point cuGetProcAddress_v2.");
  Driver d;
  resolve(get, d.init, "cuInit");
  resolve(get, d.error_name, "cuGetErrorName");
  resolve(get, d.error_string, "cuGetErrorString");
  resolve(get, d.device_get, "cuDeviceGet");
  resolve(get, d.device_count, "cuDeviceGetCount");
  resolve(get, d.device_attribute, "cuDeviceGetAttribute");
  resolve(get, d.primary_retain, "cuDevicePrimaryCtxRetain");
  resolve(get, d.primary_release, "cuDevicePrimaryCtxRelease");
  resolve(get, d.primary_reset, "cuDevicePrimaryCtxReset");
  resolve(get, d.set_current, "cuCtxSetCurrent");
  resolve(get, d.synchronize_context, "cuCtxSynchronize");
  resolve(get, d.enable_peer, "cuCtxEnablePeerAccess");
  resolve(get, d.disable_peer, "cuCtxDisablePeerAccess");
  resolve(get, d.set_limit, "cuCtxSetLimit");
  resolve(get, d.load_module, "cuModuleLoadData");
  resolve(get, d.load_module_ex, "cuModuleLoadDataEx");
  resolve(get, d.unload_module, "cuModuleUnload");
  resolve(get, d.module_function, "cuModuleGetFunction");
  resolve(get, d.module_global, "cuModuleGetGlobal");
  resolve(get, d.set_function_attribute, "cuFuncSetAttribute");
  resolve(get, d.launch, "cuLaunchKernel");
  resolve(get, d.launch_cooperative, "cuLaunchCooperativeKernel");
  resolve(get, d.max_active_blocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  resolve(get, d.allocate, "cuMemAlloc");
  resolve(get, d.free, "cuMemFree");
  resolve(get, d.copy_to_device, "cuMemcpyHtoD");
  resolve(get, d.copy_to_host, "cuMemcpyDtoH");
  resolve(get, d.copy_to_device_async, "cuMemcpyHtoDAsync");
  resolve(get, d.copy_to_host_async, "cuMemcpyDtoHAsync");
  resolve(get, d.copy_on_device_async, "cuMemcpyDtoDAsync");
  resolve(get, d.fill8, "cuMemsetD8");
  resolve(get, d.allocate_host, "cuMemHostAlloc");
  resolve(get, d.free_host, "cuMemFreeHost");
  resolve(get, d.host_device_address, "cuMemHostGetDevicePointer");
  resolve(get, d.create_stream, "cuStreamCreate");
  resolve(get, d.destroy_stream, "cuStreamDestroy");
  resolve(get, d.synchronize_stream, "cuStreamSynchronize");
  resolve(get, d.stream_wait_event, "cuStreamWaitEvent");
  resolve(get, d.create_event, "cuEventCreate");
  resolve(get, d.destroy_event, "cuEventDestroy");
  resolve(get, d.record_event, "cuEventRecord");
  resolve(get, d.begin_capture, "cuStreamBeginCapture");
  resolve(get, d.end_capture, "cuStreamEndCapture");
  resolve(get, d.instantiate, "cuGraphInstantiate");
  resolve(get, d.launch_graph, "cuGraphLaunch");
  resolve(get, d.destroy_graph, "cuGraphDestroy");
  resolve(get, d.destroy_graph_exec, "cuGraphExecDestroy");
  resolve(get, d.reserve_addresses, "cuMemAddressReserve");
  resolve(get, d.free_addresses, "cuMemAddressFree");
  resolve(get, d.create_memory, "cuMemCreate");
  resolve(get, d.release_memory, "cuMemRelease");
  resolve(get, d.map_memory, "cuMemMap");
  resolve(get, d.unmap_memory, "cuMemUnmap");
  resolve(get, d.set_access, "cuMemSetAccess");
  resolve(get, d.allocation_granularity, "cuMemGetAllocationGranularity");
  resolve(get, d.create_multicast, "cuMulticastCreate");
  resolve(get, d.add_multicast_device, "cuMulticastAddDevice");
  resolve(get, d.bind_multicast_memory, "cuMulticastBindMem");
  resolve(get, d.multicast_granularity, "cuMulticastGetGranularity");
  if (Result result = d.init(0)) {
    throw std::runtime_error("cuInit of '" + path + "' answered " + std::to_string(result) + ".");
  }
  return d;
}

}  // namespace

const Driver& driver() {
  static const Driver opened = open_driver();
  return opened;
}

void check(Result result, std::string_view what) {
  if (result == 0) return;
  const char* name = "an unknown code";
  const char* text = "no description";
  driver().error_name(result, &name);
  driver().error_string(result, &text);
  throw DriverError(result, std::string(what) + " failed with " + std::to_string(result) + " (" +
                                name + "): " + text + ".");
}

namespace {

struct PrimaryContexts {
  std::mutex mutex;
  std::map<int, Context> of_device;
};

PrimaryContexts& primary_contexts() {
  static PrimaryContexts contexts;
  return contexts;
}

}  // namespace

Context use_device(int number) {
  std::lock_guard lock(primary_contexts().mutex);
  Context& context = primary_contexts().of_device[number];
  if (!context) {
    DeviceNumber device = 0;
    check(driver().device_get(&device, number), "Getting device " + std::to_string(number));
    check(driver().primary_retain(&context, device), "Retaining a primary context");
  }
  check(driver().set_current(context), "Making a context current");
  return context;
}

void reset_device(int number) {
  std::lock_guard lock(primary_contexts().mutex);
  check(driver().primary_reset(number), "Resetting a device");
  primary_contexts().of_device.erase(number);
}

std::string kernel_text(std::string_view name) {
  const std::string path = std::string(KILN_EMULATOR_KERNELS) + "/" + std::string(name);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("The file '" + path + "' cannot be read.");
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

namespace {

/// Loads with a log buffer; the handle is null after an error.
std::pair<ModuleHandle, LoadOutcome> load(const std::string& text) {
  enum : int { kErrorLog = 5, kErrorLogBytes = 6 };
  std::vector<char> log(16384);
  int options[] = {kErrorLog, kErrorLogBytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  ModuleHandle handle = nullptr;
  LoadOutcome outcome;
  outcome.result = driver().load_module_ex(&handle, text.c_str(), 2, options, values);
  log.back() = 0;
  outcome.log = log.data();
  if (outcome.result != 0) handle = nullptr;
  return {handle, outcome};
}

}  // namespace

Module::Module(const std::string& text) {
  auto [handle, outcome] = load(text);
  check(outcome.result, "Loading a module (" + outcome.log + ")");
  handle_ = handle;
}

Module::~Module() {
  if (handle_) driver().unload_module(handle_);
}

Function Module::function(const std::string& name) const {
  Function function = nullptr;
  check(driver().module_function(&function, handle_, name.c_str()),
        "Finding kernel '" + name + "'");
  return function;
}

std::pair<Address, std::size_t> Module::global(const std::string& name) const {
  Address address = 0;
  std::size_t bytes = 0;
  check(driver().module_global(&address, &bytes, handle_, name.c_str()),
        "Finding variable '" + name + "'");
  return {address, bytes};
}

LoadOutcome try_load(const std::string& text) {
  auto [handle, outcome] = load(text);
  if (handle) driver().unload_module(handle);
  return outcome;
}

Bytes::Bytes(std::size_t count) : count_(count) {
  check(driver().allocate(&address_, count == 0 ? 16 : count),
        "Allocating " + std::to_string(count) + " bytes");
}

Bytes::~Bytes() {
  if (address_) driver().free(address_);
}

void Bytes::upload(const void* data, std::size_t bytes) const {
  check(driver().copy_to_device(address_, data, bytes), "Copying to the device");
}

void Bytes::download(void* data, std::size_t bytes) const {
  check(driver().copy_to_host(data, address_, bytes), "Copying to the host");
}

namespace detail {

void launch(Function function, const LaunchShape& shape, void** arguments) {
  const auto& [grid, block, shared, stream, cooperative] = shape;
  if (cooperative) {
    check(driver().launch_cooperative(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                      shared, stream, arguments),
          "A cooperative launch");
  } else {
    check(driver().launch(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared,
                          stream, arguments, nullptr),
          "A launch");
  }
}

}  // namespace detail

void synchronize() { check(driver().synchronize_context(), "Running kernels"); }

}  // namespace kiln::emulator_test
