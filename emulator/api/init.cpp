#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <exception>

#include "emulator/api/call.h"
#include "emulator/engine/host_threads.h"

namespace kiln::emulator {
namespace {

std::atomic<bool> forked = false;
std::atomic<std::uint64_t> calls = 0;

void on_fork() {
  if (driver() != nullptr) forked = true;
}

}  // namespace

CUresult enter_driver(Driver* driver) {
  if (driver == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (forked.load(std::memory_order_relaxed)) {
    static std::atomic_flag told = ATOMIC_FLAG_INIT;
    if (!told.test_and_set())
      std::fprintf(stderr,
                   "kiln emulator: The process was forked after cuInit; the child has no device. "
                   "Start it with exec, or call cuInit in the child alone.\n");
    return CUDA_ERROR_NOT_INITIALIZED;
  }
  if (HostThreads::inside()) return CUDA_ERROR_NOT_PERMITTED;
  if (driver->settings.fail_call != 0 &&
      calls.fetch_add(1, std::memory_order_relaxed) + 1 == driver->settings.fail_call)
    return static_cast<CUresult>(driver->settings.fail_code);
  return CUDA_SUCCESS;
}

CUresult result_of_exception() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kiln emulator: %s\n", error.what());
    return CUDA_ERROR_UNKNOWN;
  } catch (...) {
    return CUDA_ERROR_UNKNOWN;
  }
}

}  // namespace kiln::emulator

using namespace kiln::emulator;

CUresult cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (driver() == nullptr) {
    try {
      start_driver();
    } catch (...) {
      return result_of_exception();
    }
    static std::atomic_flag watched = ATOMIC_FLAG_INIT;
    if (!watched.test_and_set()) pthread_atfork(nullptr, nullptr, on_fork);
  }
  return enter_driver(driver());
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

CUresult cuProfilerStart() {
  return context_call([](Driver&, const std::shared_ptr<Context>&) { return CUDA_SUCCESS; });
}

CUresult cuProfilerStop() { return cuProfilerStart(); }
