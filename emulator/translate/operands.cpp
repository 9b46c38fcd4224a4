#include <bit>

#include "emulator/execute/state.h"
#include "emulator/translate/function.h"
#include "kiln/support/format.h"

namespace kiln::emulator {

using Kind = ptx::Type::Kind;

llvm::Type* FunctionTranslator::llvm_type(Type type) {
  if (type.kind == Kind::real && type.lanes == 1) {
    if (type.bits == 32) return b_.getFloatTy();
    if (type.bits == 64) return b_.getDoubleTy();
  }
  return int_type(type.width());
}

llvm::Value* FunctionTranslator::to_bits(Value* value) {
  llvm::Type* type = value->getType();
  if (type->isIntegerTy()) return value;
  return b_.CreateBitCast(value, int_type(type->getPrimitiveSizeInBits()));
}

llvm::Value* FunctionTranslator::from_bits(Value* bits, Type type) {
  llvm::Type* target = llvm_type(type);
  return target == bits->getType() ? bits : b_.CreateBitCast(bits, target);
}

// The bits of a register of one type as an operand of another. Sizes must agree, but for the
// instructions that take wider registers: those give their low bits, and take zeros or signs.
llvm::Value* FunctionTranslator::adjust(Value* bits, Type from, Type to, bool wider) {
  const bool pred = from.kind == Kind::pred || to.kind == Kind::pred;
  if (pred ? from.kind != to.kind : from.width() < to.width() && !wider)
    invalid(format("a register of {} bits is given where {} bits are expected", from.width(),
                   to.width()));
  if (from.width() == to.width()) return bits;
  if (!wider || from.width() < to.width())
    invalid(format("a register of {} bits is given where {} bits are expected", from.width(),
                   to.width()));
  return b_.CreateTrunc(bits, int_type(to.width()));
}

ptx::Type FunctionTranslator::register_type(const Operand& operand) {
  if (operand.kind != Operand::Kind::name) return {};
  Symbol* symbol = find(operand.name);
  return symbol != nullptr && symbol->kind == Symbol::Kind::reg ? symbol->reg.type : Type{};
}

llvm::Value* FunctionTranslator::read(const Operand& operand, Type type, bool wider) {
  switch (operand.kind) {
    case Operand::Kind::integer: {
      if (type.kind == Kind::pred) return b_.getInt1(operand.value != 0);
      if (type.kind == Kind::real && type.lanes == 1 && type.bits >= 32)
        invalid("an integer is given where a real number is expected");
      llvm::APInt bits(64, static_cast<std::uint64_t>(operand.value));
      return from_bits(b_.getInt(bits.sextOrTrunc(type.width())), type);
    }
    case Operand::Kind::real: {
      const auto bits = static_cast<std::uint64_t>(operand.value);
      if (type.width() == 32 && type.lanes == 1) {
        const auto single =
            operand.single
                ? static_cast<std::uint32_t>(bits)
                : std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
        return from_bits(b_.getInt32(single), type);
      }
      if (type.width() == 64 && type.lanes == 1) {
        const auto whole = operand.single
                               ? std::bit_cast<std::uint64_t>(static_cast<double>(
                                     std::bit_cast<float>(static_cast<std::uint32_t>(bits))))
                               : bits;
        return from_bits(b_.getInt64(whole), type);
      }
      invalid("a real number must have 32 or 64 bits here");
    }
    case Operand::Kind::name:
      return name_value(operand, type, wider);
    default:
      invalid("this kind of operand is not expected here");
  }
}

llvm::Value* FunctionTranslator::read_bits(std::size_t index, Type type) {
  return to_bits(read(index, type));
}

llvm::Value* FunctionTranslator::name_value(const Operand& operand, Type type, bool wider) {
  if (Symbol* symbol = find(operand.name); symbol != nullptr && symbol->kind == Symbol::Kind::reg) {
    if (operand.value != 0) invalid("a sum is no operand");
    Register& reg = find_register(operand.name);
    Value* bits = b_.CreateLoad(llvm_type(reg.type), reg.slot);
    if (reg.type.kind != Kind::pred && !(llvm_type(reg.type) == llvm_type(type))) {
      bits = from_bits(adjust(to_bits(bits), reg.type, type, wider), type);
    } else if ((reg.type.kind == Kind::pred) != (type.kind == Kind::pred)) {
      invalid("a predicate is mixed with a number");
    }
    if (!operand.negated) return bits;
    if (type.kind != Kind::pred) invalid("only predicates can be negated");
    return b_.CreateNot(bits);
  }
  if (operand.name.starts_with("%") || operand.name == "WARP_SZ") {
    Value* value = operand.name == "WARP_SZ" ? b_.getInt64(32) : special_register(operand.name);
    if (value == nullptr) invalid(format("'{}' is not declared", operand.name));
    if (operand.value != 0) invalid("a sum is no operand");
    const unsigned width = value->getType()->getIntegerBitWidth();
    if (type.kind == Kind::pred || type.width() == 0) invalid("a predicate is mixed with a number");
    // mov.u16 %rs, %tid.x reads the low half; mov.u64 of a 32-bit register is refused.
    if (type.width() > width)
      invalid(
          format("'{}' has {} bits where {} bits are expected", operand.name, width, type.width()));
    return from_bits(b_.CreateTrunc(value, int_type(type.width())), type);
  }
  Value* bits = symbol_address(operand.name, type);
  if (operand.value != 0)
    bits = b_.CreateAdd(bits, b_.getIntN(type.width(), static_cast<std::uint64_t>(operand.value)));
  return bits;
}

// mov.u64 %rd1, variable: the address within the variable's space, which is the device address
// but for shared memory, where it is an offset within the block's window.
llvm::Value* FunctionTranslator::symbol_address(std::string_view name, Type type) {
  if (!type.is_integer() || type.width() < 32) invalid(format("'{}' is not declared", name));
  Value* value = nullptr;
  bool narrow = false;
  const auto shared = [&](std::uint64_t offset, bool dynamic) {
    value = dynamic
                ? b_.CreateZExt(block_field(offsetof(BlockState, dynamic_offset), b_.getInt32Ty()),
                                b_.getInt64Ty())
                : b_.getInt64(offset);
    narrow = true;
  };
  if (Symbol* symbol = find(name)) {
    if (symbol->kind == Symbol::Kind::shared)
      shared(symbol->offset, symbol->dynamic);
    else if (symbol->kind == Symbol::Kind::local && symbol->pointer == nullptr)
      value = b_.CreateAdd(local_, b_.getInt64(symbol->offset));
    else if (symbol->kind == Symbol::Kind::param || symbol->kind == Symbol::Kind::local)
      value = address_of(symbol->pointer);
    else
      invalid(format("'{}' cannot be read", name));
  } else if (const auto* module_shared = module_.find_shared(name)) {
    shared(module_shared->offset, module_shared->dynamic);
  } else if (const std::uint32_t* variable = module_.find_variable(name)) {
    auto* addresses =
        llvm::cast<llvm::LoadInst>(block_field(offsetof(BlockState, variables), b_.getPtrTy()));
    set_readable(addresses, 8 * module_.num_variables());
    Value* slot = b_.CreateConstGEP1_64(b_.getInt64Ty(), addresses, *variable);
    auto* load = b_.CreateLoad(b_.getInt64Ty(), slot);
    load->setMetadata(llvm::LLVMContext::MD_invariant_load,
                      llvm::MDNode::get(module_.context(), {}));
    value = load;
  } else if (const std::uint32_t* function = module_.find_function(name)) {
    value = b_.getInt64(ModuleTranslator::function_address(*function));
    narrow = true;
  } else {
    invalid(format("'{}' is not declared", name));
  }
  if (type.width() == 64) return value;
  if (!narrow) invalid(format("the address of '{}' has 64 bits", name));
  return b_.CreateTrunc(value, int_type(type.width()));
}

llvm::Value* FunctionTranslator::read_predicate(const Operand& operand) {
  return read(operand, Type{Kind::pred, 1});
}

void FunctionTranslator::write(const Operand& target, Value* value, Type type, bool wider) {
  if (target.kind == Operand::Kind::nowhere) return;
  if (target.kind != Operand::Kind::name || target.value != 0 || target.negated)
    invalid("a register is expected as the target");
  Register& reg = find_register(target.name);
  if ((reg.type.kind == Kind::pred) != (type.kind == Kind::pred))
    invalid("a predicate is mixed with a number");
  if (llvm_type(reg.type) != value->getType()) {
    Value* bits = to_bits(value);
    const unsigned from = type.width(), to = reg.type.width();
    if (from != to && (!wider || to < from))
      invalid(format("the target has {} bits where {} bits are expected", to, from));
    if (from != to)
      bits =
          type.is_signed() ? b_.CreateSExt(bits, int_type(to)) : b_.CreateZExt(bits, int_type(to));
    value = from_bits(bits, reg.type);
  }
  b_.CreateStore(value, reg.slot);
}

}  // namespace kiln::emulator
