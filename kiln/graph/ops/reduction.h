#pragma once

#include <utility>

#include "kiln/graph/value.h"

namespace kiln::graph::ops {

/// The axis of a reduction; it stays with size 1. Out of range: ValueError.
struct AxisOptions {
  int axis = -1;
};

TensorValue sum(const TensorValueLike& x, int axis = -1);
TensorValue mean(const TensorValueLike& x, int axis = -1);
TensorValue prod(const TensorValueLike& x, int axis = -1);
/// int64; the first index of the extremum; NaN counts as the extremum.
TensorValue argmax(const TensorValueLike& x, int axis = -1);
TensorValue argmin(const TensorValueLike& x, int axis = -1);
TensorValue sum(const TensorValueLike& x, const AxisOptions& options);
TensorValue mean(const TensorValueLike& x, const AxisOptions& options);
TensorValue prod(const TensorValueLike& x, const AxisOptions& options);
TensorValue argmax(const TensorValueLike& x, const AxisOptions& options);
TensorValue argmin(const TensorValueLike& x, const AxisOptions& options);
/// NaN wins. (With two tensors: the elementwise ops.)
TensorValue max(const TensorValueLike& x, const AxisOptions& options = {});
TensorValue min(const TensorValueLike& x, const AxisOptions& options = {});

/// Options of `cumsum`.
struct CumsumOptions {
  int axis = -1;
  /// Leaves out the element itself, so that the first sum is 0.
  bool exclusive = false;
  /// Sums from the end.
  bool reverse = false;
};
/// The sums of the elements up to each one along an axis; runs on the CPU. float32 is summed in
/// float64.
TensorValue cumsum(const TensorValueLike& x, const CumsumOptions& options = {});

/// The `k` largest values in descending order and their int64 indices. NaN comes first, and equal
/// values in the order of their indices.
std::pair<TensorValue, TensorValue> top_k(const TensorValueLike& input, const Dim& k,
                                          int axis = -1);
/// The `k` smallest values in ascending order and their int64 indices. NaN comes last, and equal
/// values in the order of their indices.
std::pair<TensorValue, TensorValue> bottom_k(const TensorValueLike& input, const Dim& k,
                                             int axis = -1);
/// The int64 indices that sort a tensor of rank 1, stable in both directions; NaN is the largest
/// value. Another rank: ValueError.
TensorValue argsort(const TensorValueLike& x, bool ascending = true);

}  // namespace kiln::graph::ops
