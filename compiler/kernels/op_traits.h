#pragma once

// What the builder asks about ops.

#include "kiln/graph/ir.h"
#include "kiln/graph/op_kind.h"

namespace kiln::compiler {

using graph::OpKind;

/// Ops that only show their operand in another way.
inline bool is_view(OpKind kind) {
  switch (kind) {
    case OpKind::reshape:
    case OpKind::rebind:
    case OpKind::broadcast_to:
    case OpKind::permute:
    case OpKind::squeeze:
    case OpKind::unsqueeze:
    case OpKind::slice:
    case OpKind::transfer_to:
      return true;
    default:
      return false;
  }
}

inline bool is_reduction(OpKind kind) {
  switch (kind) {
    case OpKind::reduce_sum:
    case OpKind::reduce_mean:
    case OpKind::reduce_max:
    case OpKind::reduce_min:
    case OpKind::reduce_prod:
    case OpKind::argmax:
    case OpKind::argmin:
      return true;
    default:
      return false;
  }
}

/// Ops whose result is always stored.
inline bool is_anchor(OpKind kind) {
  return is_reduction(kind) || kind == OpKind::matmul || kind == OpKind::concat ||
         kind == OpKind::pad || kind == OpKind::buffer_load || kind == OpKind::scatter ||
         kind == OpKind::top_k || kind == OpKind::bottom_k;
}

inline bool is_leaf(OpKind kind) {
  return kind == OpKind::constant || kind == OpKind::constant_external ||
         kind == OpKind::shape_to_tensor || kind == OpKind::range;
}

inline bool is_tensor(const graph::ir::Value* value) { return value->type.is_tensor(); }

}  // namespace kiln::compiler
