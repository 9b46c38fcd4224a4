// Memory of a call: extents and sizes, the one block that everything but results lies in, and the
// address of each tensor. Sizes are computed with overflow checks; extents of 0 make any product 0
// whatever the others are.

#include <algorithm>
#include <cstddef>

#include "compiler/codegen/host_emitter.h"
#include "compiler/diagnostics.h"
#include "compiler/passes/passes.h"
#include "kiln/runtime/abi.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/sanitizer.h"

namespace kiln::compiler {

namespace {

// Bytes that a process can address.
constexpr std::int64_t kAddressSpace = std::int64_t{1} << 47;

}  // namespace

llvm::Value* HostEmitter::load(llvm::Type* type, llvm::Value* pointer) {
  llvm::LoadInst* value = f_.b.CreateAlignedLoad(type, pointer, llvm::Align(8));
  value->setMetadata(llvm::LLVMContext::MD_invariant_load,
                     llvm::MDNode::get(f_.b.getContext(), {}));
  return value;
}

llvm::Value* HostEmitter::field(std::size_t offset, llvm::Type* type) {
  llvm::Value* pointer =
      f_.element(f_.b.getInt8Ty(), call_, f_.i64(static_cast<std::int64_t>(offset)));
  return load(type, pointer);
}

llvm::Value* HostEmitter::item(llvm::Type* type, llvm::Value* array, std::int64_t index) {
  return load(type, f_.element(type, array, f_.i64(index)));
}

llvm::Value* HostEmitter::runtime_call(std::size_t field_offset, llvm::Type* result,
                                       const std::vector<llvm::Value*>& arguments) {
  std::vector<llvm::Type*> types;
  for (llvm::Value* argument : arguments) types.push_back(argument->getType());
  return f_.b.CreateCall(llvm::FunctionType::get(result, types, false),
                         runtime_function(f_, call_, field_offset), arguments);
}

llvm::Value* HostEmitter::extents_of(const Tensor& tensor) {
  auto rank = static_cast<std::int64_t>(tensor.shape.size());
  llvm::Value* extents = f_.stack_slot(f_.b.getInt64Ty(), std::max<std::int64_t>(1, rank), 8);
  for (std::int64_t i = 0; i < rank; ++i)
    f_.b.CreateStore(dim(tensor.shape[static_cast<std::size_t>(i)]),
                     f_.element(f_.b.getInt64Ty(), extents, f_.i64(i)));
  return extents;
}

llvm::Value* HostEmitter::bytes_of(const Tensor& tensor, bool early) {
  return working_on(std::span(&tensor.origin, 1), [&] { return sized(tensor, early); });
}

llvm::Value* HostEmitter::sized(const Tensor& tensor, bool early) {
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

void HostEmitter::allocate() {
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
    if (needed) workspace_ = runtime_call(offsetof(KilnRuntime, allocate), pointer, {call_, total});
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

llvm::Value* HostEmitter::end_of_slot(llvm::Value* offset, llvm::Value* bytes) {
  llvm::Value* rounded_up = f_.b.CreateAnd(f_.b.CreateAdd(bytes, f_.i64(63)), f_.i64(-64));
  llvm::Value* end = f_.b.CreateAdd(offset, rounded_up);
  if constexpr (!kAddressSanitizer) return end;
  llvm::Value* next = f_.b.CreateAdd(end, f_.i64(64));
  guards_.emplace_back(f_.b.CreateAdd(offset, bytes), next);
  return next;
}

void HostEmitter::guard_slots() {
  for (const auto& [begin, end] : guards_) {
    auto* type =
        llvm::FunctionType::get(f_.b.getVoidTy(), {f_.b.getPtrTy(), f_.b.getInt64Ty()}, false);
    f_.b.CreateCall(f_.module.getOrInsertFunction("__asan_poison_memory_region", type),
                    {f_.element(f_.b.getInt8Ty(), workspace_, begin), f_.b.CreateSub(end, begin)});
  }
}

void HostEmitter::refuse_above_address_space(llvm::Value* bytes, const Kernel& kernel) {
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

llvm::Value* HostEmitter::scratch_bytes() {
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

bool HostEmitter::has_known_size(const KernelLaunch& launch) const {
  std::vector<Dim> dims = {launch.scratch_bytes};
  if (launch.attention)
    dims = {launch.attention->rows, launch.attention->keys, launch.attention->depth,
            launch.attention->width};
  const auto& parameters = program_.graph->parameters;
  for (const Dim& d : dims)
    for (const std::string& symbol : d.parameters())
      if (std::find(parameters.begin(), parameters.end(), symbol) == parameters.end()) return false;
  return true;
}

llvm::Value* HostEmitter::bytes_of_scratch(const Kernel& kernel, const KernelLaunch& launch) {
  if (launch.attention)
    return attention_scratch_bytes(f_, kernel.product_dtype, attention_sizes(launch));
  return dim(launch.scratch_bytes);
}

AttentionOperands HostEmitter::attention_sizes(const KernelLaunch& launch) {
  AttentionOperands operands{};
  operands.rows = dim(launch.attention->rows);
  operands.keys = dim(launch.attention->keys);
  operands.depth = dim(launch.attention->depth);
  operands.width = dim(launch.attention->width);
  return operands;
}

llvm::Value* HostEmitter::pointer_of(int id) {
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

}  // namespace kiln::compiler
