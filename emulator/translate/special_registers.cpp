#include "emulator/execute/state.h"
#include "emulator/translate/function.h"

namespace kiln::emulator {
namespace {

int axis_of(std::string_view name) {
  if (name.ends_with(".x")) return 0;
  if (name.ends_with(".y")) return 1;
  return name.ends_with(".z") ? 2 : -1;
}

}  // namespace

llvm::Value* FunctionTranslator::linear_thread() {
  const auto extent = [&](int axis) {
    return block_field(offsetof(BlockState, threads) + 4 * axis, b_.getInt32Ty());
  };
  Value* row = b_.CreateAdd(hidden(kTidY), b_.CreateMul(hidden(kTidZ), extent(1)));
  return b_.CreateAdd(hidden(kTidX), b_.CreateMul(row, extent(0)));
}

llvm::Value* FunctionTranslator::lane() { return b_.CreateAnd(linear_thread(), b_.getInt32(31)); }

// Clusters have one block: a cluster is a block, and the grid of clusters is that of blocks.
llvm::Value* FunctionTranslator::special_register(std::string_view name) {
  const auto field = [&](std::size_t offset) { return block_field(offset, b_.getInt32Ty()); };
  const int axis = axis_of(name);
  const std::string_view stem = axis < 0 ? name : name.substr(0, name.size() - 2);
  if (axis >= 0) {
    if (stem == "%tid") return hidden(static_cast<HiddenArgument>(kTidX + axis));
    if (stem == "%ctaid" || stem == "%clusterid")
      return hidden(static_cast<HiddenArgument>(kCtaX + axis));
    if (stem == "%ntid") return field(offsetof(BlockState, threads) + 4 * axis);
    if (stem == "%nctaid" || stem == "%nclusterid")
      return field(offsetof(BlockState, blocks) + 4 * axis);
    if (stem == "%cluster_ctaid") return b_.getInt32(0);
    if (stem == "%cluster_nctaid") return b_.getInt32(1);
    return nullptr;
  }
  if (name == "%laneid") return lane();
  if (name == "%warpid") return b_.CreateLShr(linear_thread(), b_.getInt32(5));
  if (name == "%nwarpid") return b_.getInt32(64);
  if (name == "%smid") return field(offsetof(BlockState, multiprocessor));
  if (name == "%nsmid") return field(offsetof(BlockState, multiprocessors));
  if (name == "%gridid") return block_field(offsetof(BlockState, grid_id), b_.getInt64Ty());
  // Bytes of shared memory behind those of the kernel, which cooperative groups use.
  if (name.starts_with("%reserved_smem_offset_")) {
    Value* begin = field(offsetof(BlockState, reserved_offset));
    if (name == "%reserved_smem_offset_begin" || name == "%reserved_smem_offset_1") return begin;
    Value* end = b_.CreateAdd(begin, b_.getInt32(kReservedShared));
    return name == "%reserved_smem_offset_end" || name == "%reserved_smem_offset_cap" ? end
                                                                                      : nullptr;
  }
  // Cooperative groups find the words of their grid's barrier through these two.
  if (name == "%envreg1" || name == "%envreg2") {
    Value* address = block_field(offsetof(BlockState, workspace), b_.getInt64Ty());
    return b_.CreateTrunc(name == "%envreg1" ? b_.CreateLShr(address, 32) : address,
                          b_.getInt32Ty());
  }
  if (name == "%cluster_ctarank") return b_.getInt32(0);
  if (name == "%cluster_nctarank") return b_.getInt32(1);
  if (name == "%is_explicit_cluster") return b_.getInt1(false);
  if (name == "%dynamic_smem_size") return field(offsetof(BlockState, dynamic_bytes));
  if (name == "%total_smem_size" || name == "%aggr_smem_size")
    return field(offsetof(BlockState, shared_bytes));
  Value* one = b_.getInt32(1);
  if (name == "%lanemask_eq") return b_.CreateShl(one, lane());
  if (name == "%lanemask_lt") return b_.CreateSub(b_.CreateShl(one, lane()), one);
  if (name == "%lanemask_le") return b_.CreateSub(b_.CreateShl(b_.getInt32(2), lane()), one);
  if (name == "%lanemask_gt")
    return b_.CreateNot(b_.CreateSub(b_.CreateShl(b_.getInt32(2), lane()), one));
  if (name == "%lanemask_ge") return b_.CreateNot(b_.CreateSub(b_.CreateShl(one, lane()), one));
  if (name == "%clock64") return call("kiln_clock", b_.getInt64Ty(), {});
  if (name == "%clock")
    return b_.CreateTrunc(call("kiln_clock", b_.getInt64Ty(), {}), b_.getInt32Ty());
  if (name == "%clock_hi")
    return b_.CreateTrunc(b_.CreateLShr(call("kiln_clock", b_.getInt64Ty(), {}), 32),
                          b_.getInt32Ty());
  Value* time = nullptr;
  if (name.starts_with("%globaltimer")) time = call("kiln_global_timer", b_.getInt64Ty(), {});
  if (name == "%globaltimer") return time;
  if (name == "%globaltimer_lo") return b_.CreateTrunc(time, b_.getInt32Ty());
  if (name == "%globaltimer_hi") return b_.CreateTrunc(b_.CreateLShr(time, 32), b_.getInt32Ty());
  return nullptr;
}

}  // namespace kiln::emulator
