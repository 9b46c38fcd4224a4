#include "kiln/driver/cuda/library.h"

#include <dlfcn.h>

#include "kiln/support/environment.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::driver::cuda {
namespace {

/// Stream waits on 64-bit values came for every device with CUDA 12.
constexpr int kOldestDriver = 12000;

struct Opened {
  Library functions;
  bool usable = false;
  std::string reason;
};

std::string version_text(int version) {
  return format("{}.{}", version / 1000, version % 1000 / 10);
}

Opened open() {
  Opened opened;
  const std::string path = environment("KILN_CUDA_DRIVER").value_or("libcuda.so.1");
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    opened.reason = format("the CUDA driver library cannot be opened ({})", dlerror());
    return opened;
  }
  Library& f = opened.functions;
  const char* missing = nullptr;
#define KILN_CUDA_RESOLVE(name, symbol, ...)                          \
  f.name = reinterpret_cast<decltype(f.name)>(dlsym(handle, symbol)); \
  if (!f.name && !missing) missing = symbol;
  KILN_CUDA_ENTRY_POINTS(KILN_CUDA_RESOLVE)
#undef KILN_CUDA_RESOLVE
#define KILN_CUDA_RESOLVE(name, symbol, ...) \
  f.name = reinterpret_cast<decltype(f.name)>(dlsym(handle, symbol));
  KILN_CUDA_OPTIONAL_ENTRY_POINTS(KILN_CUDA_RESOLVE)
#undef KILN_CUDA_RESOLVE
  if (missing) {
    opened.reason = format("the CUDA driver library '{}' lacks the entry point {}", path, missing);
    return opened;
  }
  int version = 0;
  if (f.driver_version(&version) != kSuccess || version < kOldestDriver) {
    opened.reason = format("the CUDA driver '{}' is for CUDA {}, but kiln needs {} or newer", path,
                           version_text(version), version_text(kOldestDriver));
    return opened;
  }
  const Result result = f.init(0);
  if (result != kSuccess) {
    const char* text = nullptr;
    f.error_name(result, &text);
    opened.reason = format("the CUDA driver '{}' cannot be initialised: {} ({})", path,
                           text ? text : "unknown result", result);
    return opened;
  }
  opened.usable = true;
  return opened;
}

const Opened& opened() {
  static const auto* instance = new Opened(open());  // leaked: devices live as long as the process
  return *instance;
}

}  // namespace

const Library* find_library() { return opened().usable ? &opened().functions : nullptr; }
const std::string& why_unavailable() { return opened().reason; }
const Library& library() { return opened().functions; }

std::string describe(Result result) {
  const char* name = nullptr;
  const char* text = nullptr;
  library().error_name(result, &name);
  library().error_string(result, &text);
  return format("{} ({}): {}", name ? name : "an unknown result", result, text ? text : "no text");
}

void check(Result result, std::string_view call, int device) {
  if (result == kSuccess) [[likely]]
    return;
  throw RuntimeError(device < 0
                         ? format("{} failed with {}.", call, describe(result))
                         : format("{} on gpu:{} failed with {}.", call, device, describe(result)));
}

}  // namespace kiln::driver::cuda
