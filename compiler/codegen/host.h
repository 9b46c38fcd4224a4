#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/codegen/kernel_code.h"
#include "compiler/codegen/memory_plan.h"
#include "kiln/runtime/artifact.h"

namespace kiln::compiler {

/// Where run-time failures of a graph are described: one entry an op, shared by the module.
class LocationTable {
 public:
  /// The number of `op`'s entry, made on first use.
  std::int32_t number(const graph::ir::Op& op, const std::string& graph);
  std::vector<runtime::ProgramLocation> take() { return std::move(locations_); }

 private:
  std::map<const graph::ir::Op*, std::int32_t> numbers_;
  std::vector<runtime::ProgramLocation> locations_;
};

/// The symbol of each kernel's code.
using KernelSymbols = std::map<const Kernel*, std::string>;

/// Writes an entry point: void symbol(KilnCall*) runs `steps` of `program`. The memory plan is that
/// of the run steps; init makes everything anew.
void emit_entry(llvm::Module& module, const Isa& isa, const Program& program,
                const std::vector<Step>& steps, const MemoryPlan& plan,
                const KernelSymbols& symbols, LocationTable& locations, const std::string& symbol);

}  // namespace kiln::compiler
