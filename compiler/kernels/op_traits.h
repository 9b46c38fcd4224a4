#pragma once

// What the builder asks about ops.

#include <cstddef>
#include <optional>

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

/// How much code the op becomes, in plain operations: functions are polynomials, and those of
/// angles reduce their argument in double before.
inline std::size_t code_size(OpKind kind) {
  switch (kind) {
    case OpKind::sin:
    case OpKind::cos:
      return 16;
    case OpKind::exp:
    case OpKind::log:
    case OpKind::log1p:
    case OpKind::erf:
    case OpKind::tanh:
    case OpKind::atanh:
    case OpKind::acos:
    case OpKind::sigmoid:
    case OpKind::silu:
    case OpKind::gelu:
    case OpKind::pow:
      return 3;
    default:
      return 1;
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

/// Ops that put updates into a copy of their input where indices say.
inline bool is_scatter(OpKind kind) {
  switch (kind) {
    case OpKind::scatter:
    case OpKind::scatter_add:
    case OpKind::scatter_max:
    case OpKind::scatter_min:
    case OpKind::scatter_mul:
    case OpKind::scatter_nd:
    case OpKind::scatter_nd_add:
    case OpKind::scatter_nd_max:
    case OpKind::scatter_nd_min:
    case OpKind::scatter_nd_mul:
      return true;
    default:
      return false;
  }
}

/// What such an op makes of an element and an update; none: the update takes its place.
inline std::optional<OpKind> combiner_of(OpKind scatter) {
  switch (scatter) {
    case OpKind::scatter_add:
    case OpKind::scatter_nd_add:
      return OpKind::add;
    case OpKind::scatter_max:
    case OpKind::scatter_nd_max:
      return OpKind::max;
    case OpKind::scatter_min:
    case OpKind::scatter_nd_min:
      return OpKind::min;
    case OpKind::scatter_mul:
    case OpKind::scatter_nd_mul:
      return OpKind::mul;
    default:
      return std::nullopt;
  }
}

/// Ops that a function of the runtime works out.
inline bool is_library_call(OpKind kind) {
  switch (kind) {
    case OpKind::top_k:
    case OpKind::bottom_k:
    case OpKind::cumsum:
    case OpKind::nonzero:
    case OpKind::dequantize:
    case OpKind::qmatmul:
    case OpKind::irfft:
    case OpKind::roi_align:
    case OpKind::non_maximum_suppression:
      return true;
    default:
      return false;
  }
}

/// Ops that read their input through windows.
inline bool is_windowed(OpKind kind) {
  switch (kind) {
    case OpKind::conv2d:
    case OpKind::conv3d:
    case OpKind::conv2d_transpose:
    case OpKind::max_pool2d:
    case OpKind::avg_pool2d:
      return true;
    default:
      return false;
  }
}

/// Ops whose result is always stored.
inline bool is_anchor(OpKind kind) {
  return is_reduction(kind) || is_windowed(kind) || is_scatter(kind) || is_library_call(kind) ||
         kind == OpKind::matmul || kind == OpKind::concat || kind == OpKind::pad ||
         kind == OpKind::buffer_load;
}

inline bool is_leaf(OpKind kind) {
  return kind == OpKind::constant || kind == OpKind::constant_external ||
         kind == OpKind::shape_to_tensor || kind == OpKind::range;
}

inline bool is_tensor(const graph::ir::Value* value) { return value->type.is_tensor(); }

}  // namespace kiln::compiler
