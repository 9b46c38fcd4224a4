#pragma once

// The code of one kernel: void kernel(void* arguments, i64 begin, i64 end, i64 worker).
//
// `arguments` points to 8-byte slots: the KilnCall, the memory of each tensor, the value of each
// dim, a KilnFailure for each op that may refuse its data. Which ones, and in which order, is the
// KernelSignature. It is made without looking at names, together with a key that is equal for
// kernels whose code is equal, so that a layer that occurs twelve times is compiled once.

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/function_builder.h"
#include "compiler/kernels/program.h"

namespace kiln::compiler {

struct KernelSignature {
  std::vector<int> tensors;
  std::vector<Dim> dims;  // those that are not static
  std::vector<const graph::ir::Op*> origins;
  std::string key;

  std::size_t slots() const { return 1 + tensors.size() + dims.size() + origins.size(); }
};

KernelSignature signature_of(const Kernel& kernel, const Program& program);

/// How the host function runs a kernel: over `units`, each worth about `unit_cost` operations times
/// `unit_length` elements.
struct KernelLaunch {
  struct Attention {
    Dim rows, keys, depth, width;
  };
  std::vector<Dim> units;  // the iterations are the product of these
  std::optional<std::pair<Dim, Dim>>
      product;                         // and of the tiles of a matrix of this many rows, columns
  std::optional<Attention> attention;  // or of the tiles of an attention; it needs scratch
  Dim unit_length = 1;
  double unit_cost = 1;      // per element, in units of one vector instruction
  std::int64_t grain = 1;    // iterations come in multiples of this
  bool sequential = false;   // all iterations on one thread, in order
  Dim scratch_bytes = 0;     // working memory of each worker
  bool has_scratch = false;  // then slot `slots()` holds its address
};

/// Whether a kernel reads weights that lie in panels. Then the slots from `slots()` on tell what
/// the next such kernel reads, so that this one can fetch the start of it.
bool streams_weights(const Kernel& kernel, const Program& program);
inline constexpr std::size_t kSlotsOfNext = 3;

KernelLaunch launch_of(const Kernel& kernel, const Program& program, const Isa& isa);

/// Writes the kernel as function `symbol` of `module`.
void emit_kernel(llvm::Module& module, const Isa& isa, const Kernel& kernel, const Program& program,
                 const std::string& symbol);

/// Calls KilnRuntime.fail, which does not return, and ends the block.
void emit_fail(FunctionBuilder& f, llvm::Value* call, llvm::Value* failure, llvm::Value* values,
               std::int64_t count);

/// The function pointer in field `field` of the KilnRuntime of `call`.
llvm::Value* runtime_function(FunctionBuilder& f, llvm::Value* call, std::size_t field_offset);

/// What the emission of a kernel shares: its slots as LLVM values.
class KernelArguments {
 public:
  KernelArguments(FunctionBuilder& f, const Kernel& kernel, const Program& program);

  llvm::Value* call() const { return call_; }
  llvm::Value* tensor(int id) const { return tensors_.at(id); }
  llvm::Value* dim(const Dim& dim) const;
  llvm::Value* failure(const graph::ir::Op* origin) const { return failures_.at(origin); }
  llvm::Value* scratch() const { return scratch_; }
  /// Of a kernel that streams weights: where those of the next one begin, the number of their
  /// panels, and the bytes of each.
  const std::vector<llvm::Value*>& next() const { return next_; }

 private:
  FunctionBuilder& f_;
  llvm::Value* call_;
  std::map<int, llvm::Value*> tensors_;
  std::map<std::string, llvm::Value*> dims_;
  std::map<const graph::ir::Op*, llvm::Value*> failures_;
  llvm::Value* scratch_ = nullptr;
  std::vector<llvm::Value*> next_;
};

}  // namespace kiln::compiler
