#include "emulator/translate/forms.h"
#include "kiln/support/format.h"

// multimem.ld_reduce, multimem.st and multimem.red.

namespace kiln::emulator::forms {
namespace {

using llvm::Value;
using Kind = ptx::Type::Kind;

// As the runtime numbers them; a packed type is twice as many elements.
int element_of(ptx::Type type) {
  if (type.bits == 16 && type.is_real()) return type.kind == Kind::real ? 6 : 7;
  if (type.kind == Kind::real) return type.bits == 32 ? 4 : type.bits == 64 ? 5 : -1;
  if (type.bits == 32) return type.is_signed() ? 1 : 0;
  return type.bits == 64 ? (type.is_signed() ? 3 : 2) : -1;
}

std::vector<const ptx::Operand*> parts(const ptx::Operand& operand) {
  if (operand.kind != ptx::Operand::Kind::vector) return {&operand};
  std::vector<const ptx::Operand*> result;
  for (const ptx::Operand& element : operand.elements) result.push_back(&element);
  return result;
}

void multimem(FunctionTranslator& f, Modifiers modifiers) {
  const int what = modifiers.take_one_of(".ld_reduce", ".st", ".red");
  if (what < 0) f.unsupported("'.ld_reduce', '.st' or '.red' is expected");
  if (modifiers.take_one_of(".weak", ".relaxed", ".acquire", ".release") > 0 &&
      !take_scope(modifiers))
    f.invalid("a scope such as '.sys' is expected");
  const ptx::Space space = take_space(f, modifiers);
  if (space != ptx::Space::global && space != ptx::Space::none) f.invalid("'.global' is expected");
  const int operation =
      what == 1 ? 0 : modifiers.take_one_of(".add", ".min", ".max", ".and", ".or", ".xor");
  if (operation < 0) f.unsupported("this operation is not implemented");
  // Halves are summed in a wider format in any case.
  modifiers.take_if(".acc::f32");
  unsigned vector = 1;
  if (modifiers.take_if(".v2"))
    vector = 2;
  else if (modifiers.take_if(".v4"))
    vector = 4;
  else if (modifiers.take_if(".v8"))
    vector = 8;
  const ptx::Type type = f.take_type(modifiers);
  f.finish(modifiers, 2);
  const int element = element_of(type);
  if (element < 0 || (type.is_real() && operation > 2) || vector * type.bytes() > 16)
    f.unsupported("this type is not implemented here");
  auto& b = f.builder();
  const auto registers = parts(f.operand(what == 0 ? 0 : 1));
  if (registers.size() != vector) f.invalid(format("{} registers are expected", vector));
  Value* address = f.address(f.operand(what == 0 ? 1 : 0), ptx::Space::global);
  const unsigned bytes = vector * type.bytes();
  Value* buffer = f.temporary(llvm::ArrayType::get(b.getInt64Ty(), 2));
  const auto slot = [&](unsigned i) {
    return b.CreateConstGEP1_64(b.getInt8Ty(), buffer, std::uint64_t{i} * type.bytes());
  };
  if (what != 0)
    for (unsigned i = 0; i < vector; ++i) b.CreateStore(f.read(*registers[i], type, true), slot(i));
  Value* number = b.getInt32(static_cast<unsigned>(element));
  Value* count = b.getInt32(vector * type.lanes);
  if (what == 1) {
    f.call("kiln_multimem_store", b.getVoidTy(),
           {f.hidden(kBlock), address, b.getInt32(bytes), buffer});
  } else {
    f.call(what == 0 ? "kiln_multimem_load" : "kiln_multimem_reduce", b.getVoidTy(),
           {f.hidden(kBlock), address, b.getInt32(static_cast<unsigned>(operation)), number, count,
            buffer});
  }
  if (what != 0) return;
  for (unsigned i = 0; i < vector; ++i)
    f.write(*registers[i], b.CreateLoad(f.llvm_type(type), slot(i)), type, true);
}

}  // namespace

void add_multimem(Table& table) { table.insert({{"multimem", multimem}}); }

}  // namespace kiln::emulator::forms
