// Which values lie in memory.

#include <algorithm>
#include <bit>
#include <functional>
#include <set>
#include <utility>

#include "compiler/diagnostics.h"
#include "compiler/kernels/builder_state.h"
#include "compiler/kernels/constants.h"
#include "compiler/passes/passes.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

// Code of values that are computed where they are read, one from the other. Longer chains gain
// nothing, and code for them takes more than its share of time to make.
constexpr std::size_t kLongestChain = 64;
// As many ops cost less than a place in memory.
constexpr int kFewOps = 3;
// A single element is computed again where it is read, up to so many times.
constexpr int kManyReads = 16;

void Builder::find_users(const ir::Block& block) {
  for (const auto& op : block.ops) {
    find_convolved(*op);
    for (const ir::Value* operand : op->operands) {
      users_[operand].push_back(op.get());
      // What a region reads from outside lies in memory.
      if (operand->block != &block) require(operand);
    }
    for (const auto& region : op->regions) find_users(*region);
  }
}

void Builder::find_roots(const ir::Block& body) {
  // Users come before their operands, so whether a user is stored is known.
  for (auto it = body.ops.rbegin(); it != body.ops.rend(); ++it) {
    const ir::Op& op = **it;
    for (const auto& region : op.regions) find_roots(*region);
    working_on(op, [&] {
      for (const auto& result : op.results) decide(result.get());
      require_operands(op);
    });
  }
}

void Builder::decide(const ir::Value* value) {
  if (!is_tensor(value)) return;
  OpKind kind = value->producer->kind;
  int reads = 0;
  for (const ir::Op* user : users_[value]) reads += reads_through(*user);
  reads_[value] = reads;
  if (reads == 0 && users_[value].empty()) {
    if (is_scatter(kind)) roots_.insert(value);  // for its checks
    return;
  }
  if (is_leaf(kind) || value->producer->has_attribute(kInsideAttention)) return;
  if (is_view(kind)) return limit_chain(value);
  if (checks_numbers(*value->producer) && value->type.tensor().dtype.is_float())
    roots_.insert(value);
  bool one_element = value->type.tensor().shape.num_elements() == Dim(1);
  if (is_anchor(kind) || reads > (one_element ? kManyReads : 1) || is_turned_convolution(value))
    roots_.insert(value);
  limit_chain(value);
}

bool Builder::moves_channels(const ir::Op& permute) {
  const auto& dims = permute.attribute<std::vector<std::int64_t>>("dims");
  return !dims.empty() && dims.back() + 1 != static_cast<std::int64_t>(dims.size());
}

void Builder::find_convolved(const ir::Op& op) {
  if (op.results.size() != 1 || !is_tensor(op.result()) || !op.regions.empty()) return;
  const bool starts =
      is_windowed(op.kind) || (op.kind == OpKind::matmul && user_name(op).starts_with("conv"));
  const auto goes_on = [&](const ir::Value* operand) {
    return convolved_.count(operand) != 0 &&
           operand->type.tensor().shape == op.result()->type.tensor().shape;
  };
  const bool elementwise = !is_anchor(op.kind) && !is_view(op.kind);
  if (starts || (elementwise && std::any_of(op.operands.begin(), op.operands.end(), goes_on)))
    convolved_.insert(op.result());
}

bool Builder::is_turned_convolution(const ir::Value* value) {
  const std::vector<const ir::Op*>& users = users_[value];
  return std::any_of(users.begin(), users.end(),
                     [&](const ir::Op* user) {
                       return user->kind == OpKind::permute && moves_channels(*user);
                     }) &&
         convolved_.count(value) != 0;
}

void Builder::limit_chain(const ir::Value* value) {
  if (roots_.count(value)) return;
  std::size_t& chain = chains_[value];
  for (const ir::Op* user : users_[value])
    if (user->regions.empty() && !user->results.empty())
      if (auto it = chains_.find(user->result()); it != chains_.end())
        chain = std::max(chain, it->second + code_size(user->kind));
  if (chain + code_size(value->producer->kind) <= kLongestChain) return;
  roots_.insert(value);
  chains_.erase(value);
}

int Builder::reads_through(const ir::Op& user) {
  if (!user.regions.empty() || user.results.empty() || !is_tensor(user.result())) return 1;
  return roots_.count(user.result()) ? 1 : reads_[user.result()];
}

bool Builder::is_read_whole(const ir::Value* value) {
  const graph::Shape& shape = value->type.tensor().shape;
  if (std::find(shape.begin(), shape.end(), Dim(0)) != shape.end()) return false;
  if (roots_.count(value)) return true;
  if (auto it = read_whole_.find(value); it != read_whole_.end()) return it->second;
  bool whole = false;
  for (const ir::Op* user : users_[value]) {
    if (whole || user->kind == OpKind::slice) continue;
    if (user->kind == OpKind::gather || user->kind == OpKind::gather_nd)
      whole = user->operand(1) == value;  // indices are all checked, data would be a root
    else
      whole = user->results.empty() || !is_tensor(user->result()) || is_read_whole(user->result());
  }
  return read_whole_[value] = whole;
}

const ir::Value* Builder::base_of(const ir::Value* value) {
  while (value->producer && is_view(value->producer->kind)) value = value->producer->operand(0);
  return value;
}

const ir::Value* Builder::sliced_operand(const ir::Op& op) {
  if (op.kind == OpKind::slice) return op.operand(0);
  if (op.kind == OpKind::buffer_store_slice) return op.operand(1);
  return nullptr;
}

void Builder::require_itself(const ir::Value* value) {
  if (value->producer) roots_.insert(value);
}

void Builder::require(const ir::Value* value) {
  const ir::Value* base = base_of(value);
  if (base->producer && !is_leaf(base->producer->kind)) roots_.insert(base);
}

bool Builder::is_dear(const ir::Value* value) {
  int ops = 0;
  for (; value->producer && !is_anchor(value->producer->kind) && !is_leaf(value->producer->kind) &&
         !value->producer->operands.empty() && value->producer->regions.empty();
       value = value->producer->operand(0))
    if (!is_view(value->producer->kind) && ++ops > kFewOps) return true;
  return false;
}

void Builder::require_operands(const ir::Op& op) {
  if (is_scatter(op.kind))
    for (const ir::Value* operand : op.operands) require_itself(operand);
  switch (op.kind) {
    case OpKind::matmul:
      if (op.has_attribute(kInsideAttention)) {
        require(op.operand(0));
        require(op.operand(1));
      } else if (op.has_attribute(kAttention)) {
        require(op.operand(1));
      } else {
        require(op.operand(0));
      }
      break;
    case OpKind::gather:
    case OpKind::gather_nd:
    case OpKind::repeat_interleave:
    case OpKind::conv2d:
    case OpKind::conv3d:
    case OpKind::conv2d_transpose:
    case OpKind::max_pool2d:
    case OpKind::avg_pool2d:
      require(op.operand(0));
      // Indices that take work are worked out once, not for every element that they lead to.
      if (op.kind == OpKind::gather && op.operand(0)->type.tensor().rank() > 1 &&
          is_dear(op.operand(1)))
        require(op.operand(1));
      break;
    case OpKind::cond:
    case OpKind::while_loop:
    case OpKind::condition:
    case OpKind::print:
      for (const ir::Value* operand : op.operands)
        if (is_tensor(operand)) require_itself(operand);
      break;
    case OpKind::random_uniform:
    case OpKind::random_normal:
      // One kernel serves all seeds that lie in memory.
      if (!is_leaf(op.operand(0)->producer ? op.operand(0)->producer->kind : OpKind::constant))
        require(op.operand(0));
      break;
    case OpKind::slice:
    case OpKind::buffer_store_slice:
    case OpKind::range:
      for (const ir::Value* operand : op.operands)
        if (is_tensor(operand) && operand != sliced_operand(op)) require_itself(operand);
      break;
    default:
      break;
  }
  if (op.results.empty() || !is_tensor(op.result()) || is_view(op.kind) ||
      op.kind == OpKind::matmul || is_windowed(op.kind))
    return;
  // Work that a broadcast would repeat is done once.
  const graph::Shape& shape = op.result()->type.tensor().shape;
  for (const ir::Value* operand : op.operands) {
    if (!is_tensor(operand)) continue;
    const ir::Value* base = base_of(operand);
    if (!base->producer || is_leaf(base->producer->kind)) continue;
    const graph::Shape& from = operand->type.tensor().shape;
    if (from.num_elements() == Dim(1)) continue;
    bool elementwise = !is_anchor(op.kind) && op.kind != OpKind::gather;
    if (elementwise && from != shape) roots_.insert(base);
  }
}

}  // namespace kiln::compiler
