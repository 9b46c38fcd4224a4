#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kiln::graph {

// Operands and attributes of every op. Elementwise ops broadcast their operands (from the right;
// a dim of 1 or a missing dim is repeated); all operands have one dtype, since promotion inserts
// explicit casts. "axis" is never negative. Chains: the last operand and last result of ops that
// have side effects.
//
// Dims in attributes are checked while the graph is built wherever their values are known. What is
// not known is marked "at run" below: the compiler emits a check, unless it can prove it. A symbol
// that neither an input nor an earlier op has defined is defined by the op whose result types
// mention it first (rebind, range, slice and broadcast_to with run-time operands).
//
// slice: result axis i holds x[starts[i] + k * steps[i]] for k in [0, size), with size =
// (stops[i] - starts[i] + steps[i] -+ 1) floor_div steps[i]. Starts and stops are offsets from the
// beginning of the axis (a negative step may stop at -1: one before the first element). Integer
// indices are slices of size 1 followed by squeeze. At run, for dims that are not static:
// 0 <= start <= n, 0 <= stop <= n, start <= stop, with the texts of spec'd slice errors
// ("slice start index {a} out of range for dimension size {n}", …).
// Bounds that are tensors: the attributes `dynamic_starts`, `dynamic_stops`, `dynamic_indices` and
// `dynamic_steps` list axes; for each listed axis one more operand (integer, one element, on the
// CPU) follows x, first those of the starts, then of the stops, of the indices and of the steps;
// starts[i] or stops[i] is then a placeholder 0, steps[i] a placeholder 1. A run-time start or stop
// lies in [-n, n], an index in [-n, n), a step is positive (checked at run); a negative bound or
// index adds n. An index axis has size 1 (start = index, stop = index + 1). With any of
// these, or when the user named result dims, `out_dims` is the whole result shape and each dim of
// it that the bounds do not already equal is compared at run.
// clang-format off
enum class OpKind : std::uint16_t {
  // Structure.
  output,       // (values…)                          terminator of a graph; chains last
  yield,        // (values…)                          terminator of a region; chains last
  condition,    // (bool, chains…)                    terminator of the `cond` region of while
  chain_create, // (chains…) -> chain                 a fresh chain, or the merge of several
  // Constants and shapes.
  constant,           // () {value: ConstantData}
  constant_external,  // () {name, align, device, placeholder}
  shape_to_tensor,    // () {shape: Shape} -> int64 [rank]
  range,              // (start, stop, step) scalars or () {start, stop, step: Dim or double}; both
                      // {out_dim: Dim}; with operands out_dim is compared at run
  random_uniform,     // (seed, lower, upper) {shape, dtype}, bounds of the dtype
  random_normal,      // (seed, mean, std) {shape, dtype}, mean and std float32
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
  reshape,       // (x) {shape: Shape}                equal numbers of elements, no -1
  rebind,        // (x) {shape: Shape, message} and optionally {layout}; each dim that differs from
                 // x's is checked at run or defines its symbol (a lone `c * s + d` with a new s)
  broadcast_to,  // (x) {shape: Shape} or (x, shape tensor) {shape}; the latter compared at run
  permute,       // (x) {dims: list of int}
  squeeze,       // (x) {axis}
  unsqueeze,     // (x) {axis}
  // Joining, cutting, moving.
  concat,        // (values…) {axis}
  slice,         // (x, scalar tensors…) {starts, stops: Shape, steps: list of int}, one an axis; see above
  pad,           // (x) or (x, value) {paddings: list of int, mode}; without value: 0
  tile,          // (x) {repeats: Shape}
  gather,        // (x, indices) {axis}
  gather_nd,     // (x, indices) {batch_dims}
  scatter, scatter_add, scatter_max, scatter_min, scatter_mul,  // (x, updates, indices) {axis}
  scatter_nd, scatter_nd_add, scatter_nd_max, scatter_nd_min,
  scatter_nd_mul,     // (x, updates, indices)
  nonzero,            // (x) {out_dim: Dim} and optionally {label}, the op that messages name
  repeat_interleave,  // (x, repeats) {axis, out_dim: Dim}; repeats: one count, or one an element
  // Products.
  matmul,        // (lhs, rhs), both of rank >= 2; batch axes broadcast
  // Convolutions and pooling, channels last. `padding`: before and after each spatial axis in turn,
  // of pools one number an axis for both. Result dims are checked at run where symbolic.
  conv2d,            // (x, filter RSCF) {stride, dilation, padding: ints, groups}
  conv3d,            // (x, filter QRSCF) as conv2d
  conv2d_transpose,  // (x, filter [R, S, out, in]) {stride, dilation, padding, output_paddings: ints}
  max_pool2d,        // (x) {kernel_size, stride, dilation, padding: ints, ceil_mode}
  avg_pool2d,        // (x) as max_pool2d and {count_boundary}
  // Reductions: (x) {axis}, the axis stays with size 1.
  reduce_sum, reduce_mean, reduce_max, reduce_min, reduce_prod, argmax, argmin,
  cumsum,        // (x) {axis, exclusive, reverse}
  // Softmax, norms, selection.
  softmax,       // (x) {axis}
  logsoftmax,    // (x) {axis}
  layer_norm,    // (x, gamma, beta) {epsilon}
  rms_norm,      // (x, weight) {epsilon, weight_offset, multiply_before_cast}
  top_k,         // (x) {axis, k: Dim} -> values, indices; k <= size at run where symbolic
  bottom_k,      // as top_k
  // Quantised blocks; encodings by name.
  dequantize,  // (quantized) {encoding}
  qmatmul,     // (lhs, rhs) {encoding}
  // Spectra and boxes.
  irfft,                    // (x) {n, axis, normalization, input_is_complex}
  roi_align,                // (input, rois) {output_height, output_width, spatial_scale,
                            // sampling_ratio, aligned, mode}, all float32
  non_maximum_suppression,  // (boxes, scores, most, iou_threshold, score_threshold) {out_dim: Dim}
  // Devices and side effects.
  transfer_to,         // (x) {device}, between two accelerators (x, chain) -> y, chain
  buffer_load,         // (buffer, chain) -> tensor, chain
  buffer_store,        // (buffer, tensor, chain) -> chain
  buffer_store_slice,  // (buffer, tensor, scalar tensors…, chain) {as slice} -> chain; axes picked
                       // by an integer have size 1 in the tensor
  buffer_create,       // () -> buffer
  print,               // (x, chain) {label} -> chain, or (chain) {label, text} -> chain
  // Control flow. Regions see the values of the blocks around them.
  cond,        // (predicate) two regions; results: values…, chains… as each region yields them
  while_loop,  // (initial values…, chains…) regions: condition and body, each with arguments of
               // the same types; the body gets the values and, as chains, those of `condition`
  call,        // (values…, chains…) {callee, prefix} -> values…, chains…
};
// clang-format on

/// The name in the IR text without "kiln.": that of the Python op, such as "matmul", "sum",
/// "buffer.load" or "slice_tensor". "max" and "min" stand both for the elementwise op and for the
/// reduction, which is the one with an `axis`; printing text is "print", a tensor "print.tensor".
std::string_view to_string(OpKind kind);
/// The kind with this name; "max" and "min" give the elementwise ones.
std::optional<OpKind> op_kind_from_string(std::string_view name);

}  // namespace kiln::graph
