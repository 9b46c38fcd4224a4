#include "emulator/execute/grid.h"
#include "emulator/translate/function.h"
#include "kiln/support/format.h"

// Calls. A function takes the hidden arguments and then a pointer for each result and parameter, so
// that one type serves direct and indirect calls; after inlining, SROA leaves nothing of it.
// The address of a function is a number that the kernel cannot turn into anything but a call.

namespace kiln::emulator {

std::vector<llvm::Value*> FunctionTranslator::hidden_arguments() {
  std::vector<Value*> arguments;
  for (unsigned i = 0; i < kNumHidden; ++i) arguments.push_back(code_->getArg(i));
  const std::uint64_t frame = (std::uint64_t{facts().frame_bytes} + 15) / 16 * 16;
  if (!facts().recursive) arguments[kLocal] = b_.CreateAdd(hidden(kLocal), b_.getInt64(frame));
  return arguments;
}

llvm::Value* FunctionTranslator::argument_pointer(const Operand& operand,
                                                  const ptx::Declaration& declaration,
                                                  bool result) {
  if (declaration.space == ptx::Space::param && operand.kind == Operand::Kind::name) {
    Symbol* symbol = find(operand.name);
    if (symbol != nullptr && symbol->kind == Symbol::Kind::param) {
      if (symbol->bytes != declaration.bytes())
        invalid(format("'{}' has {} bytes where the function expects {}", operand.name,
                       symbol->bytes, declaration.bytes()));
      if (symbol->constant) invalid("a parameter of the kernel cannot be passed on as a whole");
      return symbol->pointer;
    }
  }
  if (declaration.is_array) invalid("a .param variable is expected for an array");
  // A register or a number stands for a parameter of its size.
  auto* slot = temporary(llvm_type(declaration.type));
  if (!result) b_.CreateStore(read(operand, declaration.type, true), slot);
  return slot;
}

void FunctionTranslator::emit_call() {
  static const Operand kNone{Operand::Kind::list};
  std::size_t index = 0;
  const auto is_list = [&](std::size_t i) {
    return i < num_operands() && operand(i).kind == Operand::Kind::list;
  };
  const Operand& results = is_list(0) ? operand(index++) : kNone;
  if (index >= num_operands() || operand(index).kind != Operand::Kind::name)
    invalid("the name of a function is expected");
  const Operand& target = operand(index++);
  const Operand& parameters = is_list(index) ? operand(index++) : kNone;

  const std::uint32_t* callee = module_.find_function(target.name);
  if (callee != nullptr && find(target.name) != nullptr) callee = nullptr;
  const ptx::Prototype* prototype = nullptr;
  const std::vector<ptx::Declaration>*declared_results, *declared_parameters;
  if (callee != nullptr) {
    declared_results = &module_.facts(*callee).syntax->results;
    declared_parameters = &module_.facts(*callee).syntax->parameters;
  } else {
    if (index >= num_operands()) invalid(format("the function '{}' is not declared", target.name));
    prototype = find_prototype(operand(index++).name);
    if (prototype == nullptr) unsupported("an indirect call needs a .callprototype");
    declared_results = &prototype->results;
    declared_parameters = &prototype->parameters;
  }
  if (index != num_operands()) invalid("there are too many operands");
  if (results.elements.size() != declared_results->size() ||
      parameters.elements.size() != declared_parameters->size())
    invalid(format("the function has {} results and {} parameters", declared_results->size(),
                   declared_parameters->size()));

  std::vector<Value*> arguments = hidden_arguments();
  for (std::size_t i = 0; i < results.elements.size(); ++i)
    arguments.push_back(argument_pointer(results.elements[i], (*declared_results)[i], true));
  for (std::size_t i = 0; i < parameters.elements.size(); ++i)
    arguments.push_back(argument_pointer(parameters.elements[i], (*declared_parameters)[i], false));
  if (callee != nullptr)
    emit_direct_call(*callee, arguments);
  else
    emit_indirect_call(target, *prototype, arguments);
  if (b_.GetInsertBlock()->getTerminator() != nullptr) return;

  for (std::size_t i = 0; i < results.elements.size(); ++i) {
    const ptx::Declaration& declaration = (*declared_results)[i];
    const Operand& result = results.elements[i];
    Symbol* symbol = result.kind == Operand::Kind::name ? find(result.name) : nullptr;
    if (symbol != nullptr && symbol->kind == Symbol::Kind::param) continue;
    write(result, b_.CreateLoad(llvm_type(declaration.type), arguments[kNumHidden + i]),
          declaration.type, true);
  }
}

void FunctionTranslator::emit_direct_call(std::uint32_t callee, std::vector<Value*>& arguments) {
  const FunctionFacts& facts = module_.facts(callee);
  if (facts.code != nullptr) {
    b_.CreateCall(facts.code, arguments);
    return;
  }
  const std::size_t results = facts.syntax->results.size();
  const std::span<Value* const> all(arguments);
  if (!emit_known_call(facts.syntax->name, all.subspan(kNumHidden, results),
                       all.subspan(kNumHidden + results)))
    invalid(format("the function '{}' is declared but not defined", facts.syntax->name));
}

// The functions that the driver's side provides.
bool FunctionTranslator::emit_known_call(std::string_view name, std::span<Value* const> results,
                                         std::span<Value* const> parameters) {
  const auto load = [&](std::size_t i, llvm::Type* type) {
    return b_.CreateLoad(type, parameters[i]);
  };
  llvm::Type *const wide = b_.getInt64Ty(), *const narrow = b_.getInt32Ty();
  if (name == "vprintf" && results.size() == 1 && parameters.size() == 2) {
    b_.CreateStore(call("kiln_printf", narrow, {hidden(kBlock), load(0, wide), load(1, wide)}),
                   results[0]);
  } else if (name == "malloc" && results.size() == 1 && parameters.size() == 1) {
    b_.CreateStore(call("kiln_malloc", wide, {hidden(kBlock), load(0, wide)}), results[0]);
  } else if (name == "free" && results.empty() && parameters.size() == 1) {
    call("kiln_free", b_.getVoidTy(), {hidden(kBlock), load(0, wide)});
  } else if (name == "__assertfail" && results.empty() && parameters.size() == 5) {
    call(
        "kiln_assertion", b_.getVoidTy(),
        {hidden(kBlock), load(0, wide), load(1, wide), load(2, narrow), load(3, wide),
         hidden(kTidX), hidden(kTidY), hidden(kTidZ), hidden(kCtaX), hidden(kCtaY), hidden(kCtaZ)});
    fault(static_cast<std::uint32_t>(FaultCode::assertion), b_.getInt64(0));
    b_.CreateUnreachable();
  } else {
    return false;
  }
  return true;
}

void FunctionTranslator::emit_indirect_call(const Operand& target, const ptx::Prototype& prototype,
                                            std::vector<Value*>& arguments) {
  const auto same = [](const std::vector<ptx::Declaration>& a,
                       const std::vector<ptx::Declaration>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (a[i].bytes() != b[i].bytes() || a[i].space != b[i].space) return false;
    return true;
  };
  Value* address = read(target, Type{ptx::Type::Kind::bits, 64});
  llvm::BasicBlock* outside = new_block("no_function");
  llvm::BasicBlock* after = new_block("after_call");
  auto* choice = b_.CreateSwitch(address, outside);
  for (std::uint32_t i = 0; i < module_.num_functions(); ++i) {
    const FunctionFacts& facts = module_.facts(i);
    if (!facts.address_taken || facts.code == nullptr || facts.syntax->is_entry ||
        !same(facts.syntax->results, prototype.results) ||
        !same(facts.syntax->parameters, prototype.parameters))
      continue;
    llvm::BasicBlock* block = new_block("callee");
    choice->addCase(b_.getInt64(ModuleTranslator::function_address(i)), block);
    start(block);
    b_.CreateCall(facts.code, arguments);
    b_.CreateBr(after);
  }
  start(outside);
  fault(static_cast<std::uint32_t>(FaultCode::invalid_program_counter), address);
  b_.CreateUnreachable();
  start(after);
}

}  // namespace kiln::emulator
