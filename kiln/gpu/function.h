#pragma once

// Compiled kernels and their launch without types: what the templates of the public headers stand
// on.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kiln/driver/buffer.h"
#include "kiln/driver/queue.h"
#include "kiln/gpu/options.h"
#include "kiln/runtime/compiler_interface.h"
#include "kiln/runtime/kernel_abi.h"
#include "kiln/support/error.h"

namespace kiln::gpu {
namespace detail {

/// A kernel that can be launched on one device.
struct Function {
  std::string name;
  driver::Device device;
  /// Of the source or image; of typed handles they were compared when it was made.
  std::vector<runtime::KernelParameter> parameters;
  /// Whether `parameters` say types, or sizes alone.
  bool types_known = false;

  // On the host.
  runtime::KernelRun run = nullptr;
  bool may_wait = true;
  /// Made by the compiler of the program, so that there is nothing to dump.
  bool built_in = false;

  // On a CUDA device: CUfunction, and what it was made from.
  void* native = nullptr;
  int static_shared_bytes = 0;
  int max_threads = 1024;
  /// Bytes of dynamic shared memory that the driver allows at present, and at most.
  mutable std::atomic<int> shared_limit{48 * 1024};
  int largest_shared_limit = 48 * 1024;
  bool user_shared_limit = false;

  /// What `run` or `native` lies in.
  std::shared_ptr<const void> code;

  // For dumps: PTX or assembly, IR; empty when they were not kept.
  std::string assembly, llvm_ir;
  /// For dumps that need another compile.
  std::shared_ptr<const runtime::KernelSource> source;

  explicit Function(driver::Device on) : device(on) {}
};

}  // namespace detail

/// What `DeviceContext::enqueue` takes; `handle()` of a device function. Valid while that lives.
using FunctionHandle = const detail::Function*;

namespace detail {

/// A buffer that a launch was given.
struct BufferUse {
  const driver::Buffer* buffer = nullptr;
  bool write = true;
};

/// A launch whose arguments have been checked against the parameters.
struct Launch {
  const Function& function;
  const LaunchConfig& config;
  /// Of the public call, such as "DeviceContext.enqueue_function".
  const char* call;
  /// `arguments[i]` points to the value of argument i, of `sizes[i]` bytes.
  void* const* arguments;
  const std::uint32_t* sizes;
  std::size_t count;
  std::span<const BufferUse> uses;
  /// Kept until the launch has run, beside the function.
  std::shared_ptr<const void> keep = nullptr;
};

class GraphBuild;
struct NodeDependencies;

/// Where a launch goes: onto a stream, or into a graph that is being built.
struct LaunchTarget {
  const driver::DeviceQueue* queue = nullptr;
  GraphBuild* graph = nullptr;
  const NodeDependencies* dependencies = nullptr;

  LaunchTarget(const driver::DeviceQueue& on) : queue(&on) {}  // NOLINT
  LaunchTarget(GraphBuild& in, const NodeDependencies& after) : graph(&in), dependencies(&after) {}
};

/// Checks shapes and attributes, then enqueues or adds a node; returns at once.
void launch(const LaunchTarget& target, const Launch& launch);
/// Of `launch`, for graphs.
void add_launch(const LaunchTarget& target, const Launch& launch, std::int64_t shared_bytes);
/// What the host runs for a launch; holds copies of the arguments.
std::function<void()> host_task(const Launch& launch, std::int64_t shared_bytes);
/// The checks of `launch` alone.
void check_launch(const Launch& launch);
/// Raises the function's limit of dynamic shared memory where the launch needs it.
std::int64_t prepare_shared_memory(const Launch& launch);

/// Starts the text with "file.cpp:12: ", as launches and `synchronize` do.
void add_place(Error& error, const std::source_location& location);

/// Checks that `buffer` can be argument `index` of a kernel on the function's device: ValueError.
void check_buffer(const Function& function, std::size_t index, const driver::Buffer& buffer);

/// Attributes of section 8 of the specification.
int attribute_of(const Function& function, Attribute attribute);
/// Sets what CompileOptions and LoadOptions ask for. Not settable: ValueError.
void set_attribute(Function& function, const FuncAttribute& attribute);
int occupancy_of(const Function& function, int block_size, std::int64_t dynamic_shared_bytes);
/// Writes what `targets` ask for.
void dump(const Function& function, const DumpOptions& targets);

}  // namespace detail
}  // namespace kiln::gpu
