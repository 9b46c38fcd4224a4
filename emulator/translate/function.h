#pragma once

#include <llvm/IR/IRBuilder.h>

#include <string_view>
#include <unordered_map>
#include <vector>

#include "emulator/translate/module.h"

namespace kiln::emulator {

/// The hidden arguments of a translated function, in order.
enum HiddenArgument : unsigned {
  kBlock,       // ptr to BlockState
  kThread,      // ptr to ThreadState; null when threads do not wait
  kLocal,       // device address of free local memory
  kMisaligned,  // ptr to where an address that is not aligned is noted; null: fault at once
  kTidX,
  kTidY,
  kTidZ,
  kCtaX,
  kCtaY,
  kCtaZ,
  kNumHidden
};

/// What an access does, for checks.
enum class AccessKind : std::uint8_t { read, write, update };

/// The modifiers of an instruction, read from left to right.
class Modifiers {
 public:
  explicit Modifiers(const std::vector<std::string_view>& words) : words_(words) {}
  bool done() const { return next_ == words_.size(); }
  std::string_view peek() const { return done() ? std::string_view() : words_[next_]; }
  std::string_view take() { return done() ? std::string_view() : words_[next_++]; }
  bool take_if(std::string_view word) {
    if (peek() != word) return false;
    ++next_;
    return true;
  }
  /// The index of the word among `words`, or -1 when the next one is none of them.
  template <typename... Words>
  int take_one_of(Words... words) {
    int index = 0, found = -1;
    ((peek() == words ? (found = index++) : index++), ...);
    if (found >= 0) ++next_;
    return found;
  }

 private:
  const std::vector<std::string_view>& words_;
  std::size_t next_ = 0;
};

/// Translates the body of one function. The families of instructions (integer.cpp, float.cpp, ...)
/// build on what this class offers: operands by type, registers, memory, faults.
class FunctionTranslator {
 public:
  FunctionTranslator(ModuleTranslator& module, std::uint32_t function);
  void run();

  using Type = ptx::Type;
  using Operand = ptx::Operand;
  using Instruction = ptx::Instruction;
  using Value = llvm::Value;

  llvm::IRBuilder<>& builder() { return b_; }
  ModuleTranslator& module() { return module_; }
  FunctionFacts& facts() { return module_.facts(function_); }
  const Instruction& instruction() const { return *instruction_; }
  bool waits() const { return waits_; }

  // Errors; each names the line and the text of the instruction.
  [[noreturn]] void unsupported(std::string_view what);
  [[noreturn]] void invalid(std::string_view what);
  /// Refuses the instruction when modifiers are left or the count of operands differs.
  void finish(const Modifiers& modifiers, std::size_t operands);
  Type take_type(Modifiers& modifiers);

  // Types
  llvm::Type* llvm_type(Type type);  // i1, iN; float and double; halves as integers
  llvm::IntegerType* int_type(unsigned bits) { return b_.getIntNTy(bits); }

  // Operands
  const Operand& operand(std::size_t index) const { return instruction_->operands[index]; }
  std::size_t num_operands() const { return instruction_->operands.size(); }
  /// The operand's value; a register must have the width of `type`, or may be wider when `wider`.
  Value* read(const Operand& operand, Type type, bool wider = false);
  Value* read(std::size_t index, Type type, bool wider = false) {
    return read(operand(index), type, wider);
  }
  /// As an integer of the width of the type.
  Value* read_bits(std::size_t index, Type type);
  void write(const Operand& target, Value* value, Type type, bool wider = false);
  void write(std::size_t index, Value* value, Type type, bool wider = false) {
    write(operand(index), value, type, wider);
  }
  /// The type that a register was declared with; Kind::none when the operand is no register.
  Type register_type(const Operand& operand);
  Value* read_predicate(const Operand& operand);
  Value* to_bits(Value* value);
  Value* from_bits(Value* bits, Type type);

  // Memory
  /// The device address of an address operand, for generic and other spaces alike.
  Value* address(const Operand& operand, ptx::Space space);
  /// What is done before an access of `bytes`: it faults (or notes the fault) when the address is
  /// no multiple of them, and as the options of the load ask, when they are not all memory of the
  /// device, or were never written.
  void check_access(Value* address, unsigned bytes, ptx::Space space, AccessKind kind);
  /// Where a device address can be read: base + address.
  Value* pointer(Value* address);
  /// The device address with which kernels reach host memory: the opposite of `pointer`.
  Value* address_of(Value* pointer);
  /// A pointer to the bytes of a .param variable; null when the operand names none.
  Value* param_pointer(const Operand& operand);
  /// Whether `bytes` from the operand's offset lie within the .param variable that it names.
  bool param_holds(const Operand& operand, std::uint64_t bytes);
  bool param_is_constant(const Operand& operand);
  void mark_independent(llvm::Instruction* access);

  // State of the launch
  Value* hidden(HiddenArgument index) { return code_->getArg(index); }
  Value* block_field(std::size_t offset, llvm::Type* type);
  /// Says that `bytes` behind a pointer of the launch can be read.
  void set_readable(llvm::LoadInst* pointer, std::uint64_t bytes);
  Value* special_register(std::string_view name);  // null when there is none of that name
  Value* linear_thread();
  Value* lane();

  // Calls of the runtime
  Value* call(std::string_view helper, llvm::Type* result, std::initializer_list<Value*> arguments);
  Value* line_value() { return b_.getInt32(instruction_->line); }
  /// Emits a fault, which does not return; the builder goes on in a new block.
  void fault(std::uint32_t code, Value* address);
  /// Emits code that faults when `condition` holds.
  void fault_if(Value* condition, std::uint32_t code, Value* address);
  llvm::AllocaInst* temporary(llvm::Type* type);
  /// Where the carry of add.cc and the like is kept.
  Value* carry();

  // Control
  llvm::BasicBlock* new_block(const char* name);
  void start(llvm::BasicBlock* block) { b_.SetInsertPoint(block); }
  llvm::BasicBlock* label(std::string_view name);
  const ptx::BranchTargets* find_targets(std::string_view name) const;
  void emit_call();
  void emit_return() { b_.CreateRetVoid(); }
  bool is_entry() const { return facts_at_start_->syntax->is_entry; }

 private:
  struct Register {
    Value* slot = nullptr;
    Type type;
  };
  struct Symbol {
    enum class Kind : std::uint8_t { reg, numbered, param, shared, local } kind = Kind::reg;
    Register reg;
    std::uint32_t count = 0;   // of numbered registers
    Value* pointer = nullptr;  // of a param
    std::uint64_t bytes = 0;
    bool constant = false;     // a param of a kernel
    std::uint64_t offset = 0;  // of local and shared variables
    bool dynamic = false;      // shared memory of the launch
    Type type;                 // of a param
  };
  /// What a pair of braces holds that may be named before it stands there.
  struct Names {
    std::unordered_map<std::string_view, llvm::BasicBlock*> labels;
    std::unordered_map<std::string_view, const ptx::BranchTargets*> targets;
    std::unordered_map<std::string_view, const ptx::Prototype*> prototypes;
  };
  struct OpenScope {
    std::uint32_t number = 0;  // index into names_
    std::unordered_map<std::string_view, Symbol> symbols;
  };

  void check_aligned(Value* address, unsigned bytes);
  void check_memory(Value* address, unsigned bytes);
  void call_check(std::string_view helper, Value* address, unsigned bytes, AccessKind kind);
  void collect_names();
  void declare(const ptx::Declaration& declaration);
  void declare_parameters();
  void translate_statement(const ptx::Statement& statement);
  void translate_instruction(const Instruction& instruction);
  void enter_scope();
  const ptx::Prototype* find_prototype(std::string_view name) const;
  Symbol* find(std::string_view name);
  Register& find_register(std::string_view name);
  Value* name_value(const Operand& operand, Type type, bool wider);
  Value* symbol_address(std::string_view name, Type type);
  Value* adjust(Value* bits, Type from, Type to, bool wider);
  void emit_direct_call(std::uint32_t callee, std::vector<Value*>& arguments);
  void emit_indirect_call(const Operand& target, const ptx::Prototype& prototype,
                          std::vector<Value*>& arguments);
  bool emit_known_call(std::string_view name, std::span<Value* const> results,
                       std::span<Value* const> parameters);
  Value* argument_pointer(const Operand& operand, const ptx::Declaration& declaration, bool result);
  std::vector<Value*> hidden_arguments();

  ModuleTranslator& module_;
  std::uint32_t function_;
  const FunctionFacts* facts_at_start_;
  llvm::Function* code_;
  llvm::IRBuilder<> b_;
  llvm::BasicBlock* allocas_ = nullptr;  // registers and temporaries
  bool waits_ = false;
  Value* base_ = nullptr;
  Value* local_ = nullptr;
  Value* carry_ = nullptr;
  std::vector<OpenScope> scopes_;
  std::vector<Names> names_;  // of all scopes, in the order in which they open
  std::uint32_t next_scope_ = 0;
  std::uint64_t local_used_ = 0;
  std::uint64_t shared_used_ = 0;
  const Instruction* instruction_ = nullptr;
};

/// Translates an instruction whose opcode it is registered for in the table of forms.
using Translate = void (*)(FunctionTranslator&, Modifiers);
/// The translation of an opcode, or null when it is not implemented.
Translate find_form(std::string_view opcode);

}  // namespace kiln::emulator
