#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "kiln/gpu/attributes.h"
#include "kiln/gpu/dim.h"

namespace kiln::gpu {

/// Which api a context is for; unset: that of accelerator 0, or "cpu" on hosts without one.
struct ContextOptions {
  std::optional<std::string> api = std::nullopt;
};

/// How a kernel is launched. Texts of errors start with the place where the braces are written.
struct LaunchConfig {
  Dim grid_dim;
  Dim block_dim;
  std::optional<Dim> cluster_dim = std::nullopt;
  /// Dynamic shared memory of each block.
  std::optional<std::int64_t> shared_mem_bytes = std::nullopt;
  std::vector<LaunchAttribute> attributes = {};
  std::vector<ConstantMemoryMapping> constant_memory = {};
  std::source_location location = std::source_location::current();
};

/// Where a dump goes: nowhere (false, empty), standard output (true), a file, or a file that a
/// function names, which is called once. `%` in a path is replaced by the module's name.
class DumpTarget {
 public:
  DumpTarget(bool on = false) : value_(on) {}                            // NOLINT
  DumpTarget(const char* path) : value_(std::filesystem::path(path)) {}  // NOLINT
  DumpTarget(std::string path) : value_(std::filesystem::path(path)) {}  // NOLINT
  DumpTarget(std::filesystem::path path) : value_(std::move(path)) {}    // NOLINT
  template <typename F>
    requires std::is_invocable_r_v<std::filesystem::path, F>
  DumpTarget(F function)  // NOLINT
      : value_(std::function<std::filesystem::path()>(std::move(function))) {}

  /// Whether something is to be written.
  explicit operator bool() const;
  /// Writes `text`, once. A file that cannot be written: RuntimeError.
  void write(const std::string& text, const std::string& module_name) const;
  /// Tells targets apart, for caches.
  std::string key() const;

 private:
  std::variant<bool, std::filesystem::path, std::function<std::filesystem::path()>> value_;
};

/// How a kernel is compiled.
struct CompileOptions {
  /// Appended to the compiler's arguments, such as "-DN=4 -O2".
  std::string compile_options = {};
  std::string link_options = {};
  /// PTX; assembly of the host for kernel sources on a CPU context.
  DumpTarget dump_asm = false;
  /// Optimised LLVM IR.
  DumpTarget dump_llvm = false;
  /// Listing of the machine code; needs tools of the CUDA toolkit.
  DumpTarget dump_sass = false;
  bool ptxas_info_verbose = false;
  std::optional<FuncAttribute> func_attribute = std::nullopt;
};

/// A kernel in PTX text or a binary image.
struct LoadOptions {
  std::string function_name;
  std::string asm_code;
  std::optional<FuncAttribute> func_attribute = std::nullopt;
};

struct EventOptions {
  /// Whether a waiting thread sleeps; else it may spin.
  bool blocking_sync = false;
  bool disable_timing = true;
  /// Not available: NotImplementedError.
  bool interprocess = false;
};

struct StreamOptions {
  /// A lower number is more urgent; moved to the nearest end of the device's range.
  int priority = 0;
};

/// Of `DeviceFunction::dump_rep`.
struct DumpOptions {
  DumpTarget dump_asm = false;
  DumpTarget dump_llvm = false;
  DumpTarget dump_sass = false;
};

/// In bytes.
struct MemoryInfo {
  std::size_t free = 0;
  std::size_t total = 0;
};

/// A numerically lower value is more urgent, so least >= greatest.
struct StreamPriorityRange {
  int least = 0;
  int greatest = 0;
  /// "StreamPriorityRange(least=0, greatest=-5)".
  std::string to_string() const;
  friend bool operator==(const StreamPriorityRange&, const StreamPriorityRange&) = default;
};

}  // namespace kiln::gpu
