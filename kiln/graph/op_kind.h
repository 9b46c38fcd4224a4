#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kiln::graph {

// Operands and attributes of every op. Elementwise ops broadcast their operands (from the right;
// a dim of 1 or a missing dim is repeated); all operands have one dtype, since promotion inserts
// explicit casts. "axis" is never negative. Chains: the last operand and last result of ops that
// have side effects.
enum class OpKind : std::uint16_t {
  // Structure.
  output,       // (values…)                          terminator of a graph
  yield,        // (values…)                          terminator of a region
  condition,    // (bool)                             terminator of the `cond` region of while
  chain_create, // () -> chain
  // Constants and shapes.
  constant,           // () {value: ConstantData}
  constant_external,  // () {name, align, device, placeholder}
  shape_to_tensor,    // () {shape: Shape} -> int64 [rank]
  range,              // (start, stop, step) scalars or () {start, stop, step: Dim or double} {out_dim: Dim}
  // Elementwise, two operands.
  add, sub, mul, div, mod, pow, max, min,
  equal, not_equal, greater, greater_equal,
  logical_and, logical_or, logical_xor,
  // Elementwise, one operand.
  abs, negate, ceil, floor, trunc, round, exp, log, log1p, sqrt, rsqrt, sin, cos, erf, tanh, atanh,
  acos, relu, sigmoid, silu, gelu /* {approximate} */, is_nan, is_inf, logical_not,
  cast,    // (x) {dtype}
  // Elementwise, three operands.
  where,   // (condition, x, y)
  // Views.
  reshape,       // (x) {shape: Shape}
  rebind,        // (x) {shape: Shape, message} or with {layout}
  broadcast_to,  // (x) {shape: Shape} or (x, shape tensor) {shape}
  permute,       // (x) {dims: list of int}
  squeeze,       // (x) {axis}
  unsqueeze,     // (x) {axis}
  // Joining, cutting, moving.
  concat,        // (values…) {axis}
  slice,         // (x) {starts, stops: Shape, steps: list of int} one a axis; or with scalar tensors, see ops/movement.cpp
  pad,           // (x) or (x, value) {paddings: list of int, mode}
  tile,          // (x) {repeats: list of int or Shape}
  gather,        // (x, indices) {axis}
  gather_nd,     // (x, indices) {batch_dims}
  scatter,       // (x, updates, indices) {axis}
  // Products.
  matmul,        // (lhs, rhs), both of rank >= 2; batch axes broadcast
  // Reductions: (x) {axis}, the axis stays with size 1.
  reduce_sum, reduce_mean, reduce_max, reduce_min, reduce_prod, argmax, argmin,
  // Softmax, norms, selection.
  softmax,       // (x) {axis}
  logsoftmax,    // (x) {axis}
  layer_norm,    // (x, gamma, beta) {epsilon}
  rms_norm,      // (x, weight) {epsilon, weight_offset, multiply_before_cast}
  top_k,         // (x) {axis, k: Dim} -> values, indices
  // Devices and side effects.
  transfer_to,         // (x) {device}
  buffer_load,         // (buffer, chain) -> tensor, chain
  buffer_store,        // (buffer, tensor, chain) -> chain
  buffer_store_slice,  // (buffer, tensor, chain) {starts, stops, steps} -> chain
  buffer_create,       // () -> buffer
  print,               // (x, chain) {label} -> chain
  // Control flow.
  cond,        // (predicate) two regions
  while_loop,  // (initial values…) regions: condition, body
  call,        // (values…, chain) {callee, prefix} -> values…, chain
};

/// The name in the IR text without "kiln.", such as "matmul", "buffer.load" or "reduce.sum".
std::string_view to_string(OpKind kind);
std::optional<OpKind> op_kind_from_string(std::string_view name);

}  // namespace kiln::graph
