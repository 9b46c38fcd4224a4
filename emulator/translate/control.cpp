#include "emulator/execute/grid.h"
#include "emulator/translate/forms.h"
#include "kiln/support/format.h"

// Jumps, ends and traps; calls are in calls.cpp.

namespace kiln::emulator::forms {
namespace {

void bra(FunctionTranslator& f, Modifiers modifiers) {
  modifiers.take_if(".uni");
  f.finish(modifiers, 1);
  if (f.operand(0).kind != ptx::Operand::Kind::name) f.invalid("a label is expected");
  f.builder().CreateBr(f.label(f.operand(0).name));
}

void brx(FunctionTranslator& f, Modifiers modifiers) {
  if (!modifiers.take_if(".idx")) f.unsupported("'.idx' is expected");
  modifiers.take_if(".uni");
  f.finish(modifiers, 2);
  const ptx::BranchTargets* targets = f.find_targets(f.operand(1).name);
  if (targets == nullptr) f.invalid("the list of labels is not defined");
  auto& b = f.builder();
  llvm::Value* index = f.read(0, ptx::Type{ptx::Type::Kind::unsigned_integer, 32});
  llvm::BasicBlock* outside = f.new_block("outside");
  auto* choice = b.CreateSwitch(index, outside, static_cast<unsigned>(targets->labels.size()));
  for (std::uint32_t i = 0; i < targets->labels.size(); ++i)
    choice->addCase(b.getInt32(i), f.label(targets->labels[i]));
  f.start(outside);
  f.fault(static_cast<std::uint32_t>(FaultCode::invalid_program_counter),
          b.CreateZExt(index, b.getInt64Ty()));
  b.CreateUnreachable();
}

void ret(FunctionTranslator& f, Modifiers modifiers) {
  modifiers.take_if(".uni");
  f.finish(modifiers, 0);
  f.emit_return();
}

void exit(FunctionTranslator& f, Modifiers modifiers) {
  f.finish(modifiers, 0);
  if (f.is_entry()) return f.emit_return();
  // A thread that ends inside of what its kernel calls has a stack of its own, which it leaves.
  f.call("kiln_exit", f.builder().getVoidTy(), {f.hidden(kThread)});
  f.builder().CreateUnreachable();
}

void trap(FunctionTranslator& f, Modifiers modifiers) {
  f.finish(modifiers, 0);
  f.fault(static_cast<std::uint32_t>(FaultCode::launch_failed), f.builder().getInt64(0));
  f.builder().CreateUnreachable();
}

// Stops for a debugger; without one the kernel fails, as on hardware.
void brkpt(FunctionTranslator& f, Modifiers modifiers) { trap(f, modifiers); }

void call(FunctionTranslator& f, Modifiers modifiers) {
  modifiers.take_if(".uni");
  f.finish(modifiers, f.num_operands());
  f.emit_call();
}

void nanosleep(FunctionTranslator& f, Modifiers modifiers) {
  const ptx::Type type = f.take_type(modifiers);
  f.finish(modifiers, 1);
  f.read(0, type);
  spin(f);
}

void pmevent(FunctionTranslator& f, Modifiers modifiers) {
  modifiers.take_if(".mask");
  f.finish(modifiers, 1);
}

// Registers are no resource here.
void setmaxnreg(FunctionTranslator& f, Modifiers modifiers) {
  if (modifiers.take_one_of(".inc", ".dec") < 0 || !modifiers.take_if(".sync") ||
      !modifiers.take_if(".aligned") || !modifiers.take_if(".u32"))
    f.unsupported("'.inc.sync.aligned.u32' or '.dec.sync.aligned.u32' is expected");
  f.finish(modifiers, 1);
}

}  // namespace

void spin(FunctionTranslator& f) {
  if (!f.waits()) return;
  f.call("kiln_spin", f.builder().getVoidTy(), {f.hidden(kThread), f.line_value()});
}

void add_control(Table& table) {
  table.insert({{"bra", bra},
                {"brx", brx},
                {"ret", ret},
                {"exit", exit},
                {"trap", trap},
                {"brkpt", brkpt},
                {"call", call},
                {"nanosleep", nanosleep},
                {"pmevent", pmevent},
                {"setmaxnreg", setmaxnreg}});
}

}  // namespace kiln::emulator::forms
