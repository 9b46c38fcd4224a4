// The launch of a kernel: its arguments, how many iterations it has, and how many of them a thread
// takes.

#include <algorithm>
#include <cstddef>
#include <utility>

#include "compiler/codegen/cpu/matmul.h"
#include "compiler/codegen/host_emitter.h"
#include "compiler/kernels/op_traits.h"
#include "compiler/passes/passes.h"
#include "kiln/runtime/abi.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

namespace {

// A kernel is worth another thread when it has at least this many vector instructions to run there.
constexpr double kGrainCost = 16384;

std::string sentence_of(const graph::ir::Op& op) {
  const std::size_t indices = is_scatter(op.kind) ? 2 : 1;
  const bool is_signed = op.operand(indices)->type.tensor().dtype.is_signed_integral();
  return format("{}: index {} is out of bounds for axis {{1}} with size {{2}}", user_name(op),
                is_signed ? "{0}" : "{0u}");
}

llvm::FunctionType* kernel_type(llvm::IRBuilder<>& b) {
  return llvm::FunctionType::get(
      b.getVoidTy(), {b.getPtrTy(), b.getInt64Ty(), b.getInt64Ty(), b.getInt64Ty()}, false);
}

/// void start(call, kernel, slots, count, grain, multiple): runs a kernel for iterations
/// [0, count), here or on several threads, each of which takes at least `grain` and a multiple of
/// `multiple`. One function of the module, since the code of a launch is most of a host function.
llvm::Function* starter(llvm::Module& module, const Isa& isa) {
  constexpr const char* kName = "start";
  if (llvm::Function* known = module.getFunction(kName)) return known;
  llvm::LLVMContext& context = module.getContext();
  llvm::Type* pointer = llvm::PointerType::get(context, 0);
  llvm::Type* i64 = llvm::Type::getInt64Ty(context);
  FunctionBuilder f(module, isa, kName, llvm::Type::getVoidTy(context),
                    {pointer, pointer, pointer, i64, i64, i64}, FunctionBuilder::Linkage::helper);
  llvm::Value* call = f.argument(0);
  llvm::Value* kernel = f.argument(1);
  llvm::Value* slots = f.argument(2);
  llvm::Value* count = f.argument(3);
  llvm::Value* grain = f.argument(4);
  llvm::Value* multiple = f.argument(5);
  f.when(f.b.CreateICmpSGT(count, f.i64(0)), [&] {
    llvm::Value* threads = f.b.CreateAlignedLoad(
        i64, f.element(f.b.getInt8Ty(), call, f.i64(offsetof(KilnCall, num_threads))),
        llvm::Align(8));
    llvm::Value* alone = f.b.CreateOr(f.b.CreateICmpSLT(f.b.CreateLShr(count, f.i64(1)), grain),
                                      f.b.CreateICmpEQ(threads, f.i64(1)));
    f.branch(
        alone,
        [&] {
          f.b.CreateCall(kernel_type(f.b), kernel, {slots, f.i64(0), count, f.i64(0)});
          return Values{};
        },
        [&] {
          // Equal pieces, as many for each thread: with few of them the last would else be short.
          llvm::Value* pieces = f.b.CreateUDiv(count, grain);
          llvm::Value* even =
              f.b.CreateSelect(f.b.CreateICmpUGE(pieces, threads),
                               f.b.CreateSub(pieces, f.b.CreateURem(pieces, threads)), pieces);
          llvm::Value* piece = f.divide_up(count, even);
          piece = f.b.CreateMul(f.divide_up(piece, multiple), multiple);
          auto* type = llvm::FunctionType::get(f.b.getVoidTy(),
                                               {pointer, pointer, pointer, i64, i64}, false);
          f.b.CreateCall(type, runtime_function(f, call, offsetof(KilnRuntime, parallel_for)),
                         {call, kernel, slots, count, piece});
          return Values{};
        });
  });
  f.b.CreateRetVoid();
  f.finish();
  return f.function;
}

}  // namespace

void HostEmitter::store_slot(std::size_t slot, llvm::Value* value) {
  if (slot >= stored_.size()) stored_.resize(slot + 1);
  if (std::exchange(stored_[slot], value) == value) return;
  f_.b.CreateAlignedStore(
      value, f_.element(f_.b.getInt64Ty(), slots_, f_.i64(static_cast<std::int64_t>(slot))),
      llvm::Align(8));
}

llvm::Value* HostEmitter::scratch_of(const Kernel& kernel, const KernelLaunch& launch) {
  if (has_known_size(launch)) return f_.element(f_.b.getInt8Ty(), workspace_, scratch_offset_);
  llvm::Value* bytes = f_.b.CreateMul(bytes_of_scratch(kernel, launch),
                                      field(offsetof(KilnCall, num_threads), f_.b.getInt64Ty()));
  return runtime_call(offsetof(KilnRuntime, allocate), f_.b.getPtrTy(), {call_, bytes});
}

llvm::Value* HostEmitter::stores_nothing(const Kernel& kernel) {
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

void HostEmitter::launch(const Kernel& kernel) {
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
    count = f_.b.CreateMul(count,
                           attention_unit_count(f_, kernel.product_dtype, attention_sizes(launch)));
  llvm::Value* nothing = stores_nothing(kernel);
  if (nothing && launch.sequential) {
    f_.when(f_.b.CreateNot(nothing), [&] { start(kernel, launch, count); });
    return;
  }
  if (nothing) count = f_.b.CreateSelect(nothing, f_.i64(0), count);
  start(kernel, launch, count);
}

void HostEmitter::start(const Kernel& kernel, const KernelLaunch& launch, llvm::Value* count) {
  llvm::FunctionCallee callee =
      f_.module.getOrInsertFunction(symbols_.at(&kernel), kernel_type(f_.b));
  llvm::cast<llvm::Function>(callee.getCallee())
      ->setVisibility(llvm::GlobalValue::HiddenVisibility);
  llvm::Value* grain = launch.sequential ? count : grain_of(launch);
  auto* known = llvm::dyn_cast<llvm::ConstantInt>(count);
  if (known && known->isZero()) return;
  auto* known_grain = llvm::dyn_cast<llvm::ConstantInt>(grain);
  const bool alone =
      launch.sequential || (known && known->isOne()) ||
      (known && known_grain && known->getSExtValue() / 2 < known_grain->getSExtValue());
  if (alone)
    f_.b.CreateCall(callee, {slots_, f_.i64(0), count, f_.i64(0)});
  else
    f_.b.CreateCall(starter(f_.module, f_.isa),
                    {call_, callee.getCallee(), slots_, count, grain, f_.i64(launch.grain)});
}

Values HostEmitter::next_product(const Kernel& kernel) {
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

llvm::Value* HostEmitter::grain_of(const KernelLaunch& launch) {
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

}  // namespace kiln::compiler
