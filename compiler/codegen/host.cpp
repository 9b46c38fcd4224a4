// The host function of a graph: works out extents and memory, then runs one kernel after another.
//
// Memory: everything a call needs besides its results is one block, cut into the slots of the
// memory plan; their sizes are computed here when they depend on symbols. Sizes are computed with
// overflow checks; extents of 0 make any product 0 whatever the others are.

#include "compiler/codegen/host.h"

#include <algorithm>
#include <cstddef>

#include "compiler/codegen/cpu/attention.h"
#include "compiler/codegen/cpu/matmul.h"
#include "compiler/codegen/extents.h"
#include "compiler/diagnostics.h"
#include "compiler/kernels/op_traits.h"
#include "compiler/passes/passes.h"
#include "kiln/runtime/abi.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/sanitizer.h"

namespace kiln::compiler {

namespace {

// A kernel is worth another thread when it has at least this many vector instructions to run there.
constexpr double kGrainCost = 16384;
// Bytes that a process can address.
constexpr std::int64_t kAddressSpace = std::int64_t{1} << 47;

llvm::Constant* text_constant(llvm::Module& module, const std::string& text) {
  llvm::Constant* data = llvm::ConstantDataArray::getString(module.getContext(), text);
  auto* global = new llvm::GlobalVariable(module, data->getType(), /*isConstant=*/true,
                                          llvm::GlobalValue::PrivateLinkage, data, "text");
  global->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
  return global;
}

class HostEmitter {
 public:
  HostEmitter(llvm::Module& module, const Isa& isa, const Program& program,
              const std::vector<Step>& steps, const MemoryPlan& plan, const KernelSymbols& symbols,
              LocationTable& locations, const std::string& symbol)
      : f_(module, isa, symbol, llvm::Type::getVoidTy(module.getContext()),
           {llvm::PointerType::get(module.getContext(), 0)}, FunctionBuilder::Linkage::entry),
        program_(program),
        steps_(steps),
        plan_(plan),
        symbols_(symbols),
        locations_(locations),
        call_(f_.argument(0)) {}

  void emit() {
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

 private:
  void emit_steps(const std::vector<Step>& steps) {
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

  /// Steps of a region: what is computed inside does not reach the code behind it. `finish` sees
  /// it.
  void emit_region(const std::vector<Step>& steps, const std::function<void()>& finish = [] {}) {
    Extents::Known known = extents_.known;
    auto pointers = pointers_;
    emit_steps(steps);
    finish();
    extents_.known = std::move(known);
    pointers_ = std::move(pointers);
  }

  llvm::Value* predicate(int tensor) {
    llvm::Value* raw = f_.b.CreateAlignedLoad(f_.b.getInt8Ty(), pointer_of(tensor), llvm::Align(1));
    return f_.b.CreateICmpNE(raw, f_.b.getInt8(0));
  }

  void condition(const Condition& condition) {
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

  static bool depends_on(const Tensor& tensor, const std::vector<std::string>& symbols) {
    for (const Dim& d : tensor.shape)
      for (const std::string& symbol : d.parameters())
        if (std::find(symbols.begin(), symbols.end(), symbol) != symbols.end()) return true;
    return false;
  }

  void loop(const Loop& loop) {
    llvm::LLVMContext& context = f_.b.getContext();
    auto* head = llvm::BasicBlock::Create(context, "while", f_.function);
    auto* body = llvm::BasicBlock::Create(context, "do", f_.function);
    auto* after = llvm::BasicBlock::Create(context, "done", f_.function);
    llvm::Value* mark = runtime_call(offsetof(KilnRuntime, mark), f_.b.getInt64Ty(), {call_});
    f_.b.CreateBr(head);
    f_.b.SetInsertPoint(head);
    Extents::Known known = extents_.known;
    auto pointers = pointers_;
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

  /// A call that is traced is told that `steps` run next; `otherwise` names them when no kernel is
  /// among them.
  void tell_choice(const std::vector<Step>& steps, std::string_view otherwise) {
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

  void read(const ReadScalar& read) {
    DType dtype = program_.tensors[static_cast<std::size_t>(read.tensor)].dtype;
    llvm::Value* raw =
        f_.b.CreateAlignedLoad(f_.lower.memory_type(dtype, 1), pointer_of(read.tensor),
                               llvm::Align(static_cast<std::uint64_t>(dtype.size_in_bytes())));
    llvm::Value* value = dtype.is_signed_integral()
                             ? f_.b.CreateSExtOrTrunc(raw, f_.b.getInt64Ty())
                             : f_.b.CreateZExtOrTrunc(raw, f_.b.getInt64Ty());
    extents_.define(read.symbol, value);
  }

  void define(const Define& define) {
    llvm::Value* value = dim(define.value);
    if (define.is_size) value = f_.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, value, f_.i64(0));
    extents_.define(define.symbol, value);
  }

  void wrap(const WrapIndex& wrap) {
    llvm::Value* given = dim(wrap.given);
    extents_.define(wrap.symbol, f_.b.CreateSelect(f_.b.CreateICmpSLT(given, f_.i64(0)),
                                                   f_.b.CreateAdd(given, dim(wrap.size)), given));
  }

  void print(const Print& print) {
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
                  f_.b.getInt32(static_cast<std::uint32_t>(tensor.shape.size())),
                  extents_of(tensor), pointer_of(print.tensor)});
  }

  void library_call(const LibraryCall& call) {
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

  llvm::Value* extents_of(const Tensor& tensor) {
    auto rank = static_cast<std::int64_t>(tensor.shape.size());
    llvm::Value* extents = f_.stack_slot(f_.b.getInt64Ty(), std::max<std::int64_t>(1, rank), 8);
    for (std::int64_t i = 0; i < rank; ++i)
      f_.b.CreateStore(dim(tensor.shape[static_cast<std::size_t>(i)]),
                       f_.element(f_.b.getInt64Ty(), extents, f_.i64(i)));
    return extents;
  }

  llvm::Value* field(std::size_t offset, llvm::Type* type) {
    llvm::Value* pointer =
        f_.element(f_.b.getInt8Ty(), call_, f_.i64(static_cast<std::int64_t>(offset)));
    return f_.b.CreateAlignedLoad(type, pointer, llvm::Align(8));
  }

  llvm::Value* item(llvm::Type* type, llvm::Value* array, std::int64_t index) {
    return f_.b.CreateAlignedLoad(type, f_.element(type, array, f_.i64(index)), llvm::Align(8));
  }

  // --- Extents. ---

  void load_symbols() {
    if (program_.graph->parameters.empty() || &steps_ == &program_.init) return;
    llvm::Value* values = field(offsetof(KilnCall, symbols), f_.b.getPtrTy());
    for (std::size_t i = 0; i < program_.graph->parameters.size(); ++i)
      extents_.define(program_.graph->parameters[i],
                      item(f_.b.getInt64Ty(), values, static_cast<std::int64_t>(i)));
  }

  llvm::Value* dim(const Dim& d) { return extents_.value_of(d); }

  /// Bytes of a tensor; more than an address space has ends the call. What is
  /// laid out before the sizes are checked (`early`) takes a negative size for none.
  llvm::Value* bytes_of(const Tensor& tensor, bool early = false) {
    return working_on(std::span(&tensor.origin, 1), [&] { return sized(tensor, early); });
  }

  llvm::Value* sized(const Tensor& tensor, bool early) {
    Dim elements = tensor.num_elements();
    int size = tensor.dtype.size_in_bytes();
    const std::string op = tensor.origin ? std::string(user_name(*tensor.origin)) + ": " : "";
    if (elements.is_static()) {
      if (elements.value() > kAddressSpace / size)
        throw ValueError(format("{}a value of shape {} does not fit the address space", op,
                                graph::Shape(tensor.shape).to_string()));
      return f_.i64(elements.value() * size);
    }
    std::vector<Dim> factors = tensor.shape;
    llvm::Value* product = f_.i64(size);
    llvm::Value* overflow = f_.b.getFalse();
    llvm::Value* empty = f_.b.getFalse();
    auto times = [&](llvm::Value* factor) {
      llvm::Value* pair =
          f_.b.CreateBinaryIntrinsic(llvm::Intrinsic::smul_with_overflow, product, factor);
      product = f_.b.CreateExtractValue(pair, 0);
      overflow = f_.b.CreateOr(overflow, f_.b.CreateExtractValue(pair, 1));
      empty = f_.b.CreateOr(empty, early ? f_.b.CreateICmpSLE(factor, f_.i64(0))
                                         : f_.b.CreateICmpEQ(factor, f_.i64(0)));
    };
    if (tensor.elements)
      times(dim(*tensor.elements));
    else
      for (const Dim& factor : factors) times(dim(factor));
    llvm::Value* too_large =
        f_.b.CreateOr(overflow, f_.b.CreateICmpUGT(product, f_.i64(kAddressSpace)));
    too_large = f_.b.CreateAnd(too_large, f_.b.CreateNot(empty));
    product = f_.b.CreateSelect(empty, f_.i64(0), product);
    f_.when(
        too_large,
        [&] {
          std::string shape;
          std::vector<Dim> values;
          for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
            shape += format("{}{{{}}}", i ? ", " : "", i);
            values.push_back(tensor.shape[i]);
          }
          fail(format("{}a value of shape [{}] does not fit the address space", op, shape), values,
               tensor.origin, KILN_VALUE_ERROR);
        },
        /*unlikely=*/true);
    return product;
  }

  llvm::Value* rounded_up(llvm::Value* bytes) {
    return f_.b.CreateAnd(f_.b.CreateAdd(bytes, f_.i64(63)), f_.i64(-64));
  }

  // --- Failures. ---

  llvm::Constant* failure(const std::string& entry, const std::string& sentence,
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

  void fail(const std::string& sentence, const std::vector<Dim>& values,
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

  void check(const Check& check) {
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

  // --- Memory. ---

  llvm::Value* runtime_call(std::size_t field_offset, llvm::Type* result,
                            const std::vector<llvm::Value*>& arguments) {
    std::vector<llvm::Type*> types;
    for (llvm::Value* argument : arguments) types.push_back(argument->getType());
    return f_.b.CreateCall(llvm::FunctionType::get(result, types, false),
                           runtime_function(f_, call_, field_offset), arguments);
  }

  void allocate() {
    pointers_.assign(program_.tensors.size(), nullptr);
    llvm::Type* pointer = f_.b.getPtrTy();
    if (&steps_ == &program_.run) {
      // Extents and sizes that the slots need are worked out before anything is allocated.
      std::vector<llvm::Value*> offsets;
      llvm::Value* total = f_.i64(0);
      for (const MemoryPlan::Slot& slot : plan_.slots) {
        llvm::Value* size = nullptr;
        std::vector<std::string> seen;
        for (int id : slot.tensors) {
          const Tensor& tensor = program_.tensors[static_cast<std::size_t>(id)];
          std::string key =
              format("{}*{}", tensor.num_elements().to_string(), tensor.dtype.size_in_bytes());
          if (std::find(seen.begin(), seen.end(), key) != seen.end()) continue;
          seen.push_back(key);
          llvm::Value* bytes = bytes_of(tensor, /*early=*/true);
          size = size ? f_.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, size, bytes) : bytes;
        }
        offsets.push_back(total);
        total = end_of_slot(total, size ? size : f_.i64(0));
      }
      scratch_offset_ = total;
      total = f_.b.CreateAdd(total, scratch_bytes());
      bool needed = !plan_.slots.empty() || has_scratch_;
      if (needed)
        workspace_ = runtime_call(offsetof(KilnRuntime, allocate), pointer, {call_, total});
      guard_slots();
      for (std::size_t id = 0; id < program_.tensors.size(); ++id)
        if (plan_.slot_of[id] >= 0)
          pointers_[id] = f_.element(f_.b.getInt8Ty(), workspace_,
                                     offsets[static_cast<std::size_t>(plan_.slot_of[id])]);
    } else {
      scratch_offset_ = f_.i64(0);
      llvm::Value* bytes = scratch_bytes();
      if (has_scratch_)
        workspace_ = runtime_call(offsetof(KilnRuntime, allocate), pointer, {call_, bytes});
    }
  }

  /// Where the next slot begins after one of `bytes` at `offset`. AddressSanitizer guards what lies
  /// between them, at least 64 bytes.
  llvm::Value* end_of_slot(llvm::Value* offset, llvm::Value* bytes) {
    llvm::Value* end = f_.b.CreateAdd(offset, rounded_up(bytes));
    if constexpr (!kAddressSanitizer) return end;
    llvm::Value* next = f_.b.CreateAdd(end, f_.i64(64));
    guards_.emplace_back(f_.b.CreateAdd(offset, bytes), next);
    return next;
  }

  /// The runtime unpoisons the workspace when it hands it out.
  void guard_slots() {
    for (const auto& [begin, end] : guards_) {
      auto* type =
          llvm::FunctionType::get(f_.b.getVoidTy(), {f_.b.getPtrTy(), f_.b.getInt64Ty()}, false);
      f_.b.CreateCall(
          f_.module.getOrInsertFunction("__asan_poison_memory_region", type),
          {f_.element(f_.b.getInt8Ty(), workspace_, begin), f_.b.CreateSub(end, begin)});
    }
  }

  void refuse_above_address_space(llvm::Value* bytes, const Kernel& kernel) {
    if (kernel.ops.empty() || llvm::isa<llvm::ConstantInt>(bytes)) return;
    f_.when(
        f_.b.CreateICmpUGT(bytes, f_.i64(kAddressSpace)),
        [&] {
          const graph::ir::Op* op = kernel.ops.back();
          fail(format("{}: its working memory does not fit the address space", user_name(*op)), {},
               op, KILN_VALUE_ERROR);
        },
        /*unlikely=*/true);
  }

  llvm::Value* scratch_bytes() {
    llvm::Value* most = nullptr;
    for_each_step(steps_, [&](const Step& step) {
      if (!step.kernel) return;
      KernelLaunch launch = launch_of(*step.kernel, program_, f_.isa);
      if (!launch.has_scratch) return;
      has_scratch_ = true;
      if (!has_known_size(launch)) return;  // allocated at the launch
      llvm::Value* bytes = bytes_of_scratch(*step.kernel, launch);
      refuse_above_address_space(bytes, *step.kernel);
      most = most ? f_.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, most, bytes) : bytes;
    });
    if (!most) return f_.i64(0);
    return f_.b.CreateMul(most, field(offsetof(KilnCall, num_threads), f_.b.getInt64Ty()));
  }

  llvm::Value* pointer_of(int id) {
    llvm::Value*& known = pointers_[static_cast<std::size_t>(id)];
    if (known) return known;
    const Tensor& tensor = program_.tensors[static_cast<std::size_t>(id)];
    llvm::Type* pointer = f_.b.getPtrTy();
    switch (tensor.storage) {
      case Tensor::Storage::input:
        known = item(pointer, field(offsetof(KilnCall, inputs), pointer), tensor.number);
        break;
      case Tensor::Storage::weight:
        known = item(pointer, field(offsetof(KilnCall, weights), pointer), tensor.number);
        break;
      case Tensor::Storage::constant:
        known = f_.element(f_.b.getInt8Ty(), field(offsetof(KilnCall, constants), pointer),
                           f_.i64(tensor.number));
        break;
      case Tensor::Storage::prepared:
        if (&steps_ == &program_.init)
          known = runtime_call(offsetof(KilnRuntime, allocate_prepared), pointer,
                               {call_, f_.i64(tensor.number), bytes_of(tensor)});
        else
          known = item(pointer, field(offsetof(KilnCall, prepared), pointer), tensor.number);
        break;
      case Tensor::Storage::output: {
        bytes_of(tensor);
        known = runtime_call(offsetof(KilnRuntime, allocate_output), pointer,
                             {call_, f_.i64(tensor.number), extents_of(tensor)});
        break;
      }
      case Tensor::Storage::temporary:
        // Its size was not known when the others were laid out.
        known = runtime_call(offsetof(KilnRuntime, allocate), pointer, {call_, bytes_of(tensor)});
        break;
    }
    return known;
  }

  // --- Kernels. ---

  void store_slot(std::size_t slot, llvm::Value* value) {
    f_.b.CreateAlignedStore(
        value, f_.element(f_.b.getInt64Ty(), slots_, f_.i64(static_cast<std::int64_t>(slot))),
        llvm::Align(8));
  }

  /// Whether the scratch of a kernel depends on nothing but the symbols of the inputs.
  bool has_known_size(const KernelLaunch& launch) const {
    std::vector<Dim> dims = {launch.scratch_bytes};
    if (launch.attention)
      dims = {launch.attention->rows, launch.attention->keys, launch.attention->depth,
              launch.attention->width};
    const auto& parameters = program_.graph->parameters;
    for (const Dim& d : dims)
      for (const std::string& symbol : d.parameters())
        if (std::find(parameters.begin(), parameters.end(), symbol) == parameters.end())
          return false;
    return true;
  }

  llvm::Value* bytes_of_scratch(const Kernel& kernel, const KernelLaunch& launch) {
    if (launch.attention)
      return attention_scratch_bytes(f_, kernel.product_dtype, attention_sizes(launch));
    return dim(launch.scratch_bytes);
  }

  AttentionOperands attention_sizes(const KernelLaunch& launch) {
    AttentionOperands operands{};
    operands.rows = dim(launch.attention->rows);
    operands.keys = dim(launch.attention->keys);
    operands.depth = dim(launch.attention->depth);
    operands.width = dim(launch.attention->width);
    return operands;
  }

  llvm::Value* scratch_of(const Kernel& kernel, const KernelLaunch& launch) {
    if (has_known_size(launch)) return f_.element(f_.b.getInt8Ty(), workspace_, scratch_offset_);
    llvm::Value* bytes = f_.b.CreateMul(bytes_of_scratch(kernel, launch),
                                        field(offsetof(KilnCall, num_threads), f_.b.getInt64Ty()));
    return runtime_call(offsetof(KilnRuntime, allocate), f_.b.getPtrTy(), {call_, bytes});
  }

  /// Whether all that a kernel stores to has no elements; null when it surely has some. Kernels
  /// loop over axes of other sizes too, which may be long.
  llvm::Value* stores_nothing(const Kernel& kernel) {
    if (kernel.kind == Kernel::Kind::pack) return nullptr;  // its tensor has a shape of its own
    llvm::Value* nothing = nullptr;
    for (const Store& store : kernel.stores) {
      const Tensor& to = program_.tensors[static_cast<std::size_t>(store.tensor)];
      if (may_fail(store)) return nullptr;
      llvm::Value* empty = nullptr;
      for (const Dim& extent : to.shape) {
        if (extent.is_static() && extent.value() != 0) continue;
        llvm::Value* is_zero = f_.b.CreateICmpEQ(dim(extent), f_.i64(0));
        empty = empty ? f_.b.CreateOr(empty, is_zero) : is_zero;
      }
      if (!empty) return nullptr;
      nothing = nothing ? f_.b.CreateAnd(nothing, empty) : empty;
    }
    return nothing;
  }

  void launch(const Kernel& kernel) {
    KernelSignature signature = signature_of(kernel, program_);
    KernelLaunch launch = launch_of(kernel, program_, f_.isa);
    std::size_t slot = 0;
    store_slot(slot++, call_);
    for (int id : signature.tensors) store_slot(slot++, pointer_of(id));
    for (const Dim& d : signature.dims) store_slot(slot++, dim(d));
    for (const graph::ir::Op* origin : signature.origins)
      store_slot(slot++, failure(kernel.name, sentence_of(*origin), origin, KILN_VALUE_ERROR));
    if (launch.has_scratch) store_slot(slot++, scratch_of(kernel, launch));
    if (streams_weights(kernel, program_))
      for (llvm::Value* fact : next_product(kernel)) store_slot(slot++, fact);

    llvm::Value* count = f_.i64(1);
    for (const Dim& units : launch.units) count = f_.b.CreateMul(count, dim(units));
    if (launch.product)
      count = f_.b.CreateMul(count,
                             matmul_unit_count(f_, kernel.product_dtype, dim(launch.product->first),
                                               dim(launch.product->second)));
    if (launch.attention)
      count = f_.b.CreateMul(
          count, attention_unit_count(f_, kernel.product_dtype, attention_sizes(launch)));
    // Before the branch, since it is remembered where it is first worked out.
    llvm::Value* grain = launch.sequential ? nullptr : grain_of(launch);
    if (llvm::Value* nothing = stores_nothing(kernel))
      f_.when(f_.b.CreateNot(nothing), [&] { start(kernel, launch, count, grain); });
    else
      start(kernel, launch, count, grain);
  }

  /// Calls a kernel whose arguments are stored, for iterations [0, count).
  void start(const Kernel& kernel, const KernelLaunch& launch, llvm::Value* count,
             llvm::Value* grain) {
    llvm::FunctionType* type = llvm::FunctionType::get(
        f_.b.getVoidTy(),
        {f_.b.getPtrTy(), f_.b.getInt64Ty(), f_.b.getInt64Ty(), f_.b.getInt64Ty()}, false);
    llvm::FunctionCallee callee = f_.module.getOrInsertFunction(symbols_.at(&kernel), type);
    llvm::cast<llvm::Function>(callee.getCallee())
        ->setVisibility(llvm::GlobalValue::HiddenVisibility);
    auto inline_call = [&] {
      f_.b.CreateCall(callee, {slots_, f_.i64(0), count, f_.i64(0)});
      return Values{};
    };

    if (launch.sequential) {
      inline_call();
      return;
    }
    if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(count)) {
      if (known->isZero()) return;
      auto* known_grain = llvm::dyn_cast<llvm::ConstantInt>(grain);
      if (known->isOne() ||
          (known_grain && known->getSExtValue() / 2 < known_grain->getSExtValue())) {
        inline_call();
        return;
      }
    }
    llvm::Value* threads = field(offsetof(KilnCall, num_threads), f_.b.getInt64Ty());
    llvm::Value* alone = f_.b.CreateOr(f_.b.CreateICmpSLT(f_.b.CreateSDiv(count, f_.i64(2)), grain),
                                       f_.b.CreateICmpEQ(threads, f_.i64(1)));
    f_.branch(alone, inline_call, [&] {
      // Equal pieces, as many for each thread: with few of them the last would else be short.
      llvm::Value* pieces = f_.b.CreateUDiv(count, grain);
      llvm::Value* even =
          f_.b.CreateSelect(f_.b.CreateICmpUGE(pieces, threads),
                            f_.b.CreateSub(pieces, f_.b.CreateURem(pieces, threads)), pieces);
      llvm::Value* piece = f_.divide_up(count, even);
      if (launch.grain > 1)
        piece = f_.b.CreateMul(f_.divide_up(piece, f_.i64(launch.grain)), f_.i64(launch.grain));
      runtime_call(offsetof(KilnRuntime, parallel_for), f_.b.getVoidTy(),
                   {call_, callee.getCallee(), slots_, count, piece});
      return Values{};
    });
  }

  /// What the product behind `kernel` reads of its weights: their memory, the panels, and the bytes
  /// of each. Behind the last one comes the first, in the next call.
  Values next_product(const Kernel& kernel) {
    const auto it = std::find(products_.begin(), products_.end(), &kernel);
    // Products inside of branches and loops, and sizes that are known later, are left to
    // themselves.
    if (it == products_.end()) return {pointer_of(kernel.operands[1].tensor), f_.i64(0), f_.i64(0)};
    const Kernel& next = it + 1 == products_.end() ? *products_.front() : **(it + 1);
    const Dim columns = next.arena->extent(next.axes.back());
    const Dim depth = product_depth(next);
    const bool known = columns.is_static() && depth.is_static();
    const int width = panel_columns(f_.isa, next.product_dtype);
    return {pointer_of(next.operands[1].tensor),
            f_.i64(known ? (columns.value() + width - 1) / width : 0),
            f_.i64(known ? depth.value() * width * next.product_dtype.size_in_bytes() : 0)};
  }

  /// Iterations that are worth handing to another thread, a multiple of the launch's own grain.
  llvm::Value* grain_of(const KernelLaunch& launch) {
    auto rounded = [&](double iterations) {
      auto whole = static_cast<std::int64_t>(std::max(iterations, 1.0));
      return (whole + launch.grain - 1) / launch.grain * launch.grain;
    };
    if (launch.unit_length.is_static()) {
      double length = std::max<double>(1, static_cast<double>(launch.unit_length.value()));
      return f_.i64(rounded(kGrainCost / (launch.unit_cost * length)));
    }
    llvm::Value* length =
        f_.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, dim(launch.unit_length), f_.i64(1));
    llvm::Value* budget =
        f_.i64(static_cast<std::int64_t>(std::max(1.0, kGrainCost / launch.unit_cost)));
    llvm::Value* grain = f_.b.CreateAdd(f_.b.CreateUDiv(budget, length), f_.i64(1));
    return launch.grain == 1 ? grain : f_.b.CreateMul(grain, f_.i64(launch.grain));
  }

  static std::string sentence_of(const graph::ir::Op& op) {
    const std::size_t indices = is_scatter(op.kind) ? 2 : 1;
    const bool is_signed = op.operand(indices)->type.tensor().dtype.is_signed_integral();
    return format("{}: index {} is out of bounds for axis {{1}} with size {{2}}", user_name(op),
                  is_signed ? "{0}" : "{0u}");
  }

  FunctionBuilder f_;
  Extents extents_{f_};
  const Program& program_;
  const std::vector<Step>& steps_;
  const MemoryPlan& plan_;
  const KernelSymbols& symbols_;
  LocationTable& locations_;
  llvm::Value* call_;
  llvm::Value* slots_ = nullptr;
  llvm::Value* workspace_ = nullptr;
  llvm::Value* scratch_offset_ = nullptr;
  bool has_scratch_ = false;
  std::vector<std::pair<llvm::Value*, llvm::Value*>> guards_;  // offsets of what nobody may touch
  std::vector<llvm::Value*> pointers_;
  std::vector<const Kernel*> products_;  // of a call that stream weights, outside of branches
};

}  // namespace

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
