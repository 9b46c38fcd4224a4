// The host function of a graph: works out extents and memory, then runs one kernel after another.
//
// Memory: everything a call needs besides its results is one block, cut into the slots of the
// memory plan; their sizes are computed here when they depend on symbols. Sizes are computed with
// overflow checks; extents of 0 make any product 0 whatever the others are.

#include "compiler/codegen/host.h"

#include <algorithm>
#include <cstddef>

#include "compiler/codegen/host_emitter.h"
#include "compiler/diagnostics.h"
#include "compiler/passes/passes.h"
#include "kiln/runtime/abi.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

namespace {

llvm::Constant* text_constant(llvm::Module& module, const std::string& text) {
  llvm::Constant* data = llvm::ConstantDataArray::getString(module.getContext(), text);
  auto* global = new llvm::GlobalVariable(module, data->getType(), /*isConstant=*/true,
                                          llvm::GlobalValue::PrivateLinkage, data, "text");
  global->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
  return global;
}

bool depends_on(const Tensor& tensor, const std::vector<std::string>& symbols) {
  for (const Dim& d : tensor.shape)
    for (const std::string& symbol : d.parameters())
      if (std::find(symbols.begin(), symbols.end(), symbol) != symbols.end()) return true;
  return false;
}

}  // namespace

void HostEmitter::emit() {
  load_symbols();
  allocate();
  std::size_t slots = 1;  // of a kernel, with one for its scratch
  for_each_step(steps_, [&](const Step& step) {
    if (step.kernel)
      slots = std::max(slots, signature_of(*step.kernel, program_).slots() + 1 + kSlotsOfNext);
  });
  slots_ = f_.stack_slot(f_.b.getInt64Ty(), static_cast<std::int64_t>(slots), 16);
  if (&steps_ == &program_.run)
    for (const Step& step : steps_)
      if (step.kernel && streams_weights(*step.kernel, program_))
        products_.push_back(step.kernel.get());
  emit_steps(steps_);
  f_.b.CreateRetVoid();
  f_.finish();
}

void HostEmitter::emit_steps(const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    if (step.check) working_on(*step.check->origin, [&] { check(*step.check); });
    if (step.kernel) working_on(step.kernel->ops, [&] { launch(*step.kernel); });
    if (step.define) define(*step.define);
    if (step.read) read(*step.read);
    if (step.wrap) wrap(*step.wrap);
    if (step.call) working_on(*step.call->origin, [&] { library_call(*step.call); });
    if (step.print) working_on(*step.print->origin, [&] { print(*step.print); });
    if (step.condition) working_on(*step.condition->origin, [&] { condition(*step.condition); });
    if (step.loop) working_on(*step.loop->origin, [&] { loop(*step.loop); });
  }
}

void HostEmitter::emit_region(const std::vector<Step>& steps, const std::function<void()>& finish) {
  Extents::Known known = extents_.known;
  auto pointers = pointers_;
  stored_.clear();
  emit_steps(steps);
  finish();
  stored_.clear();
  extents_.known = std::move(known);
  pointers_ = std::move(pointers);
}

llvm::Value* HostEmitter::predicate(int tensor) {
  llvm::Value* raw = f_.b.CreateAlignedLoad(f_.b.getInt8Ty(), pointer_of(tensor), llvm::Align(1));
  return f_.b.CreateICmpNE(raw, f_.b.getInt8(0));
}

void HostEmitter::condition(const Condition& condition) {
  // A result that has no slot is made before the branches, or in both when only they know its
  // size; what they know of it reaches the code behind them.
  std::vector<int> late;
  for (int id : condition.results) {
    if (depends_on(program_.tensors[static_cast<std::size_t>(id)], condition.symbols))
      late.push_back(id);
    else
      pointer_of(id);
  }
  const auto side = [&](const std::vector<Step>& steps) {
    Values values;
    tell_choice(steps, "nothing");
    emit_region(steps, [&] {
      for (const std::string& symbol : condition.symbols)
        values.push_back(dim(Dim::symbol(symbol)));
      for (int id : late) values.push_back(pointer_of(id));
    });
    return values;
  };
  const Values values = f_.branch(
      predicate(condition.predicate), [&] { return side(condition.then_steps); },
      [&] { return side(condition.else_steps); });
  std::size_t i = 0;
  for (const std::string& symbol : condition.symbols) extents_.define(symbol, values[i++]);
  for (int id : late) pointers_[static_cast<std::size_t>(id)] = values[i++];
}

void HostEmitter::loop(const Loop& loop) {
  llvm::LLVMContext& context = f_.b.getContext();
  auto* head = llvm::BasicBlock::Create(context, "while", f_.function);
  auto* body = llvm::BasicBlock::Create(context, "do", f_.function);
  auto* after = llvm::BasicBlock::Create(context, "done", f_.function);
  llvm::Value* mark = runtime_call(offsetof(KilnRuntime, mark), f_.b.getInt64Ty(), {call_});
  f_.b.CreateBr(head);
  f_.b.SetInsertPoint(head);
  Extents::Known known = extents_.known;
  auto pointers = pointers_;
  stored_.clear();
  emit_steps(loop.test);
  f_.b.CreateCondBr(predicate(loop.predicate), body, after);
  f_.b.SetInsertPoint(body);
  tell_choice(loop.body, "nothing");
  emit_region(loop.body);
  // What an iteration allocates, nothing reads after it: the loop's values lie in places of
  // theirs.
  runtime_call(offsetof(KilnRuntime, next_iteration), f_.b.getVoidTy(), {call_, mark});
  f_.b.CreateBr(head);
  f_.b.SetInsertPoint(after);
  tell_choice({}, "the end of a loop");
  extents_.known = std::move(known);
  pointers_ = std::move(pointers);
}

void HostEmitter::tell_choice(const std::vector<Step>& steps, std::string_view otherwise) {
  std::string name(otherwise);
  bool found = false;
  for_each_step(steps, [&](const Step& step) {
    if (found) return;
    if (step.kernel) name = step.kernel->name;
    if (step.call) name = user_name(*step.call->origin);
    if (step.print) name = "print";
    found = step.kernel || step.call || step.print;
  });
  llvm::Value* traced = field(offsetof(KilnCall, traced), f_.b.getInt64Ty());
  f_.when(
      f_.b.CreateICmpNE(traced, f_.i64(0)),
      [&] {
        runtime_call(offsetof(KilnRuntime, choose), f_.b.getVoidTy(),
                     {call_, text_constant(f_.module, name)});
      },
      true);
}

void HostEmitter::read(const ReadScalar& read) {
  DType dtype = program_.tensors[static_cast<std::size_t>(read.tensor)].dtype;
  llvm::Value* raw =
      f_.b.CreateAlignedLoad(f_.lower.memory_type(dtype, 1), pointer_of(read.tensor),
                             llvm::Align(static_cast<std::uint64_t>(dtype.size_in_bytes())));
  llvm::Value* value = dtype.is_signed_integral() ? f_.b.CreateSExtOrTrunc(raw, f_.b.getInt64Ty())
                                                  : f_.b.CreateZExtOrTrunc(raw, f_.b.getInt64Ty());
  extents_.define(read.symbol, value);
}

void HostEmitter::define(const Define& define) {
  llvm::Value* value = dim(define.value);
  if (define.is_size) value = f_.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, value, f_.i64(0));
  extents_.define(define.symbol, value);
}

void HostEmitter::wrap(const WrapIndex& wrap) {
  llvm::Value* given = dim(wrap.given);
  extents_.define(wrap.symbol, f_.b.CreateSelect(f_.b.CreateICmpSLT(given, f_.i64(0)),
                                                 f_.b.CreateAdd(given, dim(wrap.size)), given));
}

void HostEmitter::check(const Check& check) {
  llvm::Value* left = dim(check.left);
  llvm::Value* right = dim(check.right);
  llvm::Value* broken = nullptr;
  switch (check.relation) {
    case Check::Relation::equal:
      broken = f_.b.CreateICmpNE(left, right);
      break;
    case Check::Relation::different:
      broken = f_.b.CreateICmpEQ(left, right);
      break;
    case Check::Relation::at_least:
      broken = f_.b.CreateICmpSLT(left, right);
      break;
    case Check::Relation::at_most:
      broken = f_.b.CreateICmpSGT(left, right);
      break;
    case Check::Relation::divides:
      broken = f_.b.CreateICmpNE(f_.b.CreateSRem(right, left), f_.i64(0));
      break;
    case Check::Relation::fits:
      broken = extents_.overflows(check.left);
      break;
  }
  f_.when(
      broken,
      [&] {
        fail(check.sentence, check.values, check.origin,
             check.is_runtime_error ? KILN_RUNTIME_ERROR : KILN_VALUE_ERROR);
      },
      /*unlikely=*/true);
}

void HostEmitter::print(const Print& print) {
  llvm::Value* label = text_constant(f_.module, print.label);
  if (print.tensor < 0) {
    // A text is a tensor of bytes without extents: rank -1.
    runtime_call(
        offsetof(KilnRuntime, print_tensor), f_.b.getVoidTy(),
        {call_, label, f_.b.getInt32(DType::uint8), f_.b.getInt32(~0u),
         llvm::ConstantPointerNull::get(f_.b.getPtrTy()), text_constant(f_.module, print.text)});
    return;
  }
  const Tensor& tensor = program_.tensors[static_cast<std::size_t>(print.tensor)];
  runtime_call(offsetof(KilnRuntime, print_tensor), f_.b.getVoidTy(),
               {call_, label, f_.b.getInt32(static_cast<std::uint32_t>(tensor.dtype.code())),
                f_.b.getInt32(static_cast<std::uint32_t>(tensor.shape.size())), extents_of(tensor),
                pointer_of(print.tensor)});
}

void HostEmitter::library_call(const LibraryCall& call) {
  using Kind = LibraryCall::Argument::Kind;
  Values arguments = {call_};
  for (const LibraryCall::Argument& argument : call.arguments) {
    const auto value = [&]() -> llvm::Value* {
      switch (argument.kind) {
        case Kind::tensor:
          return pointer_of(argument.tensor);
        case Kind::extents:
          return extents_of(program_.tensors[static_cast<std::size_t>(argument.tensor)]);
        case Kind::size:
          return dim(argument.size);
        case Kind::number:
          return f_.b.getInt32(static_cast<std::uint32_t>(argument.number));
        case Kind::real:
          return llvm::ConstantFP::get(f_.b.getDoubleTy(), argument.real);
        case Kind::failure:
          return failure(program_.graph->name, argument.sentence, call.origin, KILN_VALUE_ERROR);
      }
      return nullptr;
    };
    arguments.push_back(value());
  }
  runtime_call(call.function, f_.b.getVoidTy(), arguments);
}

void HostEmitter::load_symbols() {
  if (program_.graph->parameters.empty() || &steps_ == &program_.init) return;
  llvm::Value* values = field(offsetof(KilnCall, symbols), f_.b.getPtrTy());
  for (std::size_t i = 0; i < program_.graph->parameters.size(); ++i)
    extents_.define(program_.graph->parameters[i],
                    item(f_.b.getInt64Ty(), values, static_cast<std::int64_t>(i)));
}

llvm::Constant* HostEmitter::failure(const std::string& entry, const std::string& sentence,
                                     const graph::ir::Op* origin, int error_class) {
  std::int32_t location = origin ? locations_.number(*origin, program_.graph->name) : -1;
  llvm::LLVMContext& context = f_.b.getContext();
  llvm::Type* pointer = f_.b.getPtrTy();
  auto* type =
      llvm::StructType::get(context, {pointer, pointer, f_.b.getInt32Ty(), f_.b.getInt32Ty()});
  llvm::Constant* value = llvm::ConstantStruct::get(
      type, {text_constant(f_.module, entry), text_constant(f_.module, sentence),
             f_.b.getInt32(static_cast<std::uint32_t>(location)),
             f_.b.getInt32(static_cast<std::uint32_t>(error_class))});
  return new llvm::GlobalVariable(f_.module, type, /*isConstant=*/true,
                                  llvm::GlobalValue::PrivateLinkage, value, "failure");
}

void HostEmitter::fail(const std::string& sentence, const std::vector<Dim>& values,
                       const graph::ir::Op* origin, int error_class) {
  llvm::Value* array = f_.stack_slot(
      f_.b.getInt64Ty(), std::max<std::int64_t>(1, static_cast<std::int64_t>(values.size())), 8);
  // What is computed on the way out must not be remembered for the way on.
  auto dims = extents_.known.dims;
  for (std::size_t i = 0; i < values.size(); ++i)
    f_.b.CreateStore(dim(values[i]),
                     f_.element(f_.b.getInt64Ty(), array, f_.i64(static_cast<std::int64_t>(i))));
  extents_.known.dims = std::move(dims);
  emit_fail(f_, call_, failure(program_.graph->name, sentence, origin, error_class), array,
            static_cast<std::int64_t>(values.size()));
}

std::int32_t LocationTable::number(const graph::ir::Op& op, const std::string& graph) {
  auto [it, fresh] = numbers_.try_emplace(&op, static_cast<std::int32_t>(locations_.size()));
  if (fresh) {
    runtime::ProgramLocation location;
    location.op = std::string(user_name(op));
    location.graph = graph;
    if (op.location && !op.location->empty()) {
      const graph::ir::SourceFrame& frame = op.location->front();
      location.text = format("{}:{}", frame.file, frame.line);
      if (!frame.text.empty()) {
        location.text = "Source Traceback:\n";
        for (const graph::ir::SourceFrame& each : *op.location)
          location.text += format("  {}:{}\n    {}\n", each.file, each.line, each.text);
      }
    }
    locations_.push_back(std::move(location));
  }
  return it->second;
}

void emit_entry(llvm::Module& module, const Isa& isa, const Program& program,
                const std::vector<Step>& steps, const MemoryPlan& plan,
                const KernelSymbols& symbols, LocationTable& locations, const std::string& symbol) {
  HostEmitter(module, isa, program, steps, plan, symbols, locations, symbol).emit();
}

}  // namespace kiln::compiler
