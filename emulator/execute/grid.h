#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emulator/memory/device_view.h"
#include "emulator/program/program.h"

namespace kiln::emulator {

/// Why a kernel ended early. The numbers are those of the driver's results.
enum class FaultCode : std::uint32_t {
  illegal_address = 700,
  launch_timeout = 702,
  assertion = 710,
  hardware_stack = 714,
  illegal_instruction = 715,
  misaligned_address = 716,
  invalid_address_space = 717,
  invalid_program_counter = 718,
  launch_failed = 719,
};

struct Fault {
  FaultCode code = FaultCode::launch_failed;
  std::string sentence;  // names kernel, source line if known, block and thread, address
  std::uint64_t address = 0;
};

/// What one launch is made of. Everything it points to outlives the grid.
struct Launch {
  std::shared_ptr<const Program> program;
  std::uint32_t kernel = 0;  // index into Program::kernels()
  Dim3 grid, block, cluster;
  std::uint32_t dynamic_shared_bytes = 0;
  bool cooperative = false;
  std::vector<std::byte> parameters;     // laid out as Kernel::parameters say
  std::vector<std::uint64_t> variables;  // device address of each of Program::variables()
  const DeviceView* view = nullptr;
  std::uint32_t device = 0;
  std::uint32_t multiprocessors = 1;            // for %nsmid
  std::function<void(std::string_view)> print;  // text of printf, whole calls; any thread
};

/// A block that runs. One thread works on it at a time; different ones may do so in turn.
class Block {
 public:
  enum class State : std::uint8_t {
    finished,
    yielded,  // it waits for memory to change (a spin on a flag, a grid barrier): resume later
    faulted,  // Grid::fault() says why
  };
  virtual ~Block() = default;
  /// Runs until the block ends, waits, or faults.
  virtual State resume() = 0;
  /// Who waits where, for reports of deadlocks; empty when the block can run.
  virtual std::string waiting() const = 0;
};

/// A launch that runs. Thread-safe.
class Grid {
 public:
  virtual ~Grid() = default;
  static std::unique_ptr<Grid> start(Launch launch);

  virtual std::uint64_t num_blocks() const = 0;
  /// How many blocks may be resident at once; a cooperative launch needs all of them.
  virtual std::uint64_t max_resident() const = 0;
  /// Block number `index` in the order of x, then y, then z.
  virtual std::unique_ptr<Block> begin(std::uint64_t index) = 0;
  /// Runs blocks [begin, end) one after another when the kernel never waits (tier 0), as fast as
  /// the machine can; false when this kernel needs `begin`. Stops early at a fault.
  virtual bool run_range(std::uint64_t begin, std::uint64_t end) = 0;
  /// The first fault of any block.
  virtual std::optional<Fault> fault() const = 0;
  /// Tells running blocks to end as soon as they wait.
  virtual void cancel() = 0;
};

}  // namespace kiln::emulator
