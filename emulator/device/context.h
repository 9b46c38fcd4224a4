#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "emulator/api/driver_types.h"
#include "emulator/device/handles.h"
#include "emulator/engine/stream.h"

namespace kiln::emulator {

/// What a program made on a device. Errors of kernels stay until it is destroyed or reset.
struct Context : Object {
  static constexpr ObjectKind kKind = ObjectKind::context;
  Context() : Object(kKind) {}

  std::uint32_t device = 0;
  bool primary = false;
  std::atomic<unsigned> flags = 0;
  unsigned version = 0;                       // of the interface that made it
  std::atomic<int> error = CUDA_SUCCESS;      // sticky: the first failure of a kernel
  std::atomic<std::uint32_t> unfinished = 0;  // operations that are not done

  std::shared_ptr<Stream> legacy;
  // Under the engine's lock: streams that the legacy one waits for, and all of them.
  std::vector<std::shared_ptr<Stream>> streams;

  std::mutex mutex;  // of what follows
  std::map<std::thread::id, std::shared_ptr<Stream>> per_thread;
  std::set<std::uint64_t> modules, events;  // handles that end with the context
  std::array<std::size_t, 7> limits{1024, 1 << 20, 8 << 20, 2, 2048, 64, 0};  // by CUlimit
  std::uint32_t peers = 0;  // devices whose memory this context may use

  /// Keeps the first error; later ones change nothing.
  void fail(int code) {
    int none = CUDA_SUCCESS;
    error.compare_exchange_strong(none, code);
  }
};

}  // namespace kiln::emulator
