#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::driver {

enum class OperationKind { KERNEL_LAUNCH = 0, MEMCPY = 1, MEMSET = 2 };
enum class MemcpyKind { NONE = 0, HTOD = 1, DTOH = 2, DTOD = 3 };

/// What a CUDA or HIP queue was given; fields of other kinds of operation are zero.
struct LaunchTraceEntry {
  OperationKind kind = OperationKind::KERNEL_LAUNCH;
  /// The kernel, or the driver call for copies and fills.
  std::string name;
  /// Number of the queue in order of first appearance.
  int stream_index = 0;
  /// Not zero; depends on the parameters without addresses, so that runs can be compared.
  std::uint64_t semantic_hash = 0;
  std::uint32_t grid_x = 0, grid_y = 0, grid_z = 0;
  std::uint32_t block_x = 0, block_y = 0, block_z = 0;
  std::uint32_t shared_mem_bytes = 0;
  MemcpyKind memcpy_kind = MemcpyKind::NONE;
  std::uint64_t memcpy_byte_size = 0;
  std::uint64_t memset_byte_size = 0;
  std::uint32_t memset_value = 0;
  std::uint32_t memset_value_size = 0;
};

/// Starts the process's one recording over all queues and forgets an earlier one. Only CUDA and HIP
/// devices record.
void begin_launch_trace();
/// Stops and returns the entries once, in the order of enqueueing; empty without a recording.
std::vector<LaunchTraceEntry> take_launch_trace();
/// For backends: whether a recording runs.
bool launch_trace_runs();
/// For backends: appends an entry while a recording runs, with the number of `queue` and the hash
/// filled in.
void record_launch(LaunchTraceEntry entry, const void* queue);

/// Records while it lives.
class LaunchTrace {
 public:
  LaunchTrace() { begin_launch_trace(); }
  LaunchTrace(const LaunchTrace&) = delete;
  LaunchTrace& operator=(const LaunchTrace&) = delete;
  ~LaunchTrace() { (void)entries(); }
  /// Stops, and gives what was recorded.
  const std::vector<LaunchTraceEntry>& entries();

 private:
  bool stopped_ = false;
  std::vector<LaunchTraceEntry> entries_;
};

}  // namespace kiln::driver
