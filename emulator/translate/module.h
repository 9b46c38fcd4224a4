#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/execute/state.h"
#include "emulator/program/program.h"
#include "emulator/ptx/syntax.h"

namespace kiln::emulator {

/// What is known of a function before its body is translated.
struct FunctionFacts {
  const ptx::Function* syntax = nullptr;
  llvm::Function* code = nullptr;
  std::vector<std::uint32_t> callees;  // by number
  bool calls_indirectly = false;
  bool waits = false;      // it or what it calls may wait for other threads
  bool recursive = false;  // it may reach itself
  bool uses_module_shared = false;
  bool address_taken = false;
  std::uint32_t frame_bytes = 0;    // of .local variables
  std::uint64_t local_bytes = 0;    // with all that it calls
  std::uint32_t shared_offset = 0;  // of its own variables in shared memory
  std::uint32_t shared_bytes = 0;
};

/// What the translation of a module gives.
struct Translation {
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
  std::vector<Kernel> kernels;
  std::vector<KernelTraits> traits;               // of each kernel
  std::vector<std::vector<std::string>> callees;  // symbols of all that each kernel may call
  std::vector<Variable> variables;
  SourceLines source;
};

/// Turns a parsed text into LLVM IR. Throws LoadError.
Translation translate(const ptx::Module& syntax, const LoadOptions& options);

/// State of one translation, shared by the functions of the module.
class ModuleTranslator {
 public:
  ModuleTranslator(const ptx::Module& syntax, const LoadOptions& options);
  Translation run();

  llvm::LLVMContext& context() { return *context_; }
  llvm::Module& module() { return *module_; }
  const ptx::Module& syntax() const { return syntax_; }
  const LoadOptions& options() const { return options_; }

  /// A function of the runtime, declared on first use.
  llvm::FunctionCallee helper(std::string_view name, llvm::Type* result,
                              std::span<llvm::Type* const> parameters, bool no_return = false);

  /// kiln_fault(block, thread, code, address, line, tid.xyz, ctaid.xyz)
  llvm::FunctionCallee helper_fault();

  struct SharedVariable {
    std::uint32_t offset = 0;
    bool dynamic = false;
  };
  const std::uint32_t* find_variable(std::string_view name) const;  // index into variables
  const SharedVariable* find_shared(std::string_view name) const;
  const std::uint32_t* find_function(std::string_view name) const;
  FunctionFacts& facts(std::uint32_t function) { return facts_[function]; }
  std::size_t num_functions() const { return facts_.size(); }
  std::size_t num_variables() const { return variables_.size(); }
  static std::uint64_t parameter_bytes(const ptx::Function& kernel);
  /// The number that stands for the address of a function.
  static std::uint64_t function_address(std::uint32_t function) {
    return kFirstFunctionAddress + 16 * std::uint64_t{function};
  }
  /// The type of every function: hidden arguments, then pointers to results and parameters.
  llvm::FunctionType* function_type(std::size_t results, std::size_t parameters);
  /// The group of memory accesses that are independent between threads.
  llvm::MDNode* access_group() { return access_group_; }

  static constexpr std::uint64_t kFirstFunctionAddress = 0x100;
  static constexpr std::uint64_t kMaxParameterBytes = 32764;
  static constexpr std::uint64_t kDynamicAlignment = 128;  // of dynamic shared memory

 private:
  void collect_functions();
  void collect_variables();
  void declare_functions();
  void add_kernel(std::uint32_t function, Translation& result);
  /// The function and all that it may call, by number.
  std::vector<std::uint32_t> reachable(std::uint32_t function) const;
  static std::uint32_t estimate_registers(const ptx::Function& function);
  void emit_range(std::uint32_t function, std::uint32_t kernel);
  void emit_thread(std::uint32_t function, std::uint32_t kernel);

  const ptx::Module& syntax_;
  LoadOptions options_;
  std::unique_ptr<llvm::LLVMContext> context_;
  std::unique_ptr<llvm::Module> module_;
  std::vector<FunctionFacts> facts_;
  std::unordered_map<std::string_view, std::uint32_t> functions_;
  std::vector<Variable> variables_;
  std::unordered_map<std::string_view, std::uint32_t> variable_of_;
  std::unordered_map<std::string_view, SharedVariable> shared_of_;
  std::uint32_t module_shared_bytes_ = 0;
  llvm::MDNode* access_group_ = nullptr;
};

/// Finds what each function calls, whether it waits, and how much local memory it needs.
void analyse_calls(ModuleTranslator& module);

/// Throws a LoadError at a line of the text.
[[noreturn]] void fail_at(const ptx::Module& module, std::uint32_t line, LoadError::Kind kind,
                          const std::string& sentence);

}  // namespace kiln::emulator
