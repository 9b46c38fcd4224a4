#include "emulator/translate/forms.h"

// bar and barrier. Barriers count threads; what is said of whole warps follows from that.

namespace kiln::emulator::forms {
namespace {

using llvm::Value;
using Kind = ptx::Type::Kind;

constexpr ptx::Type kU32{Kind::unsigned_integer, 32};
constexpr ptx::Type kPred{Kind::pred, 1};

Value* zero(FunctionTranslator& f) { return f.builder().getInt32(0); }

// Which barrier, and of how many threads: 0 means all.
Value* count_operand(FunctionTranslator& f, std::size_t index) {
  return f.num_operands() > index ? f.read(index, kU32) : zero(f);
}

void warp_barrier(FunctionTranslator& f, Modifiers modifiers) {
  if (!modifiers.take_if(".sync")) f.unsupported("'.sync' is expected");
  f.finish(modifiers, 1);
  f.call("kiln_warp_barrier", f.builder().getVoidTy(),
         {f.hidden(kThread), f.read(0, kU32), f.line_value()});
}

void reduce(FunctionTranslator& f, Modifiers& modifiers, bool aligned) {
  const int operation = modifiers.take_one_of(".popc", ".and", ".or");
  if (aligned) modifiers.take_if(".aligned");
  const ptx::Type type = f.take_type(modifiers);
  if (operation < 0 || !(type == (operation == 0 ? kU32 : kPred)))
    f.unsupported("this reduction is not implemented");
  if (f.num_operands() != 3 && f.num_operands() != 4) f.invalid("3 or 4 operands are expected");
  f.finish(modifiers, f.num_operands());
  auto& b = f.builder();
  const bool counted = f.num_operands() == 4;
  Value* predicate = b.CreateZExt(f.read_predicate(f.operand(counted ? 3 : 2)), b.getInt32Ty());
  Value* result = f.call("kiln_barrier_reduce", b.getInt32Ty(),
                         {f.hidden(kThread), f.read(1, kU32), counted ? f.read(2, kU32) : zero(f),
                          predicate, b.getInt32(operation), f.line_value()});
  if (operation == 0)
    f.write(0, result, kU32);
  else
    f.write(0, b.CreateIsNotNull(result), kPred);
}

void block_barrier(FunctionTranslator& f, Modifiers modifiers, bool aligned) {
  modifiers.take_if(".cta");
  if (aligned && modifiers.take_if(".warp")) return warp_barrier(f, modifiers);
  if (!aligned && modifiers.take_if(".cluster")) {
    const int arrive = modifiers.take_one_of(".arrive", ".wait");
    if (arrive < 0) f.unsupported("'.arrive' or '.wait' is expected");
    modifiers.take_one_of(".release", ".acquire", ".relaxed");
    modifiers.take_if(".aligned");
    f.finish(modifiers, 0);
    // The cluster is the block. Arrival and wait use the barrier behind the named ones.
    f.call(arrive == 0 ? "kiln_cluster_arrive" : "kiln_cluster_wait", f.builder().getVoidTy(),
           {f.hidden(kThread), f.line_value()});
    return;
  }
  const int what = modifiers.take_one_of(".sync", ".arrive", ".red");
  if (what < 0) f.unsupported("'.sync', '.arrive' or '.red' is expected");
  if (what == 2) return reduce(f, modifiers, true);
  modifiers.take_if(".aligned");
  if (f.num_operands() < 1 || f.num_operands() > 2) f.invalid("1 or 2 operands are expected");
  f.finish(modifiers, f.num_operands());
  Value *id = f.read(0, kU32), *count = count_operand(f, 1);
  if (what == 0) {
    f.call("kiln_barrier", f.builder().getVoidTy(), {f.hidden(kThread), id, count, f.line_value()});
  } else {
    if (f.num_operands() != 2) f.invalid("'.arrive' needs a count of threads");
    f.call("kiln_barrier_arrive", f.builder().getVoidTy(), {f.hidden(kThread), id, count});
  }
}

void bar(FunctionTranslator& f, Modifiers modifiers) { block_barrier(f, modifiers, true); }
void barrier(FunctionTranslator& f, Modifiers modifiers) { block_barrier(f, modifiers, false); }

}  // namespace

void add_barrier(Table& table) { table.insert({{"bar", bar}, {"barrier", barrier}}); }

}  // namespace kiln::emulator::forms
