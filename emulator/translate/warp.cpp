#include "emulator/translate/forms.h"

// shfl, vote, match, redux, activemask, elect.

namespace kiln::emulator::forms {
namespace {

using llvm::Value;
using Kind = ptx::Type::Kind;

constexpr ptx::Type kU32{Kind::unsigned_integer, 32};
constexpr ptx::Type kB32{Kind::bits, 32};
constexpr ptx::Type kPred{Kind::pred, 1};

void need_sync(FunctionTranslator& f, Modifiers& modifiers) {
  if (!modifiers.take_if(".sync"))
    f.unsupported("this instruction needs '.sync' on every device of sm_70 and later");
}

Value* bit32(FunctionTranslator& f, Value* wide) {
  auto& b = f.builder();
  return b.CreateTrunc(b.CreateLShr(wide, 32), b.getInt1Ty());
}

// A target d|p, or d alone.
void write_pair(FunctionTranslator& f, Value* value, Value* predicate) {
  const ptx::Operand& target = f.operand(0);
  if (target.kind != ptx::Operand::Kind::pair) return f.write(0, value, kB32);
  f.write(target.elements[0], value, kB32);
  f.write(target.elements[1], predicate, kPred);
}

void shfl(FunctionTranslator& f, Modifiers modifiers) {
  need_sync(f, modifiers);
  const int mode = modifiers.take_one_of(".up", ".down", ".bfly", ".idx");
  const ptx::Type type = f.take_type(modifiers);
  f.finish(modifiers, 5);
  if (mode < 0 || !(type == kB32)) f.unsupported("this shuffle is not implemented");
  auto& b = f.builder();
  Value* result = f.call("kiln_shuffle", b.getInt64Ty(),
                         {f.hidden(kThread), b.getInt32(mode), f.read(1, kB32), f.read(2, kU32),
                          f.read(3, kU32), f.read(4, kU32), f.line_value()});
  write_pair(f, b.CreateTrunc(result, b.getInt32Ty()), bit32(f, result));
}

void vote(FunctionTranslator& f, Modifiers modifiers) {
  // Some texts have the mode in front of ".sync".
  const bool sync = modifiers.take_if(".sync");
  const int mode = modifiers.take_one_of(".all", ".any", ".uni", ".ballot");
  if (!sync) need_sync(f, modifiers);
  const ptx::Type type = f.take_type(modifiers);
  f.finish(modifiers, 3);
  if (mode < 0 || !(type == (mode == 3 ? kB32 : kPred)))
    f.unsupported("this vote is not implemented");
  auto& b = f.builder();
  Value* predicate = b.CreateZExt(f.read_predicate(f.operand(1)), b.getInt32Ty());
  Value* result =
      f.call("kiln_vote", b.getInt32Ty(),
             {f.hidden(kThread), b.getInt32(mode), predicate, f.read(2, kU32), f.line_value()});
  f.write(0, mode == 3 ? result : b.CreateIsNotNull(result), type);
}

void match(FunctionTranslator& f, Modifiers modifiers) {
  const int all = modifiers.take_one_of(".any", ".all");
  need_sync(f, modifiers);
  const ptx::Type type = f.take_type(modifiers);
  f.finish(modifiers, 3);
  if (all < 0 || type.kind != Kind::bits || (type.bits != 32 && type.bits != 64))
    f.unsupported("this match is not implemented");
  auto& b = f.builder();
  Value* result =
      f.call("kiln_match", b.getInt64Ty(),
             {f.hidden(kThread), b.getInt32(all), b.CreateZExt(f.read(1, type), b.getInt64Ty()),
              f.read(2, kU32), f.line_value()});
  Value* mask = b.CreateTrunc(result, b.getInt32Ty());
  if (all == 0) return f.write(0, mask, kB32);
  write_pair(f, mask, bit32(f, result));
}

void redux(FunctionTranslator& f, Modifiers modifiers) {
  need_sync(f, modifiers);
  const int operation = modifiers.take_one_of(".add", ".and", ".or", ".xor", ".min", ".max");
  const ptx::Type type = f.take_type(modifiers);
  f.finish(modifiers, 3);
  const bool bitwise = operation >= 1 && operation <= 3;
  if (operation < 0 || type.bits != 32 || !type.is_integer() ||
      bitwise != (type.kind == Kind::bits))
    f.unsupported("this reduction is not implemented");
  auto& b = f.builder();
  const int code = operation >= 4 && type.is_signed() ? operation + 2 : operation;
  f.write(0,
          f.call("kiln_redux", b.getInt32Ty(),
                 {f.hidden(kThread), b.getInt32(code), f.read(1, type), f.read(2, kU32),
                  f.line_value()}),
          type);
}

void activemask(FunctionTranslator& f, Modifiers modifiers) {
  const ptx::Type type = f.take_type(modifiers);
  f.finish(modifiers, 1);
  f.write(0,
          f.call("kiln_active_mask", f.builder().getInt32Ty(), {f.hidden(kThread), f.line_value()}),
          type);
}

void elect(FunctionTranslator& f, Modifiers modifiers) {
  need_sync(f, modifiers);
  f.finish(modifiers, 2);
  auto& b = f.builder();
  Value* result =
      f.call("kiln_elect", b.getInt64Ty(), {f.hidden(kThread), f.read(1, kU32), f.line_value()});
  const ptx::Operand& target = f.operand(0);
  if (target.kind != ptx::Operand::Kind::pair) f.invalid("a target d|p is expected");
  f.write(target.elements[0], b.CreateTrunc(result, b.getInt32Ty()), kB32);
  f.write(target.elements[1], bit32(f, result), kPred);
}

}  // namespace

void add_warp(Table& table) {
  table.insert({{"shfl", shfl},
                {"vote", vote},
                {"match", match},
                {"redux", redux},
                {"activemask", activemask},
                {"elect", elect}});
}

}  // namespace kiln::emulator::forms
