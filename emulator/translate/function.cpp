#include "emulator/translate/function.h"

#include "emulator/execute/state.h"
#include "kiln/support/format.h"

// A register of PTX becomes a slot on the stack, which LLVM's SROA turns into values; everything
// else follows from that. Slots start as zero, so that a text which reads a register before it
// writes it has one meaning instead of undefined behaviour.

namespace kiln::emulator {

FunctionTranslator::FunctionTranslator(ModuleTranslator& module, std::uint32_t function)
    : module_(module),
      function_(function),
      facts_at_start_(&module.facts(function)),
      code_(facts_at_start_->code),
      b_(module.context()) {}

void FunctionTranslator::run() {
  allocas_ = llvm::BasicBlock::Create(module_.context(), "slots", code_);
  llvm::BasicBlock* entry = new_block("entry");
  collect_names();
  start(allocas_);
  waits_ = facts().waits;
  base_ = block_field(offsetof(BlockState, base), b_.getPtrTy());
  local_ = hidden(kLocal);
  shared_used_ = facts().shared_offset;
  enter_scope();
  declare_parameters();
  start(entry);
  for (const ptx::Statement& statement : facts().syntax->body) translate_statement(statement);
  if (b_.GetInsertBlock()->getTerminator() == nullptr) emit_return();
  b_.SetInsertPoint(allocas_);
  b_.CreateBr(entry);
}

void FunctionTranslator::collect_names() {
  std::vector<std::uint32_t> open{0};
  names_.emplace_back();
  for (const ptx::Statement& statement : facts().syntax->body) {
    if (const auto* scope = std::get_if<ptx::Scope>(&statement)) {
      if (scope->opens) {
        open.push_back(static_cast<std::uint32_t>(names_.size()));
        names_.emplace_back();
      } else {
        open.pop_back();
      }
      continue;
    }
    Names& names = names_[open.back()];
    if (const auto* label = std::get_if<ptx::Label>(&statement)) {
      if (!names.labels.emplace(label->name, new_block("label")).second)
        fail_at(module_.syntax(), label->line, LoadError::Kind::invalid,
                format("the label '{}' is defined twice", label->name));
    } else if (const auto* targets = std::get_if<ptx::BranchTargets>(&statement)) {
      names.targets.emplace(targets->name, targets);
    } else if (const auto* prototype = std::get_if<ptx::Prototype>(&statement)) {
      names.prototypes.emplace(prototype->name, prototype);
    }
  }
}

void FunctionTranslator::enter_scope() {
  scopes_.emplace_back();
  scopes_.back().number = next_scope_++;
}

void FunctionTranslator::translate_statement(const ptx::Statement& statement) {
  if (const auto* instruction = std::get_if<Instruction>(&statement)) {
    translate_instruction(*instruction);
  } else if (const auto* label = std::get_if<ptx::Label>(&statement)) {
    llvm::BasicBlock* block = names_[scopes_.back().number].labels.at(label->name);
    if (b_.GetInsertBlock()->getTerminator() == nullptr) b_.CreateBr(block);
    start(block);
  } else if (const auto* declaration = std::get_if<ptx::Declaration>(&statement)) {
    declare(*declaration);
  } else if (const auto* scope = std::get_if<ptx::Scope>(&statement)) {
    if (scope->opens)
      enter_scope();
    else
      scopes_.pop_back();
  }
}

void FunctionTranslator::translate_instruction(const Instruction& instruction) {
  instruction_ = &instruction;
  // What stands behind a jump and has no label is never reached.
  if (b_.GetInsertBlock()->getTerminator() != nullptr) start(new_block("unreached"));
  const Translate translate = find_form(instruction.opcode);
  if (translate == nullptr) unsupported("this instruction is not implemented");
  if (instruction.predicate.empty()) return translate(*this, Modifiers(instruction.modifiers));
  Operand predicate;
  predicate.kind = Operand::Kind::name;
  predicate.name = instruction.predicate;
  predicate.negated = instruction.negated;
  Value* condition = read_predicate(predicate);
  llvm::BasicBlock* then = new_block("then");
  llvm::BasicBlock* after = new_block("after");
  b_.CreateCondBr(condition, then, after);
  start(then);
  translate(*this, Modifiers(instruction.modifiers));
  if (b_.GetInsertBlock()->getTerminator() == nullptr) b_.CreateBr(after);
  start(after);
}

void FunctionTranslator::declare_parameters() {
  const ptx::Function& syntax = *facts().syntax;
  if (syntax.is_entry) {
    auto* bytes =
        llvm::cast<llvm::LoadInst>(block_field(offsetof(BlockState, parameters), b_.getPtrTy()));
    set_readable(bytes, std::max<std::uint64_t>(module_.parameter_bytes(syntax), 1));
    std::uint64_t offset = 0;
    for (const ptx::Declaration& parameter : syntax.parameters) {
      offset = (offset + parameter.alignment - 1) / parameter.alignment * parameter.alignment;
      Symbol symbol;
      symbol.kind = Symbol::Kind::param;
      symbol.pointer = b_.CreateConstGEP1_64(b_.getInt8Ty(), bytes, offset);
      symbol.bytes = parameter.bytes();
      symbol.type = parameter.type;
      symbol.constant = true;
      scopes_.back().symbols[parameter.name] = symbol;
      offset += parameter.bytes();
    }
    return;
  }
  unsigned argument = kNumHidden;
  const auto add = [&](const ptx::Declaration& parameter, bool result) {
    Value* pointer = code_->getArg(argument++);
    Symbol symbol;
    if (parameter.space == ptx::Space::reg) {
      // A parameter that is a register lives in the memory that the caller gave.
      symbol.kind = Symbol::Kind::reg;
      symbol.reg = {pointer, parameter.type};
      if (result) b_.CreateStore(llvm::Constant::getNullValue(llvm_type(parameter.type)), pointer);
    } else {
      symbol.kind = Symbol::Kind::param;
      symbol.pointer = pointer;
      symbol.bytes = parameter.bytes();
      symbol.type = parameter.type;
    }
    scopes_.back().symbols[parameter.name] = symbol;
  };
  for (const ptx::Declaration& result : syntax.results) add(result, true);
  for (const ptx::Declaration& parameter : syntax.parameters) add(parameter, false);
}

void FunctionTranslator::declare(const ptx::Declaration& declaration) {
  Symbol symbol;
  symbol.type = declaration.type;
  symbol.bytes = declaration.bytes();
  const std::uint64_t alignment = declaration.alignment;
  const auto fail = [&](LoadError::Kind kind, std::string_view what) {
    fail_at(module_.syntax(), declaration.line, kind, format("'{}': {}", declaration.name, what));
  };
  switch (declaration.space) {
    case ptx::Space::reg:
      if (declaration.is_array) fail(LoadError::Kind::unsupported, "registers are no arrays");
      symbol.kind = declaration.numbered != 0 ? Symbol::Kind::numbered : Symbol::Kind::reg;
      symbol.reg.type = declaration.type;
      symbol.count = declaration.numbered;
      break;
    case ptx::Space::param: {
      symbol.kind = Symbol::Kind::param;
      auto* slot = temporary(llvm::ArrayType::get(b_.getInt8Ty(), declaration.bytes()));
      slot->setAlignment(llvm::Align(std::max<std::uint64_t>(alignment, 8)));
      symbol.pointer = slot;
      break;
    }
    case ptx::Space::local:
      symbol.kind = Symbol::Kind::local;
      if (facts().recursive) {
        auto* slot = temporary(llvm::ArrayType::get(b_.getInt8Ty(), declaration.bytes()));
        slot->setAlignment(llvm::Align(std::max<std::uint64_t>(alignment, 16)));
        symbol.pointer = slot;
        break;
      }
      local_used_ = (local_used_ + alignment - 1) / alignment * alignment;
      symbol.offset = local_used_;
      local_used_ += declaration.bytes();
      break;
    case ptx::Space::shared:
      symbol.kind = Symbol::Kind::shared;
      symbol.dynamic = declaration.is_extern || declaration.elements == 0;
      if (symbol.dynamic) break;
      shared_used_ = (shared_used_ + alignment - 1) / alignment * alignment;
      symbol.offset = shared_used_;
      shared_used_ += declaration.bytes();
      break;
    default:
      fail(LoadError::Kind::unsupported,
           "variables of this space are not implemented inside a function");
  }
  if (!declaration.initial.empty())
    fail(LoadError::Kind::invalid, "only global and constant variables can have values");
  if (!scopes_.back().symbols.emplace(declaration.name, symbol).second)
    fail(LoadError::Kind::invalid, "this name is declared twice in one scope");
}

FunctionTranslator::Symbol* FunctionTranslator::find(std::string_view name) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto found = scope->symbols.find(name);
    if (found != scope->symbols.end()) return &found->second;
    // %r12 of ".reg .b32 %r<20>"
    std::size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
    if (digits == name.size() || name.size() - digits > 7) continue;
    if (name[digits] == '0' && name.size() - digits > 1) continue;
    const auto range = scope->symbols.find(name.substr(0, digits));
    if (range == scope->symbols.end() || range->second.kind != Symbol::Kind::numbered) continue;
    std::uint32_t number = 0;
    for (char c : name.substr(digits)) number = number * 10 + static_cast<std::uint32_t>(c - '0');
    if (number >= range->second.count) continue;
    Symbol symbol;
    symbol.reg.type = range->second.reg.type;
    return &scope->symbols.emplace(name, symbol).first->second;
  }
  return nullptr;
}

FunctionTranslator::Register& FunctionTranslator::find_register(std::string_view name) {
  Symbol* symbol = find(name);
  if (symbol == nullptr) invalid(format("'{}' is not declared", name));
  if (symbol->kind != Symbol::Kind::reg) invalid(format("'{}' is not a register", name));
  Register& reg = symbol->reg;
  if (reg.slot == nullptr) {
    llvm::IRBuilder<>::InsertPointGuard guard(b_);
    auto* slot = temporary(llvm_type(reg.type));
    b_.SetInsertPoint(allocas_);
    b_.CreateStore(llvm::Constant::getNullValue(slot->getAllocatedType()), slot);
    reg.slot = slot;
  }
  return reg;
}

llvm::AllocaInst* FunctionTranslator::temporary(llvm::Type* type) {
  llvm::IRBuilder<>::InsertPointGuard guard(b_);
  b_.SetInsertPoint(allocas_, allocas_->begin());
  return b_.CreateAlloca(type);
}

llvm::Value* FunctionTranslator::carry() {
  if (carry_ == nullptr) {
    llvm::IRBuilder<>::InsertPointGuard guard(b_);
    carry_ = temporary(b_.getInt1Ty());
    b_.SetInsertPoint(allocas_);
    b_.CreateStore(b_.getInt1(false), carry_);
  }
  return carry_;
}

llvm::BasicBlock* FunctionTranslator::new_block(const char* name) {
  return llvm::BasicBlock::Create(module_.context(), name, code_);
}

llvm::BasicBlock* FunctionTranslator::label(std::string_view name) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto& labels = names_[scope->number].labels;
    if (const auto found = labels.find(name); found != labels.end()) return found->second;
  }
  invalid(format("there is no label '{}'", name));
}

const ptx::BranchTargets* FunctionTranslator::find_targets(std::string_view name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto& targets = names_[scope->number].targets;
    if (const auto found = targets.find(name); found != targets.end()) return found->second;
  }
  return nullptr;
}

const ptx::Prototype* FunctionTranslator::find_prototype(std::string_view name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto& prototypes = names_[scope->number].prototypes;
    if (const auto found = prototypes.find(name); found != prototypes.end()) return found->second;
  }
  return nullptr;
}

void FunctionTranslator::unsupported(std::string_view what) {
  fail_at(module_.syntax(), instruction_->line, LoadError::Kind::unsupported,
          format("{}: {}", what, instruction_->text.substr(0, 200)));
}

void FunctionTranslator::invalid(std::string_view what) {
  fail_at(module_.syntax(), instruction_->line, LoadError::Kind::invalid,
          format("{}: {}", what, instruction_->text.substr(0, 200)));
}

void FunctionTranslator::finish(const Modifiers& modifiers, std::size_t operands) {
  if (!modifiers.done())
    unsupported(format("the modifier '{}' is not implemented here", modifiers.peek()));
  if (num_operands() != operands)
    invalid(format("{} operands are expected, {} are given", operands, num_operands()));
}

ptx::Type FunctionTranslator::take_type(Modifiers& modifiers) {
  const Type type = ptx::type_of(modifiers.peek());
  if (type.kind == Type::Kind::none)
    unsupported(format("a type is expected in place of '{}'", modifiers.peek()));
  modifiers.take();
  return type;
}

}  // namespace kiln::emulator
