#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::emulator {

/// Extents of a grid, a block or a cluster.
struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

/// Where a parameter of a kernel lies in the bytes that a launch passes.
struct Parameter {
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
  std::uint32_t alignment = 1;
};

/// What the text of a kernel says about its launches.
struct Kernel {
  std::string name;
  std::vector<Parameter> parameters;
  std::uint32_t parameter_bytes = 0;
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t local_bytes = 0;  // of a thread
  std::uint32_t constant_bytes = 0;
  std::uint32_t registers = 0;     // an estimate from the registers that the text declares
  std::uint32_t max_threads = 0;   // of a block (.maxntid, .reqntid); 0 when the text has none
  Dim3 required_threads{0, 0, 0};  // .reqntid; 0 when the text has none
  std::uint32_t min_blocks = 0;    // of a multiprocessor (.minnctapersm)
};

/// A variable of module scope, which a context that loads the program gives memory.
struct Variable {
  enum class Space : std::uint8_t { global, constant };
  /// 64 bits at `offset` become the address of another variable plus `addend`.
  struct Relocation {
    std::uint64_t offset = 0;
    std::uint32_t variable = 0;
    std::int64_t addend = 0;
  };
  std::string name;
  Space space = Space::global;
  std::uint64_t bytes = 0;
  std::uint32_t alignment = 1;
  std::vector<std::byte> initial;  // shorter than `bytes`: zeros follow
  std::vector<Relocation> relocations;
};

/// A text that cannot be loaded. `what()` names the instruction, the line and the text of it.
struct LoadError : std::runtime_error {
  enum class Kind : std::uint8_t {
    invalid,      // no text of PTX, or one with faults
    version,      // of a newer PTX than is known
    target,       // for another architecture than the devices have
    unsupported,  // an instruction that is not implemented
  };
  LoadError(Kind kind, const std::string& text) : std::runtime_error(text), kind(kind) {}
  Kind kind;
};

struct LoadOptions {
  std::uint32_t architecture = 90;  // of the devices: sm_90
  bool check_memory = false, check_init = false;
};

/// The code of a module: immutable, shared by contexts and devices.
class Program {
 public:
  virtual ~Program() = default;

  /// Translates a text of PTX (a trailing zero byte may stand behind it). Throws LoadError.
  static std::shared_ptr<const Program> load(std::string_view text, const LoadOptions& options);

  virtual std::span<const Kernel> kernels() const = 0;
  virtual std::span<const Variable> variables() const = 0;
};

}  // namespace kiln::emulator
