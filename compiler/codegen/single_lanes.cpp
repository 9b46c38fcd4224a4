#include "compiler/codegen/single_lanes.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace kiln::compiler {
namespace {

std::optional<unsigned> only_lane(const llvm::Constant& mask) {
  std::optional<unsigned> found;
  auto* type = llvm::cast<llvm::FixedVectorType>(mask.getType());
  for (unsigned i = 0; i < type->getNumElements(); ++i) {
    const llvm::Constant* lane = mask.getAggregateElement(i);
    if (lane && lane->isZeroValue()) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

}  // namespace

[[gnu::visibility("default")]] bool store_single_lanes(llvm::Function& function) {
  std::vector<llvm::IntrinsicInst*> stores;
  for (llvm::Instruction& instruction : llvm::instructions(function)) {
    auto* intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    if (intrinsic && intrinsic->getIntrinsicID() == llvm::Intrinsic::masked_store)
      stores.push_back(intrinsic);
  }
  bool changed = false;
  for (llvm::IntrinsicInst* store : stores) {
    const auto* mask = llvm::dyn_cast<llvm::Constant>(store->getArgOperand(2));
    std::optional<unsigned> lane = mask ? only_lane(*mask) : std::nullopt;
    if (!lane) continue;
    llvm::IRBuilder<> b(store);
    llvm::Value* value = b.CreateExtractElement(store->getArgOperand(0), std::uint64_t{*lane});
    llvm::Value* place = b.CreateConstGEP1_64(value->getType(), store->getArgOperand(1), *lane);
    llvm::Align align = store->getParamAlign(1).valueOrOne();
    const std::uint64_t size = function.getDataLayout().getTypeStoreSize(value->getType());
    b.CreateAlignedStore(value, place, llvm::commonAlignment(align, *lane * size));
    store->eraseFromParent();
    changed = true;
  }
  return changed;
}

}  // namespace kiln::compiler
