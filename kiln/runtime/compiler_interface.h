#pragma once

// How kiln reaches libkiln_compiler, which is opened when the first graph or kernel source must be
// compiled.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/graph/ir.h"
#include "kiln/runtime/artifact.h"

namespace kiln::runtime {

/// Raised when the interface below changes; a compiler library of another version is refused.
inline constexpr int kCompilerInterfaceVersion = 2;

/// How far a compile is: `done` of `total` steps, and what runs now, such as "kernel matmul+gelu".
struct CompileProgress {
  int done = 0;
  int total = 0;
  std::string_view what;
};

struct CompileOptions {
  /// "" for this host, "generic", or a processor name such as "x86-64-v3".
  std::string cpu_target;
  /// Check the results of every op that makes floats for NaN and infinities.
  bool nan_check = false;
  /// Folder that receives the IR after each stage; empty: none.
  std::string ir_output_dir;
  /// Threads that compile kernels, the caller included.
  int num_threads = 1;
  /// Called from the compiling thread; may be empty. Returning false cancels: RuntimeError.
  std::function<bool(const CompileProgress&)> progress;
};

/// One kernel to take out of a text of CUDA-dialect C++.
struct KernelSource {
  /// The kernel as the caller names it; one that is not `extern "C"` is found by its plain name.
  std::string name;
  std::string text;
  /// What diagnostics call the text.
  std::string file = "kernel.cu";
  /// Such as "sm_90"; empty: this host, by the rules of kiln/runtime/kernel_abi.h.
  std::string architecture;
  /// The highest PTX version that the driver reads, as major * 10 + minor; 0: any.
  int max_ptx_version = 0;
  /// Appended to the compiler's arguments, split as a shell splits them.
  std::string compile_options, link_options;
  /// Whether `CompiledKernel::llvm_ir` and `assembly` are wanted.
  bool keep_llvm_ir = false, keep_assembly = false;
};

/// A parameter as the kernel's source declares it.
struct KernelParameter {
  /// Without names of typedefs: "const float*", "int", "unsigned long".
  std::string type;
  std::uint32_t size = 0, alignment = 0;
  bool is_pointer = false;
  /// Of a pointer: whether what it points to is const, and the type of that without const.
  bool points_to_const = false;
  std::string pointee;
};

struct CompiledKernel {
  /// The kernel's name in `ptx`.
  std::string symbol;
  std::vector<KernelParameter> parameters;
  /// For devices.
  std::string ptx;
  /// For the host: a shared library that exports `kKernelRunName`.
  std::vector<std::byte> image;
  /// For the host: whether the kernel may call KernelBlock::barrier.
  bool may_wait = false;
  /// Optimised IR; assembly of the host.
  std::string llvm_ir, assembly;
};

/// Implemented by libkiln_compiler. Safe from any thread.
class Compiler {
 public:
  virtual ~Compiler() = default;
  /// Compiles every top-level graph of `module`. Failures: RuntimeError with the diagnostics and
  /// the user's source lines. `module` is not changed.
  virtual ArtifactContents compile(const graph::ir::Module& module,
                                   const CompileOptions& options) = 0;
  /// The name and features that `cpu_target` stands for. Unknown name: ValueError.
  virtual CpuTarget resolve_target(std::string_view cpu_target) = 0;
  /// Compiles one kernel. RuntimeError: "compile_function: 'scale' failed to compile for sm_90"
  /// with the diagnostics, no such kernel, or a bad option; NotImplementedError: it uses what the
  /// host has no form for.
  virtual CompiledKernel compile_kernel(const KernelSource& source) = 0;
};

/// The symbol of libkiln_compiler for others than its own parts: returns the compiler (owned by the
/// library), or null when it does not speak `version`.
using CompilerEntry = Compiler* (*)(int version);
inline constexpr const char* kCompilerEntryName = "kiln_compiler_entry";

}  // namespace kiln::runtime
