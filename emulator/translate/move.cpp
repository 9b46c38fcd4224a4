#include "emulator/execute/state.h"
#include "emulator/translate/arithmetic.h"
#include "kiln/support/format.h"

// mov, and what concerns addresses: cvta, isspacep, mapa, getctarank.

namespace kiln::emulator::forms {
namespace {

using llvm::Value;
using Kind = ptx::Type::Kind;

constexpr ptx::Type kU64{Kind::unsigned_integer, 64};
constexpr ptx::Type kU32{Kind::unsigned_integer, 32};
constexpr ptx::Type kPred{Kind::pred, 1};

// mov.b32 {lo, hi}, r and mov.b64 r, {a, b}: the parts have equal widths, the first is the lowest.
void split(FunctionTranslator& f, const std::vector<ptx::Operand>& parts, Value* whole,
           unsigned width) {
  auto& b = f.builder();
  const unsigned part = width / static_cast<unsigned>(parts.size());
  for (unsigned i = 0; i < parts.size(); ++i)
    f.write(parts[i], b.CreateTrunc(b.CreateLShr(whole, part * i), f.int_type(part)),
            {Kind::bits, static_cast<std::uint8_t>(part)});
}

Value* join(FunctionTranslator& f, const std::vector<ptx::Operand>& parts, unsigned width) {
  auto& b = f.builder();
  const unsigned part = width / static_cast<unsigned>(parts.size());
  Value* whole = llvm::ConstantInt::get(f.int_type(width), 0);
  for (unsigned i = 0; i < parts.size(); ++i) {
    Value* bits = f.to_bits(f.read(parts[i], {Kind::bits, static_cast<std::uint8_t>(part)}));
    whole = b.CreateOr(whole, b.CreateShl(b.CreateZExt(bits, f.int_type(width)), part * i));
  }
  return whole;
}

void mov(FunctionTranslator& f, Modifiers modifiers) {
  const ptx::Type type = f.take_type(modifiers);
  f.finish(modifiers, 2);
  const ptx::Operand &target = f.operand(0), &source = f.operand(1);
  const auto check = [&](const ptx::Operand& vector) {
    const std::size_t count = vector.elements.size();
    if (type.kind != Kind::bits || (count != 2 && count != 4) || type.bits / count < 8)
      f.invalid("a vector of 2 or 4 parts of a .b type is expected");
  };
  if (target.kind == ptx::Operand::Kind::vector) {
    check(target);
    Value* whole = nullptr;
    if (source.kind == ptx::Operand::Kind::vector) {
      check(source);
      whole = join(f, source.elements, type.bits);
    } else {
      whole = f.to_bits(f.read(1, type));
    }
    return split(f, target.elements, whole, type.bits);
  }
  if (source.kind == ptx::Operand::Kind::vector) {
    check(source);
    return f.write(0, f.from_bits(join(f, source.elements, type.bits), type), type);
  }
  if (type.kind != Kind::pred && (type.width() < 16 || type.width() > 128))
    f.unsupported("this type is not implemented here");
  f.write(0, f.read(1, type), type);
}

// Generic addresses are device addresses; only those of shared memory differ from what the space
// counts, by the window of the block.
void cvta(FunctionTranslator& f, Modifiers modifiers) {
  const bool to = modifiers.take_if(".to");
  const ptx::Space space = take_space(f, modifiers);
  const ptx::Type type = f.take_type(modifiers);
  f.finish(modifiers, 2);
  if (space == ptx::Space::none) f.invalid("a space is expected");
  if (!(type == kU64)) f.unsupported("addresses have 64 bits");
  auto& b = f.builder();
  Value* value = f.read(1, type);
  if (space == ptx::Space::shared) {
    Value* window = f.block_field(offsetof(BlockState, shared), b.getInt64Ty());
    value = to ? b.CreateSub(value, window) : b.CreateAdd(value, window);
  }
  f.write(0, value, type);
}

void isspacep(FunctionTranslator& f, Modifiers modifiers) {
  const ptx::Space space = take_space(f, modifiers);
  f.finish(modifiers, 2);
  auto& b = f.builder();
  Value* address = f.read(1, kU64);
  const auto within = [&](std::size_t first, std::size_t size, bool size_is_narrow) {
    Value* length = f.block_field(size, size_is_narrow ? b.getInt32Ty() : b.getInt64Ty());
    Value* offset = b.CreateSub(address, f.block_field(first, b.getInt64Ty()));
    return b.CreateICmpULT(offset, b.CreateZExt(length, b.getInt64Ty()));
  };
  Value* result = nullptr;
  switch (space) {
    case ptx::Space::shared:
      result = within(offsetof(BlockState, shared), offsetof(BlockState, shared_bytes), true);
      break;
    case ptx::Space::local:
      result = within(offsetof(BlockState, local), offsetof(BlockState, local_all), false);
      break;
    case ptx::Space::global:
      result = b.CreateNot(
          within(offsetof(BlockState, scratch_first), offsetof(BlockState, scratch_bytes), false));
      break;
    case ptx::Space::constant:  // it lies in global memory
      result = b.getFalse();
      break;
    case ptx::Space::param:
      f.unsupported("parameters have no addresses of their own");
    default:
      f.invalid("a space is expected");
  }
  f.write(0, result, kPred);
}

// A cluster has one block, so the only rank is 0 and every address is its own.
void mapa(FunctionTranslator& f, Modifiers modifiers) {
  const ptx::Space space = take_space(f, modifiers);
  const ptx::Type type = f.take_type(modifiers);
  f.finish(modifiers, 3);
  if (space != ptx::Space::none && space != ptx::Space::shared) f.invalid("'.shared' is expected");
  f.read(2, kU32);
  f.write(0, f.read(1, type), type);
}

void getctarank(FunctionTranslator& f, Modifiers modifiers) {
  take_space(f, modifiers);
  const ptx::Type type = f.take_type(modifiers);
  f.finish(modifiers, 2);
  f.read(1, type);
  f.write(0, f.builder().getInt32(0), kU32);
}

}  // namespace

void add_move(Table& table) {
  table.insert({{"mov", mov},
                {"cvta", cvta},
                {"isspacep", isspacep},
                {"mapa", mapa},
                {"getctarank", getctarank}});
}

}  // namespace kiln::emulator::forms
