#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/api/driver_types.h"
#include "emulator/device/handles.h"
#include "emulator/program/program.h"

namespace kiln::emulator {

struct Context;

/// A program in a context: its variables have memory of the context's device.
struct Module : Object {
  static constexpr ObjectKind kKind = ObjectKind::module;
  Module() : Object(kKind) {}
  /// Gives the memory of the variables back.
  ~Module() override;

  std::shared_ptr<const Program> program;
  std::uint64_t context = 0;  // handle
  std::uint32_t device = 0;
  std::vector<std::uint64_t> variables;  // address of each of program->variables()
  std::mutex mutex;
  std::map<std::uint32_t, CUfunction> functions;  // made so far, by kernel
};

/// How the blocks of a kernel are run: many in one call when it never waits. The first launch
/// finds out.
enum class BlockMode : std::uint8_t { unknown, ranges, blocks };

/// A kernel of a module, with what was set for its launches.
struct Function : Object {
  static constexpr ObjectKind kKind = ObjectKind::function;
  Function() : Object(kKind) {}
  const Kernel& kernel() const { return *about; }

  std::shared_ptr<Module> module;
  std::uint32_t index = 0;
  const Kernel* about = nullptr;
  std::atomic<int> max_dynamic_shared = 48 << 10;
  std::atomic<int> carveout = -1;
  std::atomic<int> non_portable_clusters = 0;
  std::atomic<int> cluster_policy = 0;
  /// What a block took in the last launches, in ns; negative: not known yet.
  std::atomic<std::int64_t> block_ns = -1;
  std::atomic<BlockMode> mode = BlockMode::unknown;
};

/// A program of no context; each context that uses it gets a module.
struct Library : Object {
  static constexpr ObjectKind kKind = ObjectKind::library;
  Library() : Object(kKind) {}

  std::shared_ptr<const Program> program;
  std::mutex mutex;
  std::map<std::uint64_t, CUmodule> modules;  // by handle of the context
  std::map<std::uint32_t, CUkernel> kernels;  // made so far, by index
};

/// A kernel of a library.
struct LibraryKernel : Object {
  static constexpr ObjectKind kKind = ObjectKind::kernel;
  LibraryKernel() : Object(kKind) {}

  std::weak_ptr<Library> library;
  std::uint32_t index = 0;
  const Kernel* about = nullptr;
  std::shared_ptr<const Program> program;
  /// Set for every device by cuKernelSetAttribute, and copied to functions made later.
  struct Setting {
    int attribute, value, device;
  };
  std::mutex mutex;
  std::vector<Setting> settings;
};

}  // namespace kiln::emulator
